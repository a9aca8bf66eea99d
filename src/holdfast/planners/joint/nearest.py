"""The nearest bounds that can be kept, when those asked for cannot.

For each bound in turn the others stay and the smallest value is sought at which there is a plan.
As many spares and nodes as can help are allowed. For the overhead one solve tells. The others are
found by bisection between what is known to fail and a bound at which a plan was found, so every
value reported can be kept; it is within `RESOLUTION` of the smallest that was found. When no bound
alone is in the way, all are loosened by the same factor until there is a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from holdfast.planners.interface import Solve
from holdfast.planners.joint.problem import SLACK, Bounds, Evaluation, Problem
from holdfast.planners.joint.search import Search

Name = Literal["max_recovery", "max_overhead", "max_latency", "max_outage"]
RESOLUTION = 5e-3
"""Relative precision of a bound found by bisection."""
MAX_PROBES = 40
STEP = 1.1
"""By how much a bound is loosened that a plan keeps and that no plan is found for."""
SMALLEST_BASE = 0.01
"""Bounds below this (seconds, or a share) are loosened as if they were this."""
NAMES: tuple[Name, ...] = get_args(Name)

Attempt = Callable[[Problem], Search]
"""Solves a problem with the most spares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """Bounds that can be kept, in file units."""

    alone: Mapping[str, float | None]
    """Per bound asked for, its smallest value with the others as asked; None: no value will do."""
    together: Mapping[str, float]
    """When no bound alone is in the way: what a plan keeps that breaks all by about one factor."""


def nearest_bounds(problem: Problem, attempt: Attempt, solve: Solve) -> Nearest:
    """The nearest bounds that can be kept."""
    asked = [name for name in NAMES if math.isfinite(_given(problem.bounds, name))]
    free = attempt(problem.with_bounds(Bounds())).best if asked else None
    if free is None:
        return Nearest(alone=dict.fromkeys(asked), together={})
    alone = {name: _smallest(problem, name, attempt, solve) for name in asked}
    together: dict[Name, float] = {}
    if len(asked) > 1 and all(value is None for value in alone.values()):
        together = _together(problem, asked, free, attempt, solve)
    scale = problem.model.time_s

    def in_file_units(name: Name, value: float) -> float:
        return value if name == "max_overhead" else value / scale

    return Nearest(
        alone={
            name: None if value is None else in_file_units(name, value)
            for name, value in alone.items()
        },
        together={name: in_file_units(name, value) for name, value in together.items()},
    )


def _together(
    problem: Problem, asked: list[Name], free: Evaluation, attempt: Attempt, solve: Solve
) -> dict[Name, float]:
    best = free

    def factor(found: Evaluation) -> float:
        return max(_achieved(found, name) / _base(problem.bounds, name) for name in asked)

    low, high = 1.0, factor(free)
    for _ in range(MAX_PROBES):
        if high <= low * (1 + RESOLUTION) or solve.should_stop():
            break
        # Bounds may be off by orders of magnitude, so the middle is a geometric one.
        middle = math.sqrt(low * high)
        bounds = problem.bounds
        for name in asked:
            bounds = _loosened(bounds, name, middle * _base(problem.bounds, name))
        found = attempt(problem.with_bounds(bounds)).best
        if found is None:
            low = middle
        else:
            best, high = found, min(middle, factor(found))
    return {name: max(_achieved(best, name), _given(problem.bounds, name)) for name in asked}


def _base(bounds: Bounds, name: Name) -> float:
    """What a factor multiplies: a bound of nothing can still be loosened."""
    return max(_given(bounds, name), SMALLEST_BASE)


def rounded_up(value: float) -> str:
    """Four figures that are not below the value: typed in as a bound, they can be kept."""
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / step - SLACK) * step:.10g}"


def say_bound(name: str, value: float, unit: str) -> str:
    """A bound as it is typed on the command line."""
    said = f"{rounded_up(100 * value)}%" if name == "max_overhead" else rounded_up(value) + unit
    return f"--{name.replace('_', '-')} {said}"


def _smallest(problem: Problem, name: Name, attempt: Attempt, solve: Solve) -> float | None:
    first = attempt(problem.with_bounds(_loosened(problem.bounds, name, math.inf)))
    if first.best is None:
        return None
    high = _achieved(first.best, name)
    if name == "max_overhead":
        return high
    low = _given(problem.bounds, name)
    # A search need not find again at a tighter bound what it found at a looser one.
    for _ in range(MAX_PROBES):
        tried = attempt(problem.with_bounds(_loosened(problem.bounds, name, high)))
        if tried.best is not None or solve.should_stop():
            break
        low, high = high, high * STEP
    hint = math.inf
    for _ in range(MAX_PROBES):
        if high <= low * (1 + RESOLUTION) or solve.should_stop():
            break
        middle = hint if hint < high else (low + high) / 2
        bounds = _loosened(problem.bounds, name, middle)
        tried = attempt(problem.with_bounds(bounds))
        if tried.best is None:
            low, hint = middle, _hint(tried, name, middle)
        else:
            # Not what the plan achieves: at that bound, typed in, it may not be found again.
            high, hint = middle, math.inf
    return high


def _hint(failed: Search, name: Name, bound: float) -> float:
    """The smallest value above a bound at which a search for it saw a plan; infinite: none.

    What was seen on the way is seldom found again when it is asked for, but it mostly is: so it is
    where to look next, and proves nothing.
    """
    bounds = _loosened(failed.problem.bounds, name, math.inf)
    loose = failed.problem.with_bounds(bounds)
    seen = (_achieved(one, name) for one in failed.missed if not loose.broken(one))
    return min((value for value in seen if value > bound * (1 + RESOLUTION)), default=math.inf)


def _loosened(bounds: Bounds, name: Name, value: float) -> Bounds:
    match name:
        case "max_recovery":
            return replace(bounds, recovery_s=value)
        case "max_overhead":
            return replace(bounds, overhead=value)
        case "max_latency":
            return replace(bounds, latency_s=value)
        case "max_outage":
            return replace(bounds, outage_s=value)


def _given(bounds: Bounds, name: Name) -> float:
    match name:
        case "max_recovery":
            return bounds.recovery_s
        case "max_overhead":
            return bounds.overhead
        case "max_latency":
            return bounds.latency_s
        case "max_outage":
            return bounds.outage_s


def _achieved(found: Evaluation, name: Name) -> float:
    match name:
        case "max_recovery":
            return float(found.prediction.phases.p95.max())
        case "max_overhead":
            return found.prediction.pace.overhead
        case "max_latency":
            return found.prediction.pace.end_to_end_s
        case "max_outage":
            return found.prediction.results[1]
