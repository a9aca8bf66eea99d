"""Why a plan is as it is, one sentence per backup."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.plan import FtcPlan
from holdfast.planners.ftc.effects import latencies
from holdfast.planners.ftc.problem import FtcProblem, make_problem
from holdfast.planners.interface import PlanRequest
from holdfast.topology.graph import Topology

MOST = 200
"""Reasons given one by one; each costs a pass over the topology."""


def explain(topology: Topology, request: PlanRequest, plan: FtcPlan) -> list[str]:
    """Sentences: the verdict, then each backup with what would happen without it."""
    if not plan.feasible:
        return [plan.note]
    problem = make_problem(topology, request)
    unit = topology.unit.time
    lines = [_verdict(plan, problem, unit)]
    backed = bytearray(problem.graph.nodes)
    numbers = {name: task for task, name in enumerate(problem.graph.names)}
    for name in plan.backups:
        backed[numbers[name]] = 1
    for v in range(problem.graph.tasks):
        backed[v] |= problem.durable[v]
    lines += [_reason(problem, backed, numbers[name], unit) for name in plan.backups[:MOST]]
    if len(plan.backups) > MOST:
        lines.append(f"and {len(plan.backups) - MOST} more backups for the like reasons")
    slowest = max(plan.recovery_latency, key=lambda name: plan.recovery_latency[name])
    way = " after ".join(_critical_path(problem, backed, numbers[slowest]))
    lines.append(f"the slowest recovery is that of {way}: {plan.overall:g} {unit}")
    return lines


def _verdict(plan: FtcPlan, problem: FtcProblem, unit: str) -> str:
    head = f"{plan.count} backups keep every recovery within {problem.limit:g} {unit}"
    if plan.optimal:
        return f"{head}; no plan needs less"
    if plan.bound is not None:
        return f"{head}; every plan costs at least {plan.bound:g}, this one {plan.objective:g}"
    return head


def _reason(problem: FtcProblem, backed: bytearray, task: int, unit: str) -> str:
    names = problem.graph.names
    if problem.required[task]:
        return f"task {names[task]} is a backup because it is required to be one"
    backed[task] = 0
    found = latencies(problem.graph, problem.times, backed)
    backed[task] = 1
    broken = [v for v in range(problem.graph.tasks) if found[v] > problem.caps[v]]
    if not broken:
        return f"task {names[task]} is a backup though the bound would hold without it"
    worst = max(broken, key=lambda v: found[v] - problem.bounds[v])
    return (
        f"task {names[task]} is a backup because without it {names[worst]} would need "
        f"{found[worst]:g} {unit}, above the bound of {problem.bounds[worst]:g} {unit}"
    )


def _critical_path(problem: FtcProblem, backed: bytearray, task: int) -> Iterator[str]:
    """The task and what it waits for, nearest first."""
    graph = problem.graph
    found = latencies(graph, problem.times, backed)
    at: int | None = task
    while at is not None:
        if at < graph.tasks:
            yield graph.names[at]
        waits = [u for u in graph.predecessors[at] if not backed[u] and found[u] > 0]
        at = max(waits, key=lambda u: found[u]) if waits else None
