"""What an algorithm hands back, and how it is spelled out as a plan."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.plan import FtcPlan
from holdfast.planners.ftc.effects import latencies, overall_latency
from holdfast.planners.ftc.problem import FtcProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Backups by task number, as an algorithm found them."""

    backups: frozenset[int]
    bound: float | None = None
    """Proved lower bound on the cost of any plan."""
    optimal: bool = False
    note: str = ""


def spell_out(problem: FtcProblem, answer: Answer, algorithm: str) -> FtcPlan:
    """The plan with names and latencies."""
    graph = problem.graph
    backed = bytearray(graph.nodes)
    for task in answer.backups:
        backed[task] = 1
    objective = problem.cost_of(backed)
    survives = bytearray(a | b for a, b in zip(backed, problem.durable, strict=True))
    found = latencies(graph, problem.times, survives)[: graph.tasks]
    names = graph.names
    return FtcPlan(
        algorithm=algorithm,
        feasible=True,
        optimal=answer.optimal,
        objective=objective,
        bound=objective if answer.optimal else answer.bound,
        note=answer.note,
        backups=tuple(names[task] for task in sorted(answer.backups)),
        recovery_latency=dict(zip(names, found, strict=True)),
        overall=overall_latency(found),
        count=len(answer.backups),
    )


def infeasible(problem: FtcProblem, algorithm: str) -> FtcPlan:
    """No plan: some task alone takes longer than it may."""
    task = problem.obstacle
    if task is None:
        raise AssertionError("an infeasible instance has an obstacle")
    name, own, bound = problem.graph.names[task], problem.times[task], problem.bounds[task]
    if own > bound:
        why = f"task {name} alone takes {own:g}, above its bound of {bound:g}"
    else:
        why = f"after task {name} come tasks that may not wait for it, and it may not be a backup"
    return FtcPlan(algorithm=algorithm, feasible=False, note=why)
