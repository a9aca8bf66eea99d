"""`exact` on out-trees and forests: the Lagrangian dual, then branch and bound on anchors.

Problem: every operator has at most one producer. The dual (`tree_dual`) is solved over prices on
overhead; its plans get their true frequencies in closed form. What gap the dual leaves is closed
by branching on operators on which the plans around the best price disagree: with an operator fixed
as anchor or not, the same program bounds what is left. A plan within 1e-4 of the bound (the grid
takes half of that) counts as optimal.

Complexity: O(n * depth * grid) per price, some twenty prices per node of the search.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from itertools import count

import numpy as np

from holdfast.planners.fastrecover.checkpointing import BoolArray
from holdfast.planners.fastrecover.problem import (
    Outcome,
    PriceSearch,
    Problem,
    Solution,
    search_price,
)
from holdfast.planners.fastrecover.tree_dual import Forest, cheapest_forest, forest
from holdfast.planners.interface import Progress, Solve

TREE_GAP = 1e-4
"""Relative gap that counts as proved."""
FINE = 1.02
COARSE = 1.1
"""Ratio of neighbouring frequencies on the grid."""
CELLS = 3_000_000
"""Most cells of one dynamic program; larger forests get a coarser grid."""
NODE_LIMIT = 400
"""Most nodes of the search."""


def exact_tree(problem: Problem, solve: Solve) -> Outcome:
    """The best plan of an out-forest, proved to within `TREE_GAP`."""
    start = problem.solve(problem.safest())
    if start is None:
        return Outcome(solution=None)
    other = problem.most() if problem.goal.bounded == "overhead" else problem.fewest()
    start = problem.better(start, problem.solve(other)) or start
    tree = forest(problem.model)
    rough = dual_of_forest(problem, tree, start, solve, step=COARSE, rounds=16)
    first = improve(problem, rough.best or start, solve)
    step = grid_step(tree, CELLS)
    fine = dual_of_forest(problem, tree, first, solve, step=step, rounds=10, price=rough.price)
    fine.plans = rough.plans + fine.plans
    fine.bound = max(fine.bound, rough.bound)
    return _branch(problem, tree, fine, solve)


def grid_step(tree: Forest, cells: int) -> float:
    """The finest grid that keeps the program within so many cells."""
    low, high = tree.ratios
    room = max(4.0, cells / tree.cells)
    return max(FINE, math.exp(math.log(max(high / low, 1.0)) / room))


def dual_of_forest(
    problem: Problem,
    tree: Forest,
    start: Solution,
    solve: Solve,
    *,
    step: float,
    rounds: int,
    price: float | None = None,
) -> PriceSearch:
    """Price search with the dynamic program as its oracle."""

    def oracle(at: float) -> tuple[float, BoolArray]:
        found = cheapest_forest(
            tree,
            at,
            problem.rule,
            required=problem.required,
            forbidden=problem.forbidden,
            step=step,
        )
        return found.least, found.anchors

    return search_price(
        problem, oracle, start, solve, rounds=rounds, tolerance=TREE_GAP, price=price
    )


def improve(problem: Problem, solution: Solution, solve: Solve, *, sweeps: int = 4) -> Solution:
    """Local search: flip one operator at a time while that helps."""
    free = np.flatnonzero(~problem.required & ~problem.forbidden)
    if len(free) * problem.model.size > 40_000:
        return solution
    best = solution
    for _ in range(sweeps):
        before = best.objective
        for i in free:
            anchors = best.anchors.copy()
            anchors[i] = ~anchors[i]
            best = problem.better(best, problem.solve(anchors)) or best
            if solve.should_stop():
                return best
        if not best.objective < before * (1 - 1e-12):
            break
    return best


def _branch(problem: Problem, tree: Forest, root: PriceSearch, solve: Solve) -> Outcome:
    """Best-first search; every open node keeps its own bound."""
    best, step = root.best, grid_step(tree, CELLS)
    if best is None:
        return Outcome(solution=None)
    tie = count()
    queue: list[tuple[float, int, Problem, PriceSearch]] = []
    heapq.heappush(queue, (root.bound, next(tie), problem, root))
    floor = math.inf  # the least bound of what was set aside as good enough
    for _ in range(NODE_LIMIT):
        if not queue or solve.should_stop():
            break
        bound, _, here, search = heapq.heappop(queue)
        if bound >= best.objective * (1 - TREE_GAP):
            floor = min(floor, bound)
            break
        at = _disputed(here, search)
        if at is None:
            # Every operator is decided: the plan's own frequencies are all that is left.
            best = problem.better(best, problem.solve(here.required)) or best
            continue
        for side in _sides(here, at):
            start = side.solve(side.safest())
            if start is None:
                continue
            found = dual_of_forest(
                side, tree, start, solve, step=step, rounds=6, price=search.price
            )
            best = problem.better(best, found.best) or best
            heapq.heappush(queue, (max(found.bound, bound), next(tie), side, found))
        solve.report(Progress(message="branching", objective=best.objective, bound=bound))
    bound = min([floor, best.objective, *(entry[0] for entry in queue)])
    proved = bound >= best.objective * (1 - TREE_GAP)
    return Outcome(
        solution=best,
        bound=bound,
        optimal=proved,
        note="" if proved else "stopped early: not proved optimal",
    )


def _sides(problem: Problem, at: int) -> tuple[Problem, Problem]:
    required, forbidden = problem.required.copy(), problem.forbidden.copy()
    required[at] = True
    forbidden[at] = True
    return (
        replace(problem, required=required),
        replace(problem, forbidden=forbidden),
    )


def _disputed(problem: Problem, search: PriceSearch) -> int | None:
    """An operator on which plans near the best price disagree, the dearest to save first."""
    free = ~problem.required & ~problem.forbidden
    if not free.any():
        return None
    plans = np.asarray(search.plans)
    if search.best is not None:
        plans = np.concatenate([plans, search.best.anchors[None, :]])
    share = plans[-6:].mean(axis=0)
    split = np.minimum(share, 1 - share) * free
    if not split.any():
        split = free.astype(float)
    return int(np.argmax(split * (1e-12 + problem.model.save)))
