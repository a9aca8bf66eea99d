"""`dag`: to come."""

from __future__ import annotations

from holdfast.plan.fastrecover.problem import Outcome, Problem
from holdfast.plan.fastrecover.tree_exact import improve
from holdfast.plan.protocol import Solve


def solve_dag(problem: Problem, solve: Solve) -> Outcome:
    """Local search from both baselines."""
    start = problem.better(problem.solve(problem.fewest()), problem.solve(problem.most()))
    if start is None:
        return Outcome(solution=None)
    return Outcome(solution=improve(problem, start, solve))
