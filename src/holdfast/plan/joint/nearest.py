"""The nearest bounds that can be kept, when those asked for cannot.

For each bound in turn the others stay and the smallest value is sought at which there is a plan.
Most spares are allowed: they only help. For the overhead one solve tells. Recovery and latency are
found by bisection between what is known to fail and what a found plan achieves, so every value
reported is achieved by a plan; it is within `RESOLUTION` of the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from holdfast.plan.joint.exact import Search
from holdfast.plan.joint.problem import Bounds, Evaluation, Problem
from holdfast.plan.protocol import Solve

Name = Literal["max_recovery", "max_overhead", "max_latency"]
RESOLUTION = 1e-3
"""Relative precision of a bound found by bisection."""
MAX_PROBES = 40

Attempt = Callable[[Problem], Search]
"""Solves a problem with the most spares."""


def nearest_bounds(problem: Problem, attempt: Attempt, solve: Solve) -> dict[str, float | None]:
    """Per bound asked for, in file units, the nearest that can be kept with the others fixed."""
    bounds, scale = problem.bounds, problem.model.time_s
    found: dict[str, float | None] = {}
    if math.isfinite(bounds.recovery_s):
        value = _smallest(problem, "max_recovery", attempt, solve)
        found["max_recovery"] = None if value is None else value / scale
    if math.isfinite(bounds.overhead):
        found["max_overhead"] = _smallest(problem, "max_overhead", attempt, solve)
    if math.isfinite(bounds.latency_s):
        value = _smallest(problem, "max_latency", attempt, solve)
        found["max_latency"] = None if value is None else value / scale
    return found


def _smallest(problem: Problem, name: Name, attempt: Attempt, solve: Solve) -> float | None:
    best = attempt(problem.with_bounds(_loosened(problem.bounds, name, math.inf))).best
    if best is None:
        return None
    high = _achieved(best, name)
    if name == "max_overhead":
        return high
    low = _given(problem.bounds, name)
    for _ in range(MAX_PROBES):
        if high <= low * (1 + RESOLUTION) or solve.should_stop():
            break
        middle = (low + high) / 2
        best = attempt(problem.with_bounds(_loosened(problem.bounds, name, middle))).best
        if best is None:
            low = middle
        else:
            high = min(middle, _achieved(best, name))
    return high


def _loosened(bounds: Bounds, name: Name, value: float) -> Bounds:
    match name:
        case "max_recovery":
            return replace(bounds, recovery_s=value)
        case "max_overhead":
            return replace(bounds, overhead=value)
        case "max_latency":
            return replace(bounds, latency_s=value)


def _given(bounds: Bounds, name: Name) -> float:
    match name:
        case "max_recovery":
            return bounds.recovery_s
        case "max_overhead":
            return bounds.overhead
        case "max_latency":
            return bounds.latency_s


def _achieved(found: Evaluation, name: Name) -> float:
    match name:
        case "max_recovery":
            return float(found.prediction.phases.p95.max())
        case "max_overhead":
            return found.prediction.overhead
        case "max_latency":
            return found.prediction.end_to_end_s
