"""One FTC instance with everything a request may add to the paper's problem.

minimise   the sum of cost(v) over the backups B
such that  L(v) <= R(v) for every task v, required tasks are in B, forbidden ones are not

R(v) is the global bound or the operator's own `max_recovery`, whichever is smaller.

A forbidden task (and a hub of a Full link) passes everything it waited for on to its consumers, so
it must itself be done early enough for each of them. `caps` folds that into the bounds:
cap(v) = R(v), for a forbidden v also at most cap(w) - T(w) of every consumer w. With caps in place
of bounds no algorithm has to look further than one link ahead, and the instance is feasible
exactly when T(v) <= cap(v) everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from holdfast.errors import BadInputError
from holdfast.planners.ftc.effects import (
    EffectGraph,
    Sources,
    effect_graph,
    plain_graph,
    reprocess_times,
    slack,
)
from holdfast.planners.interface import PlanRequest
from holdfast.topology.graph import Topology, iter_links, per_task
from holdfast.topology.rates import task_rates
from holdfast.topology.tasks import FloatArray

PLAIN_LINKS = 5_000_000
"""Most task pairs that are ever spelled out; beyond, only algorithms that keep hubs work."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FtcProblem:
    """Numbers per node of `graph`: the tasks in topology order, then hubs."""

    graph: EffectGraph
    limit: float
    """R, as asked for."""
    times: list[float]
    """T; 0 for hubs."""
    bounds: list[float]
    """R(v), without tolerance; infinite for hubs."""
    caps: list[float]
    """The largest L(v) that every later task can live with; includes the tolerance."""
    costs: list[float]
    """Cost of a backup; infinite where none is allowed."""
    required: bytearray
    """1: a backup in every plan, and paid for."""
    durable: bytearray
    """1: a source whose output survives anyway; never listed, never paid for."""
    sources: Sources

    @property
    def obstacle(self) -> int | None:
        """A task that no plan can bring within its bound, or None if a plan exists."""
        times, caps = self.times, self.caps
        return next((v for v in range(self.graph.tasks) if times[v] > caps[v]), None)

    @property
    def equal_costs(self) -> bool:
        """Whether every backup that is still open costs the same."""
        given = self.given
        seen = {c for v, c in enumerate(self.costs) if c < math.inf and not given[v]}
        return len(seen) <= 1

    @property
    def given(self) -> bytearray:
        """Backups that every plan starts from."""
        return bytearray(a | b for a, b in zip(self.required, self.durable, strict=True))

    def cost_of(self, backed: bytearray) -> float:
        """What the backups cost in all."""
        costs, durable, required = self.costs, self.durable, self.required
        return math.fsum(
            costs[v]
            for v in range(self.graph.tasks)
            if backed[v] and (required[v] or not durable[v])
        )


def make_problem(topology: Topology, request: PlanRequest) -> FtcProblem:
    """Read an instance; one clear line for what cannot be meant."""
    if request.max_recovery is None:
        raise BadInputError(
            "FTC needs a bound on recovery",
            where="--max-recovery",
            hint=f"write for example --max-recovery 10 (in {topology.unit.time})",
        )
    limit = float(request.max_recovery)
    if not limit >= 0.0:
        raise BadInputError(
            f"is {limit:g}", where="--max-recovery", hint="write a number of 0 or more"
        )
    graph = effect_graph(topology)
    hubs = graph.nodes - graph.tasks
    required, forbidden = _choices(graph, request)
    durable = bytearray(graph.nodes)
    if request.sources == "durable":
        for v in graph.sources:
            durable[v] = 1
    costs = _costs(topology, request).tolist() + [math.inf] * hubs
    for v in range(graph.tasks):
        if forbidden[v]:
            costs[v] = math.inf
    times = [*reprocess_times(topology, expected=request.expected).tolist(), *([0.0] * hubs)]
    bounds = [*_bounds(topology, limit), *([math.inf] * hubs)]
    return FtcProblem(
        graph=graph,
        limit=limit,
        times=times,
        bounds=bounds,
        caps=_caps(graph, times, bounds, costs, durable),
        costs=costs,
        required=required,
        durable=durable,
        sources=request.sources,
    )


