"""Random joint-planning problems, small enough for brute force or as large as a planner must bear.

Rates are scaled so that the busiest chain of operators has from a third to one and a half
times the work that one shard can do, and no operator alone more than half of it: below nobody has
to cut, above nobody can avoid to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from holdfast.planners.interface import PlanRequest
from holdfast.planners.joint.problem import Choice, Nodes, Problem, make_problem
from holdfast.predict.demand import WORK
from holdfast.predict.recovery import RecoveryModel
from holdfast.predict.segments import SegmentPlan, segments_of
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Measure,
    OperatorStatistics,
    Statistics,
)
from holdfast.topology.graph import Edge, Operator, Topology

LEVELS = (1.0, 2.0, 4.0, 8.0)


def random_joint_problem(
    seed: int, *, most_operators: int = 8, operators: int | None = None
) -> tuple[Topology, PlanRequest]:
    """A random DAG of 2 to `most_operators` operators, or of so many, with bounds to keep."""
    rng = np.random.default_rng(seed)
    size = operators or int(rng.integers(2, most_operators + 1))
    topology = _loaded(_random_dag(rng, size), rng)
    machine = replace(
        REFERENCE_MACHINE,
        cores=int(rng.integers(2, 5)) + size,
        batch_floor=Measure(value=0.1, p95=0.15, how="drawn"),
        batch_cpu=Measure(value=0.05, how="drawn"),
        spare_cost=Measure(value=float(rng.choice([0.02, 0.1, 0.3])), how="drawn"),
    )
    uncertain = {
        operator.name: OperatorStatistics(
            cost=Measure(value=_number(operator.cost), error=0.05 * _number(operator.cost)),
            skew=Measure(value=float(rng.choice([1.0, 1.3]))),
            one_epoch_per_batch=bool(rng.random() < 0.01),
            thread=bool(not topology.upstream[i] and rng.random() < 0.5),
        )
        for i, operator in enumerate(topology.operators)
    }
    tightness = rng.random(3)
    return topology, PlanRequest(
        statistics=Statistics(machine=machine, operators=uncertain),
        intervals=LEVELS,
        snapshots=(1, 10),
        max_replicas=0,
        max_recovery=float(rng.uniform(4.0, 25.0)) if tightness[0] < 0.9 else None,
        max_latency=float(rng.uniform(2.0, 12.0)) if tightness[1] < 0.5 else None,
        max_overhead=float(rng.uniform(0.02, 0.6)) if tightness[2] < 0.3 else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A problem small enough for every plan to be looked at."""

    topology: Topology
    request: PlanRequest
    problem: Problem


def brute_force_case(seed: int) -> Case:
    """A random problem of 2 to 4 operators on up to 3 nodes, few cores, two levels."""
    rng = np.random.default_rng(seed + 10_000)
    topology, request = random_joint_problem(seed, most_operators=4)
    statistics = request.statistics or Statistics()
    machine = replace(statistics.machine, cores=int(rng.integers(2, 5)))
    tight = rng.random(3)
    request = replace(
        request,
        statistics=replace(statistics, machine=machine),
        intervals=(1.0, 4.0),
        snapshots=(1, 10) if len(topology.operators) < 4 else (10,),
        nodes=None if tight[0] < 0.7 else int(rng.integers(1, 3)),
        max_recovery=float(rng.uniform(2.0, 14.0)) if tight[1] < 0.8 else None,
        max_outage=float(rng.uniform(3.0, 24.0)) if tight[2] < 0.6 else None,
        max_overhead=None,
    )
    return Case(topology=topology, request=request, problem=make_problem(topology, request))


