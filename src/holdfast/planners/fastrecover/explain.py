"""Why a plan is as it is, in sentences."""

from __future__ import annotations

import math

import numpy as np

from holdfast.plan import FastRecoverPlan
from holdfast.planners.fastrecover.checkpointing import configuration
from holdfast.planners.fastrecover.problem import Problem

MOST = 12
"""Sentences about single anchors; more would not be read."""


def explain_plan(problem: Problem, plan: FastRecoverPlan) -> list[str]:
    """What the bound is spent on, why each anchor is one, who is slowest."""
    if not plan.feasible:
        return [f"no plan: {plan.note}"]
    lines = [_summary(problem, plan)]
    lines += _anchors(problem, plan)
    lines += _frequencies(problem, plan)
    worst = {name: _or_infinite(value) for name, value in plan.worst_case.items()}
    slowest = max(worst, key=lambda name: worst[name], default=None)
    if slowest is not None:
        unit = problem.model.topology.unit.time
        lines.append(
            f"the slowest recovery is that of {slowest}, at most {worst[slowest]:.4g} {unit}"
        )
    if plan.bound is not None and plan.objective:
        gap = 1 - plan.bound / plan.objective
        proved = "proved optimal" if plan.optimal else f"at most {max(gap, 0):.2%} from the optimum"
        lines.append(f"this plan is {proved}")
    return lines


def _summary(problem: Problem, plan: FastRecoverPlan) -> str:
    model = problem.model
    index = model.topology.index
    saved = float(sum(model.save[index[name]] for name in plan.anchors))
    overhead = plan.checkpoint_overhead or 0.0
    return (
        f"{len(plan.anchors)} of {model.size} operators save their input, which takes {saved:.4g} "
        f"of the overhead; checkpoints take the other {overhead - saved:.4g}"
    )


def _anchors(problem: Problem, plan: FastRecoverPlan) -> list[str]:
    """The difference that leaving out one anchor would make, frequencies set anew."""
    model = problem.model
    index = model.topology.index
    names = [op.name for op in model.topology.operators]
    chosen = np.zeros(model.size, bool)
    chosen[[index[name] for name in plan.anchors]] = True
    free = [i for i in np.flatnonzero(chosen) if not problem.required[i]]
    lines = []
    goal = problem.goal
    for i in free[:MOST]:
        without = chosen.copy()
        without[i] = False
        other = problem.solve(without)
        what = "expected recovery" if goal.bounded == "overhead" else "overhead"
        if other is None:
            lines.append(f"{names[i]} saves its input because without that the bound cannot be met")
            continue
        base = plan.objective or 0.0
        worse = other.objective / base - 1 if base else 0.0
        lines.append(
            f"{names[i]} saves its input because otherwise {what} would be {other.objective:.4g} "
            f"instead of {base:.4g} ({worse:+.1%})"
        )
    if len(free) > MOST:
        lines.append(f"and {len(free) - MOST} more save theirs for the same reason")
    return lines


def _frequencies(problem: Problem, plan: FastRecoverPlan) -> list[str]:
    model = problem.model
    index = model.topology.index
    lines = []
    for segment in plan.segments[:MOST]:
        floor = min(float(model.max_frequency[index[name]]) for name in segment.operators)
        if np.isfinite(floor) and _or_infinite(segment.frequency) >= floor * (1 - 1e-9):
            lines.append(
                f"the segment of {segment.head} checkpoints every {1 / floor:.4g}, as often as its "
                "minimum interval allows"
            )
    shape = configuration(
        model,
        plan.anchors,
        {segment.head: _or_infinite(segment.frequency) for segment in plan.segments},
    )
    share = model.failure * np.nan_to_num(shape.recovery_times, posinf=0.0)
    if share.sum() > 0 and not any(segment.frequencies for segment in plan.segments):
        by_segment = np.bincount(shape.partition.label, weights=share)
        worst = int(by_segment.argmax())
        members = np.flatnonzero(shape.partition.label == worst)
        head = next(
            s.head
            for s in plan.segments
            if model.topology.operators[members[0]].name in s.operators
        )
        lines.append(
            f"the segment of {head} makes up {by_segment[worst] / share.sum():.0%} of the "
            "expected recovery time"
        )
    return lines


def _or_infinite(value: float | None) -> float:
    """A number of a plan, which knows no infinity."""
    return math.inf if value is None else value