def spelled_out(problem: FtcProblem, algorithm: str) -> FtcProblem:
    """The same instance without hubs, for algorithms that reason on task pairs."""
    graph = problem.graph
    if graph.nodes == graph.tasks:
        return problem
    widths = [operator.parallelism for operator in graph.topology.operators]
    links = sum(
        widths[u] * widths[v] if kind == "full" else max(widths[u], widths[v])
        for _, u, v, kind in iter_links(graph.topology)
    )
    if links > PLAIN_LINKS:
        raise BadInputError(
            f"{algorithm} looks at every pair of linked tasks, and here are {links:,}",
            where="--algorithm",
            hint="write auto or late",
        )
    n = graph.tasks
    return replace(
        problem,
        graph=plain_graph(graph.topology),
        times=problem.times[:n],
        bounds=problem.bounds[:n],
        caps=problem.caps[:n],
        costs=problem.costs[:n],
        required=problem.required[:n],
        durable=problem.durable[:n],
    )


def _choices(graph: EffectGraph, request: PlanRequest) -> tuple[bytearray, bytearray]:
    required, forbidden = bytearray(graph.nodes), bytearray(graph.nodes)
    start = 0
    for operator in graph.topology.operators:
        stop = start + operator.parallelism
        if operator.backup != "free":
            flags = required if operator.backup == "required" else forbidden
            flags[start:stop] = b"\1" * (stop - start)
        start = stop
    for flags, names, where in (
        (required, request.required, "--required"),
        (forbidden, request.forbidden, "--forbidden"),
    ):
        for name in names:
            try:
                tasks = graph.resolve(name)
            except BadInputError:
                raise BadInputError(
                    f"there is no task or operator {name!r}",
                    where=where,
                    hint=f"task ids look like {graph.names[0]!r}",
                ) from None
            for task in tasks:
                flags[task] = 1
    for v in range(graph.tasks):
        if required[v] and forbidden[v]:
            raise BadInputError(
                f"task {graph.names[v]!r} is both required and forbidden as a backup",
                where="--required",
                hint="drop one of the two",
            )
    return required, forbidden


def _costs(topology: Topology, request: PlanRequest) -> FloatArray:
    out = np.ones(topology.task_count)
    if request.cost == "count":
        return out
    if request.cost == "bytes":
        return logged_bytes(topology)
    start = 0
    for operator in topology.operators:
        stop = start + operator.parallelism
        if operator.backup_cost is not None:
            out[start:stop] = per_task(operator.backup_cost, operator.parallelism)
        start = stop
    return out


def logged_bytes(topology: Topology) -> FloatArray:
    """Size units per time unit that a task's backup writes: its output rate times tuple size.

    The size of an output tuple is what its consumers receive; if they disagree, the largest, since
    the output is logged once for all of them. A sink's output has the size of its input.
    """
    if not any(topology.rates.values()) and not any(map(any, topology.task_rates.values())):
        raise BadInputError(
            "the bytes that a backup logs are unknown without rates",
            where="--cost bytes",
            hint="give the sources' rates in the file, or write --cost count",
        )
    sizes = [
        max(per_task(operator.tuple_size, operator.parallelism)) for operator in topology.operators
    ]
    emitted = task_rates(topology).output.copy()
    start = 0
    for i, operator in enumerate(topology.operators):
        stop = start + operator.parallelism
        emitted[start:stop] *= max((sizes[j] for j in topology.downstream[i]), default=sizes[i])
        start = stop
    return emitted


def _bounds(topology: Topology, limit: float) -> list[float]:
    out: list[float] = []
    for operator in topology.operators:
        own = operator.max_recovery
        bound = limit if own is None or own > limit else own
        out.extend([bound] * operator.parallelism)
    return out


def _caps(
    graph: EffectGraph,
    times: list[float],
    bounds: list[float],
    costs: list[float],
    durable: bytearray,
) -> list[float]:
    caps = [slack(bound) if bound < math.inf else bound for bound in bounds]
    successors = graph.successors
    for v in reversed(graph.order):
        if costs[v] == math.inf and not durable[v]:
            cap = caps[v]
            for w in successors[v]:
                room = caps[w] - times[w]
                cap = min(cap, room)
            caps[v] = cap
    return caps
