"""Frequencies that are powers of two of one another, whatever algorithm finds the segments.

The plan for free frequencies is found first; its segments then get the best powers of two, which
costs at most 4.1% (less where the base can be chosen well), and flips of single operators are
tried. The bound stays that of free frequencies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.planners.fastrecover.frequencies import Rule
from holdfast.planners.fastrecover.problem import GAP, Outcome, Problem
from holdfast.planners.fastrecover.tree_exact import improve
from holdfast.planners.interface import Solve


def in_powers_of_two(
    problem: Problem, solve: Solve, algorithm: Callable[[Problem, Solve], Outcome]
) -> Outcome:
    """Run an algorithm without the restriction, then obey it."""
    free = algorithm(replace(problem, rule=Rule(), _seen={}), solve)
    if free.solution is None:
        return free
    best = problem.solve(free.solution.anchors)
    best = problem.better(best, problem.solve(problem.safest()))
    if best is None:
        return Outcome(solution=None, note="no powers of two fit between the bounds")
    best = improve(problem, best, solve)
    return Outcome(
        solution=best,
        bound=free.bound,
        optimal=free.optimal and best.objective <= free.solution.objective * (1 + GAP),
        note=free.note,
    )
