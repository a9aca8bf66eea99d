"""The paper's dynamic program over minimal complete trees.

A plan worth having is a union of MC-trees. Trees are considered one after another; the plans kept
are all distinct unions of some of the trees so far that fit the budget. A plan is dropped when even
with the tasks of all later trees it stays below the best plan known. The result is optimal, but the
trees have to be listed and the unions may grow exponentially: use it to check the others.

Complexity: O(trees * unions), up to 2^trees unions.
"""

from __future__ import annotations

import numpy as np

from holdfast.planners.interface import Progress, Solve
from holdfast.planners.ppa.fidelity import BoolArray
from holdfast.planners.ppa.mc_trees import list_trees
from holdfast.planners.ppa.problem import SLACK, Choice, Problem
from holdfast.planners.ppa.relaxation import upper_bound

TREES = 5_000
UNIONS = 300_000
"""Unions kept at once; beyond it the search ends with the best found and a bound."""
PRUNE_FROM = 1_000
"""Fewer unions are not worth the look ahead."""


def dp(problem: Problem, solve: Solve) -> Choice:
    """The optimal union of trees, or the best found when there are too many."""
    model = problem.model
    allowed = _mask(problem.most)
    start = _mask(problem.base)
    trees = sorted(
        (
            (tree.weight, mask)
            for tree in list_trees(model, limit=TREES)
            if (mask := _bits(tree.tasks)) & ~allowed == 0
        ),
        reverse=True,
    )
    cost = problem.cost.tolist()
    plans: dict[int, float] = {start: problem.price(problem.base)}
    later = [0] * (len(trees) + 1)
    for k in range(len(trees) - 1, -1, -1):
        later[k] = later[k + 1] | trees[k][1]
    best, value = start, model.fidelity(problem.base)
    for k, (_, tree) in enumerate(trees):
        grown: dict[int, float] = {}
        for plan, price in plans.items():
            union = plan | tree
            if union in plans or union in grown:
                continue
            total = price + _price(union & ~plan, cost)
            if total <= problem.budget + SLACK:
                grown[union] = total
        if grown:
            masks = list(grown)
            values = model.fidelities(_rows(masks, problem.size))
            top = int(np.argmax(values))
            if values[top] > value:
                best, value = masks[top], float(values[top])
                solve.report(Progress(message="better union of trees", objective=value))
            plans.update(grown)
        if len(plans) > PRUNE_FROM:
            plans = _hopeful(problem, plans, later[k + 1], value)
        if len(plans) > UNIONS or solve.should_stop():
            reason = "time ran out" if len(plans) <= UNIONS else f"more than {UNIONS} unions"
            return Choice(
                chosen=problem.trimmed(_rows([best], problem.size)[0]),
                bound=max(upper_bound(problem), value),
                note=f"stopped early: {reason}",
            )
    return Choice(chosen=problem.trimmed(_rows([best], problem.size)[0]), bound=value, optimal=True)


def _hopeful(
    problem: Problem, plans: dict[int, float], later: int, value: float
) -> dict[int, float]:
    masks = list(plans)
    potential = problem.model.fidelities(_rows([mask | later for mask in masks], problem.size))
    return {mask: plans[mask] for mask, p in zip(masks, potential, strict=True) if p > value}


def _bits(tasks: tuple[int, ...]) -> int:
    return sum(1 << task for task in tasks)


def _mask(chosen: BoolArray) -> int:
    return _bits(tuple(np.flatnonzero(chosen).tolist()))


def _price(mask: int, cost: list[float]) -> float:
    total = 0.0
    while mask:
        low = mask & -mask
        total += cost[low.bit_length() - 1]
        mask ^= low
    return total


def _rows(masks: list[int], size: int) -> BoolArray:
    width = (size + 7) // 8
    raw = b"".join(mask.to_bytes(width, "little") for mask in masks)
    packed = np.frombuffer(raw, np.uint8).reshape(len(masks), width)
    return np.unpackbits(packed, axis=1, count=size, bitorder="little").astype(bool)
