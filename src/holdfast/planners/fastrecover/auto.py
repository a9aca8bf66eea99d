"""`auto`: the strongest algorithm for the shape and size at hand."""

from __future__ import annotations

from holdfast.planners.fastrecover.chain_exact import exact_chain
from holdfast.planners.fastrecover.dag import solve_dag
from holdfast.planners.fastrecover.large import solve_large
from holdfast.planners.fastrecover.problem import Outcome, Problem
from holdfast.planners.fastrecover.tree_dual import forest_cells
from holdfast.planners.fastrecover.tree_exact import exact_tree
from holdfast.planners.interface import Solve

EXACT_CHAIN = 1500
"""Longest chain planned with full tables (quadratic in length)."""
EXACT_PAIRS = 100_000
"""Most (operator, possible head) pairs of a forest planned exactly."""
SEARCHED = 250
"""Most operators of a graph with joins that is searched and relaxed as a whole."""


def auto(problem: Problem, solve: Solve) -> Outcome:
    """Exact where that is quick, else the large-scale plan with its bound."""
    model = problem.model
    if model.is_chain:
        small, algorithm = model.size <= EXACT_CHAIN, exact_chain
    elif not model.has_joins:
        small, algorithm = forest_cells(model) <= EXACT_PAIRS, exact_tree
    else:
        small, algorithm = model.size <= SEARCHED, solve_dag
    return (algorithm if small else solve_large)(problem, solve)
