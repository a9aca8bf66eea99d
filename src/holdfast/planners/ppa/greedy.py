"""Greedy: replicate the tasks whose failure alone would hurt most (the paper's baseline).

Tasks are ranked once by the loss of output fidelity when only they fail and taken while the budget
lasts. It sees no trees: the tasks it takes need not form a single complete one, so its fidelity is
often zero at small budgets.

Complexity: one backward pass and a sort, O(tasks log tasks).
"""

from __future__ import annotations

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.fidelity import BoolArray
from holdfast.planners.ppa.problem import SLACK, Choice, Problem


def greedy(problem: Problem, solve: Solve) -> Choice:  # noqa: ARG001
    """The baseline's plan."""
    return Choice(chosen=greedy_set(problem))


def greedy_set(problem: Problem) -> BoolArray:
    """The ranked tasks that fit; dearer ones that no longer fit are passed over."""
    damage = problem.marginals(problem.most)
    chosen = problem.base.copy()
    left = problem.left + SLACK
    candidates = np.flatnonzero(problem.open & (damage > 0))
    ranked = candidates[np.argsort(-damage[candidates], kind="stable")]
    if np.ptp(problem.cost[ranked]) == 0 if len(ranked) else True:
        unit = problem.cost[ranked[0]] if len(ranked) else 1.0
        chosen[ranked[: int(left / unit)]] = True
        return chosen
    for task in ranked.tolist():
        if problem.cost[task] <= left:
            chosen[task] = True
            left -= problem.cost[task]
    return chosen
