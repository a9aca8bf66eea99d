"""The whole trade-off: how many backups each recovery bound takes.

The optimal cost only falls as R grows, and it can change only where R equals the total T of some
path, of which there may be very many. A plan for R also keeps every bound down to its own overall
latency O, so each answer covers the interval [O, R]: the next bound to look at is just below O, and
no step of the staircase is missed or looked for twice.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.plan import FtcPlan
from holdfast.planners.ftc.auto import auto
from holdfast.planners.ftc.effects import effect_graph, latencies, reprocess_times
from holdfast.planners.ftc.problem import make_problem
from holdfast.planners.ftc.result import spell_out
from holdfast.planners.interface import PlanRequest, Progress, Solve, Sweep, SweepPoint
from holdfast.topology.graph import Topology

MOST_POINTS = 400


def sweep(topology: Topology, request: PlanRequest, solve: Solve) -> Sweep:
    """Cost of the plan against R, from no backup at all down to the smallest bound possible."""
    graph = effect_graph(topology)
    times = [*reprocess_times(topology, expected=request.expected).tolist()]
    spelled = [*times, *([0.0] * (graph.nodes - graph.tasks))]
    longest = max(latencies(graph, spelled, graph.flags((), request.sources)))
    smallest = max(times, default=0.0)
    points: list[SweepPoint] = []
    bound, everything_proved = longest, True
    while len(points) < MOST_POINTS and not solve.should_stop():
        problem = make_problem(topology, replace(request, max_recovery=bound))
        if problem.obstacle is not None:
            break
        found = spell_out(problem, auto(problem, solve), "auto")
        everything_proved &= found.optimal
        points.append(_point(found))
        solve.report(Progress(message=f"R = {bound:g}", objective=found.objective))
        reached = found.overall or 0.0
        if reached <= smallest * (1.0 + 1e-9):
            break
        bound = reached * (1.0 - 1e-6)
    steps = _staircase(points)
    marks: tuple[SweepPoint, ...] = ()
    if request.max_recovery is not None:
        chosen = next((p for p in reversed(steps) if p.x <= request.max_recovery), None)
        if chosen is not None:
            marks = (SweepPoint(x=request.max_recovery, y=chosen.y, label="asked for"),)
    priced = any(operator.backup_cost is not None for operator in topology.operators)
    counted = request.cost == "count" or (request.cost == "auto" and not priced)
    what = "backups" if counted else "cost of backups"
    return Sweep(
        title=f"{topology.name}: backups against the recovery bound"
        + ("" if everything_proved else " (best found)"),
        x_label=f"recovery bound R ({topology.unit.time})",
        y_label=what,
        points=tuple(steps),
        marks=marks,
        step=True,
    )


def _point(plan: FtcPlan) -> SweepPoint:
    return SweepPoint(
        x=plan.overall or 0.0,
        y=plan.objective,
        detail={"count": plan.count, "backups": plan.backups, "optimal": plan.optimal},
    )


def _staircase(points: list[SweepPoint]) -> list[SweepPoint]:
    """Smallest R first, one point per cost: the smallest R that it is enough for."""
    steps: list[SweepPoint] = []
    for point in sorted(points, key=lambda p: p.x):
        if not steps or (point.y or 0.0) < (steps[-1].y or 0.0) - 1e-9:
            steps.append(point)
    return steps
