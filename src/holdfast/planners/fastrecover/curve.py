"""The trade-off curve: least expected recovery time for every overhead.

Points are spaced evenly on a logarithmic scale of what overhead leaves beyond saving the sources'
input, around the bound asked for; both baselines and the chosen plan are marked on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from holdfast.planners.fastrecover.frequencies import Goal
from holdfast.planners.fastrecover.problem import Outcome, Problem, Solution
from holdfast.planners.interface import Solve, Sweep, SweepPoint

POINTS = 25
LARGE_POINTS = 7
LARGE = 2000
SPAN = 12.0
"""The curve runs from a `SPAN`th of the room asked for to `SPAN` times it."""


def trade_off(
    problem: Problem, run: Callable[[Problem], Outcome], solve: Solve, *, algorithm: str
) -> Sweep | None:
    """Solve along the curve; None when the request itself is infeasible."""
    chosen = run(problem).solution
    if chosen is None:
        return None
    overhead = chosen.allocation.overhead
    base = float(problem.model.save[problem.fewest()].sum())
    room = max(overhead - base, 1e-9 * max(overhead, 1e-9))
    count = LARGE_POINTS if problem.model.size > LARGE else POINTS
    points = []
    for factor in np.exp(np.linspace(-np.log(SPAN), np.log(SPAN), count)):
        if solve.should_stop():
            break
        limit = base + room * float(factor)
        there = run(_at(problem, limit)).solution
        points.append(_point(limit, there))
    marks = [
        _mark(problem, problem.most(), overhead, "nsegments"),
        _mark(problem, problem.fewest(), overhead, "onesegment"),
        SweepPoint(
            x=overhead,
            y=chosen.allocation.recovery,
            label="chosen",
            detail={"algorithm": algorithm, "anchors": int(chosen.anchors.sum())},
        ),
    ]
    unit = problem.model.topology.unit.time
    return Sweep(
        title=f"{problem.model.topology.name}: recovery against checkpoint overhead",
        x_label="checkpoint overhead (sum over operators)",
        y_label=f"expected recovery time ({unit} per {unit})",
        points=tuple(points),
        marks=tuple(marks),
    )


def _at(problem: Problem, overhead: float) -> Problem:
    return replace(problem, goal=Goal("overhead", overhead), _seen={})


def _point(limit: float, found: Solution | None) -> SweepPoint:
    if found is None:
        return SweepPoint(x=limit, y=None)
    detail = {"anchors": int(found.anchors.sum()), "segments": found.partition.size}
    return SweepPoint(x=limit, y=found.allocation.recovery, detail=detail)


def _mark(
    problem: Problem, anchors: np.ndarray[tuple[int], np.dtype[np.bool_]], limit: float, label: str
) -> SweepPoint:
    found = _at(problem, limit).solve(anchors)
    return replace(_point(limit, found), label=label)
