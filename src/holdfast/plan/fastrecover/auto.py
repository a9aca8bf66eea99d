"""`auto`: the strongest algorithm for the shape and size at hand."""

from __future__ import annotations

from holdfast.plan.fastrecover.chain_exact import exact_chain
from holdfast.plan.fastrecover.dag import solve_dag
from holdfast.plan.fastrecover.problem import Outcome, Problem
from holdfast.plan.fastrecover.tree_exact import exact_tree
from holdfast.plan.protocol import Solve

EXACT_CHAIN = 1500
"""Longest chain planned with full tables (quadratic in length)."""
EXACT_PAIRS = 60_000
"""Most (operator, possible head) pairs of a forest planned exactly."""


def auto(problem: Problem, solve: Solve) -> Outcome:
    """Exact where that is quick, else the large-scale plan with its bound."""
    model = problem.model
    if model.is_chain:
        return exact_chain(problem, solve)
    if not model.has_joins:
        return exact_tree(problem, solve)
    return solve_dag(problem, solve)
