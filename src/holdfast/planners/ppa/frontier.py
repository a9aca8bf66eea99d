"""Frontiers: what can be had for how much, when more of one means less of the other.

A frontier is a pair of rising arrays, cost and value. Frontiers of parts that share a budget are
combined by trying all pairs and keeping what nothing else beats. To stay small they may be
coarsened upward only, so that an upper bound stays one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from holdfast.planners.ppa.fidelity_streams import FloatArray
from holdfast.planners.ppa.problem import SLACK

LIMIT = 400
"""Points kept per frontier."""
Combine = Callable[[FloatArray, FloatArray], FloatArray]


class Frontier(NamedTuple):
    """Points no other point beats: both rise."""

    cost: FloatArray
    value: FloatArray

    def at(self, budget: FloatArray) -> FloatArray:
        """The best value for each budget; budgets below the first point have none (zero)."""
        place = np.searchsorted(self.cost, budget + SLACK, side="right") - 1
        return np.where(place >= 0, self.value[np.maximum(place, 0)], 0.0)


def pareto(cost: FloatArray, value: FloatArray, budget: float, *, limit: int = LIMIT) -> Frontier:
    """The frontier of some points, coarsened upward to at most `limit` points."""
    within = cost <= budget + SLACK
    cost, value = cost[within], value[within]
    order = np.lexsort((-value, cost))
    cost, value = cost[order], value[order]
    rises = np.ones(len(value), bool)
    rises[1:] = value[1:] > np.maximum.accumulate(value)[:-1]
    cost, value = cost[rises], value[rises]
    if len(cost) <= limit:
        return Frontier(cost, value)
    # Of each run of neighbours take the least cost and the greatest value: never too low.
    edges = np.linspace(0, len(cost), limit + 1).astype(np.int64)
    return Frontier(cost[edges[:-1]], value[edges[1:] - 1])


def combine(a: Frontier, b: Frontier, how: Combine, budget: float) -> Frontier:
    """All pairs of points, their values joined by `how` (which must rise in both)."""
    cost = np.add.outer(a.cost, b.cost).ravel()
    value = how(a.value[:, None], b.value[None, :]).ravel()
    return pareto(cost, value, budget)


def subsets(cost: FloatArray, value: FloatArray, budget: float) -> Frontier:
    """The frontier of sums over subsets of items (at most about `LIMIT` points, upward)."""
    if len(cost) and np.ptp(cost) == 0 and cost[0] > 0:
        count = min(len(cost), int((budget + SLACK) / cost[0]))
        best = np.sort(value)[::-1][:count]
        points = np.arange(count + 1) * cost[0], np.concatenate(([0.0], np.cumsum(best)))
        return pareto(*points, budget)
    found = Frontier(np.zeros(1), np.zeros(1))
    for c, v in zip(cost.tolist(), value.tolist(), strict=True):
        item = Frontier(np.asarray([0.0, c]), np.asarray([0.0, v]))
        found = combine(found, item, np.add, budget)
    return found