def every_plan(problem: Problem) -> float:
    """The least cost of all plans that keep the bounds, each looked at whole; infinite: none."""
    best = math.inf
    for count in range(len(problem.free) + 1):
        for cuts in combinations(problem.free, count):
            parts = segments_of(problem.topology, set(problem.fixed) | set(cuts))
            hot = (False, True) if problem.max_replicas else (False,)
            ways = list(product(problem.levels.tolist(), problem.snapshots, hot))
            for chosen in product(ways, repeat=len(parts)):
                segments = tuple(
                    SegmentPlan(
                        operators=part,
                        interval_s=level,
                        snapshot_batches=snapshots,
                        replicated=replicated,
                    )
                    for part, (level, snapshots, replicated) in zip(parts, chosen, strict=True)
                )
                best = min(best, _cheapest(problem, segments, best))
    return best


def _cheapest(problem: Problem, segments: tuple[SegmentPlan, ...], below: float) -> float:
    """The least cost of these segments over sizes and placements, if it is below."""
    for size in problem.sizes:
        if problem.cost(problem.pace(segments).cpu, size) >= below:
            continue
        for nodes in _placements(len(segments), size.nodes):
            found = problem.evaluate(Choice(segments=segments, spares=size.spares, nodes=nodes))
            if not found.broken:
                below = min(below, found.cost)
    return below


def _placements(segments: int, nodes: int) -> set[Nodes]:
    """Every way to give each segment a node."""
    found = set()
    for homes in product(range(nodes), repeat=segments):
        found.add(tuple(tuple(i for i in range(segments) if homes[i] == n) for n in range(nodes)))
    return found


def _number(value: float | tuple[float, ...]) -> float:
    return value if isinstance(value, float) else sum(value) / len(value)


def _random_dag(rng: np.random.Generator, size: int) -> Topology:
    """Mostly chains, so that there is something to cut; some joins, some fan-out, some state."""
    operators = tuple(
        Operator(
            name=f"op{i + 1}",
            selectivity=float(rng.choice([0.3, 0.7, 1.0, 1.0, 3.0])),
            cost=float(rng.uniform(1e-6, 3e-5)),
            tuple_size=float(rng.uniform(0.05, 0.4)),
            state_size=float(rng.choice([0.0, 0.0, 0.0, 2e3, 5e4])),
            failure_rate=float(rng.choice([0.0, 0.0, 2e-3])),
            max_recovery=float(rng.uniform(6.0, 12.0)) if rng.random() < 0.05 else None,
        )
        for i in range(size)
    )
    pairs: dict[tuple[int, int], None] = {}
    unread = [0]
    for v in range(1, size):
        kind = rng.random()
        if kind < 0.12:
            unread.append(v)  # another source
            continue
        if kind < 0.3 and len(unread) > 1:
            taken = [unread.pop(int(rng.integers(len(unread)))) for _ in range(2)]
        elif kind < 0.9:
            taken = [unread.pop(int(rng.integers(len(unread))))]
        else:
            taken = [int(rng.integers(v))]
            unread = [u for u in unread if u not in taken]
        pairs.update({(u, v): None for u in taken})
        unread.append(v)
    return Topology(
        name="random",
        operators=operators,
        edges=tuple(
            Edge(source=operators[u].name, target=operators[v].name, partitioning="one-to-one")
            for u, v in pairs
        ),
    )


def _loaded(topology: Topology, rng: np.random.Generator) -> Topology:
    sources = [topology.operators[i].name for i in topology.sources]
    even = replace(topology, rates={name: float(rng.uniform(50, 500)) for name in sources})
    model = RecoveryModel(even)
    alone = (model.demands.member + model.demands.closing)[:, WORK]
    heaviest = np.zeros(len(alone))
    for v in topology.order:
        above = max((heaviest[u] for u in topology.upstream[v]), default=0.0)
        heaviest[v] = model.demands.member[v, WORK] + above
    wanted = float(rng.uniform(0.3, 1.6)) / float(heaviest.max())
    scale = min(wanted, float(rng.uniform(0.1, 0.5)) / float(alone.max()))
    return replace(even, rates={name: rate * scale for name, rate in even.rates.items()})
