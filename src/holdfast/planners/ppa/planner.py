"""The PPA planner: requests in, replication plans and recovery orders out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast.errors import BadInputError
from holdfast.plan import Plan, RecoveryPlan, ReplicationPlan
from holdfast.planners.interface import PlanRequest, Solve, Sweep
from holdfast.planners.ppa.auto import auto
from holdfast.planners.ppa.dp import dp
from holdfast.planners.ppa.exact import exact
from holdfast.planners.ppa.explain import explain_plan, explain_recovery
from holdfast.planners.ppa.fidelity import BoolArray, fidelity_model
from holdfast.planners.ppa.greedy import greedy
from holdfast.planners.ppa.problem import Choice, Problem, failed_tasks, problem_of
from holdfast.planners.ppa.recovery import (
    AUTO_EXACT_TASKS,
    Recovery,
    exact_order,
    inc,
    topological,
)
from holdfast.planners.ppa.sa import sa
from holdfast.planners.ppa.sa_as_printed import sa_as_printed
from holdfast.planners.ppa.sweep import sweep_budget
from holdfast.topology.graph import Topology

Algorithm = Callable[[Problem, Solve], Choice]

REPLICATION: Mapping[str, Algorithm] = {
    "auto": auto,
    "exact": exact,
    "dp": dp,
    "sa": sa,
    "greedy": greedy,
    "sa-as-printed": sa_as_printed,
}
COMPLETE = {"auto", "exact", "dp", "sa"}
"""Those that complete a path whenever the budget pays for one."""
RECOVERY = ("auto", "inc", "to", "exact")


@dataclass(frozen=True, slots=True)
class PpaPlanner:
    """Passive and partially active replication: what to replicate, what to bring back first."""

    @property
    def method(self) -> str:
        return "ppa"

    @property
    def algorithms(self) -> Mapping[str, str]:
        return {
            "auto": "exact where quick, else sa; with --recover: exact where quick, else inc",
            "exact": "proved optimum, or the best found with a bound",
            "dp": "the paper's search over sets of MC-trees (small topologies)",
            "sa": "structure-aware growth, repaired and polished",
            "greedy": "the tasks whose single failure hurts most",
            "sa-as-printed": "the paper's structure-aware algorithm, for comparison",
            "inc": "with --recover: incremental recovery",
            "to": "with --recover: topological order",
        }

    @property
    def uses(self) -> frozenset[str]:
        return frozenset(
            {
                "replicas",
                "failed",
                "failed_domains",
                "required",
                "forbidden",
                "recover",
                "slots",
                "arrivals",
            }
        )

    def plan(self, topology: Topology, request: PlanRequest, solve: Solve) -> Plan:
        if request.recover:
            return _recover(topology, request, solve)
        if request.slots is not None or request.arrivals:
            raise BadInputError(
                "slots belong to a recovery",
                where="--slots" if request.slots is not None else "--arrivals",
                hint="add --recover, or leave it out",
            )
        algorithm = REPLICATION.get(request.algorithm)
        if algorithm is None:
            raise _unknown(request.algorithm, REPLICATION, "without --recover")
        problem = problem_of(topology, request)
        if problem.left < -1e-9:
            need = problem.price(problem.required)
            return ReplicationPlan(
                algorithm=request.algorithm,
                feasible=False,
                note=f"the required replicas cost {need:g}, the budget is {problem.budget:g}",
            )
        found = _describe(problem, request, algorithm(problem, solve))
        if found.objective == 0 and not found.note:
            return replace(found, note=_nothing(problem, request.algorithm, solve))
        return found

    def sweep(self, topology: Topology, request: PlanRequest, solve: Solve) -> Sweep | None:
        if request.recover:
            return None
        algorithm = REPLICATION.get(request.algorithm)
        if algorithm is None:
            raise _unknown(request.algorithm, REPLICATION, "without --recover")
        return sweep_budget(topology, request, solve, algorithm)

    def explain(self, topology: Topology, request: PlanRequest, result: Plan) -> Sequence[str]:
        if isinstance(result, RecoveryPlan):
            return explain_recovery(topology, result)
        if isinstance(result, ReplicationPlan):
            return explain_plan(topology, request, result)
        return ()


def _unknown(name: str, known: Mapping[str, object] | Sequence[str], when: str) -> BadInputError:
    return BadInputError(
        f"there is no algorithm {name!r} {when}",
        where="--algorithm",
        hint=f"write one of {', '.join(known)}",
    )


def _nothing(problem: Problem, algorithm: str, solve: Solve) -> str:
    """Why no replica brings anything, and the smallest budget with which some do.

    Heuristics do without the look for that budget: it may take longer than they do.
    """
    if algorithm not in COMPLETE:
        return f"{algorithm} completes no path from the sources to a result; auto might"
    from holdfast.planners.ppa.completion import cheapest_tree  # noqa: PLC0415 - loads slowly

    paid = f"a budget of {problem.budget:g} pays for no complete path from the sources to a result"
    tree = cheapest_tree(replace(problem, budget=float("inf")), solve)
    if tree is None:
        return paid if solve.should_stop() else f"{paid}, nor would any other"
    names = ", ".join(problem.model.names[task] for task in np.flatnonzero(tree)[:12])
    return f"{paid}; the smallest that does is {problem.price(tree):g}: {names}"


def _describe(problem: Problem, request: PlanRequest, choice: Choice) -> ReplicationPlan:
    model, chosen = problem.model, choice.chosen
    objective = model.fidelity(chosen)
    failed = failed_tasks(model, request)
    alive: BoolArray = chosen if failed is None else chosen | ~failed
    judged = model.evaluate(alive[None, :])
    return ReplicationPlan(
        algorithm=request.algorithm,
        feasible=True,
        optimal=choice.optimal,
        objective=objective,
        bound=choice.bound if choice.bound is None else max(choice.bound, objective),
        note=choice.note,
        replicas=tuple(model.names[task] for task in np.flatnonzero(chosen)),
        fidelity=float(judged.fidelity[0]),
        fidelity_per_query={
            query.name: float(value)
            for query, value in zip(model.queries, judged.per_query[0], strict=True)
        },
        completeness=float(judged.completeness[0]),
    )


# -- recovery --------------------------------------------------------------------------------------


def _recover(topology: Topology, request: PlanRequest, solve: Solve) -> RecoveryPlan:
    if request.algorithm not in RECOVERY:
        raise _unknown(request.algorithm, RECOVERY, "with --recover")
    recovery = _recovery_of(topology, request)
    proved, note = False, ""
    match request.algorithm:
        case "to":
            order = topological(recovery, solve)
        case "inc":
            order = inc(recovery, solve)
        case name:
            few = int((~recovery.alive & recovery.problem.useful).sum()) <= AUTO_EXACT_TASKS
            if name == "exact" or few:
                order, proved = exact_order(recovery, solve)
                note = "" if proved else "stopped early: the order is that of inc"
            else:
                order = inc(recovery, solve)
    curve = recovery.curve(order)
    average = recovery.average(curve)
    return RecoveryPlan(
        algorithm=request.algorithm,
        feasible=True,
        optimal=proved,
        objective=average,
        bound=average if proved else None,
        note=note,
        order=tuple(recovery.model.names[task] for task in order),
        times=recovery.times,
        fidelity_curve=tuple(curve.tolist()),
        average_fidelity=average,
    )


def _recovery_of(topology: Topology, request: PlanRequest) -> Recovery:
    """What has failed (all when nothing is named) and when slots arrive.

    Tasks with a required replica do not come back: their replica has taken over already.
    """
    model = fidelity_model(topology)
    failed = failed_tasks(model, request)
    if failed is None:
        failed = np.ones(model.size, bool)
    budget = request.replicas if request.replicas is not None else np.inf
    budget = min(budget, float(model.size))
    pinned = problem_of(topology, replace(request, replicas=budget)).required
    failed &= ~pinned
    slots = int(failed.sum())
    if request.slots is not None:
        if request.slots < 0:
            raise BadInputError(
                f"is {request.slots}", where="--slots", hint="write a number of 0 or more"
            )
        slots = min(slots, request.slots)
    arrivals = request.arrivals
    if any(not 0 <= time < np.inf for time in arrivals):
        raise BadInputError(
            "a slot arrives before the failure or never",
            where="--arrivals",
            hint="write times of 0 or more",
        )
    times = sorted(arrivals) if arrivals else [float(k + 1) for k in range(slots)]
    return Recovery(model=model, alive=~failed, times=tuple(times[:slots]))
