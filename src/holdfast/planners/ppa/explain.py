"""Why a PPA plan is as it is, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.plan import RecoveryPlan, ReplicationPlan
from holdfast.planners.interface import PlanRequest
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.problem import failed_tasks, mask_of, problem_of
from holdfast.topology.graph import Topology

LINES = 12
"""Tasks that get a sentence of their own."""


def explain_plan(
    topology: Topology, request: PlanRequest, result: ReplicationPlan
) -> Sequence[str]:
    """What each replica is worth, what the next ones would bring, and what is left out."""
    if not result.feasible or result.objective is None:
        return (f"there is no plan: {result.note}",)
    problem = problem_of(topology, request)
    model = problem.model
    chosen = mask_of(model, result.replicas, "replicas")
    total = problem.price(chosen)
    lines = [
        f"{len(result.replicas)} of {model.size} tasks have a replica, for {total:g} of a budget "
        f"of {problem.budget:g}; if everything else fails, {result.objective:.1%} of the input "
        "still reaches the output"
    ]
    if result.bound is not None and not result.optimal:
        lines.append(f"no plan within the budget can reach more than {result.bound:.1%}")
    if result.optimal:
        lines.append("no plan within the budget reaches more")
    if len(result.fidelity_per_query) > 1:
        parts = (f"{name} {value:.1%}" for name, value in result.fidelity_per_query.items())
        lines.append(f"per query: {', '.join(parts)}")
    lost = problem.marginals(chosen)
    ranked = sorted(np.flatnonzero(chosen).tolist(), key=lambda t: -lost[t])
    for task in ranked[:LINES]:
        name = model.names[task]
        if problem.required[task]:
            lines.append(f"task {name} has a replica because it is required")
        else:
            lines.append(
                f"task {name} has a replica because without it fidelity would fall from "
                f"{result.objective:.1%} to {result.objective - lost[task]:.1%}"
            )
    if len(ranked) > LINES:
        lines.append(f"the other {len(ranked) - LINES} replicas are worth less each")
    lines.extend(_next(problem.budget, total, lost, chosen, model.names, problem.open))
    if failed_tasks(model, request) is not None and result.fidelity is not None:
        lines.append(
            f"when only what is named fails, fidelity is {result.fidelity:.1%} and the tasks "
            f"process {result.completeness:.1%} of their tuples"
        )
    return tuple(lines)


def _next(
    budget: float,
    total: float,
    lost: np.ndarray,
    chosen: np.ndarray,
    names: Sequence[str],
    is_open: np.ndarray,
) -> list[str]:
    gains = np.where(is_open & ~chosen, lost, -1.0)
    task = int(np.argmax(gains))
    if gains[task] > 0:
        return [f"the next replica worth having is {names[task]}: it would add {gains[task]:.1%}"]
    if budget - total >= 1 and not chosen.all():
        return ["what is left of the budget completes no further tree"]
    return []


def explain_recovery(topology: Topology, result: RecoveryPlan) -> Sequence[str]:
    """What each return changes."""
    if not result.order:
        return ("nothing that has failed can come back",)
    curve = result.fidelity_curve
    lines = [
        f"fidelity averages {result.average_fidelity:.1%} until the last return at "
        f"{result.times[-1]:g} {fidelity_model(topology).topology.unit.time}"
    ]
    waiting: list[str] = []
    for k, task in enumerate(result.order):
        waiting.append(task)
        gain = curve[k + 1] - curve[k]
        if gain <= 0:
            continue
        joined = ", ".join(waiting[:-1])
        led = f" (prepared by {joined})" if joined else ""
        lines.append(
            f"at {result.times[k]:g}, {task}{led} raises fidelity from {curve[k]:.1%} "
            f"to {curve[k + 1]:.1%}"
        )
        waiting = []
        if len(lines) > LINES:
            lines.append(f"the remaining {len(result.order) - k - 1} tasks follow")
            break
    return tuple(lines)
