"""An upper bound on fidelity under a budget, from operators instead of tasks.

Let D_b be the fidelity that task b passes on when everything is alive, and V_i = sum D_b c_b what
passes through operator i, W_i its full amount. A structured link cannot pass more than either end
has: V_i <= min(sum of D_b over chosen b, V_j). Across a Full link the two multiply: V_i = (sum of
D_b over chosen b) * V_j / W_j. A union adds its streams, a join multiplies those that come by Full
links and takes the least of the others. All of it rises in every argument, so frontiers of V over
cost, combined from the sources down, bound what any plan of that cost can reach.

The bound is exact on chains of Full links and loses only where the best tasks of neighbours along
structured links are not linked to each other. An operator with several consumers is copied for
each with its cost divided among the copies: the true plan pays the same, so the bound stays one.

Complexity: O(operators * points^2) with at most `frontier.LIMIT` points, times the copies.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.planners.ppa.fidelity_streams import FloatArray
from holdfast.planners.ppa.frontier import Frontier, combine, pareto, subsets
from holdfast.planners.ppa.problem import SLACK, Problem

COPIES_LIMIT = 2_000
"""Operator copies beyond which a shared-heavy topology gets no bound from here."""


def upper_bound(problem: Problem) -> float:
    """A fidelity that no plan within the budget can exceed."""
    whole = problem.model.fidelity(problem.most)
    found = fidelity_frontier(problem)
    if found is None:
        return whole
    spent = problem.price(problem.base)
    return min(whole, float(found.at(np.asarray([problem.budget - spent]))[0]))


def fidelity_frontier(problem: Problem) -> Frontier | None:
    """Frontier of fidelity over what is spent beyond `base`; None: too many copies."""
    relaxed = _Relaxation(problem)
    if relaxed.too_wide:
        return None
    total = Frontier(np.zeros(1), np.zeros(1))
    model = problem.model
    for query in model.queries:
        if query.weight <= 0:
            continue
        down = query.weight * query.parts
        found = relaxed.through(query.operator, down)
        total = combine(total, found, np.add, problem.budget + SLACK)
    return total


class _Relaxation:
    """One computation of the bound: knows how many copies each operator has."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model = problem.model
        self.budget = problem.budget + SLACK
        self.copies = self._count_copies()
        self.too_wide = sum(self.copies) > COPIES_LIMIT

    def _count_copies(self) -> list[int]:
        """Per operator, over how many ways (operator paths) queries reach it."""
        copies = [0] * len(self.model.spans)
        for query in self.model.queries:
            copies[query.operator] += query.weight > 0
        for i in reversed(self.model.topology.order):
            for item in self.model.inputs[i]:
                copies[item.producer] = min(copies[item.producer] + copies[i], COPIES_LIMIT + 1)
        return copies

    def through(self, sink: int, down: FloatArray) -> Frontier:
        """Frontier of what a query's sink emits; an explicit stack spares deep chains."""
        done: list[Frontier] = []
        stack: list[tuple[int, FloatArray, bool]] = [(sink, down, False)]
        while stack:
            i, weights, ready = stack.pop()
            inputs = self.model.inputs[i]
            if not ready and inputs:
                stack.append((i, weights, True))
                stack.extend(reversed(list(self._branches(i, weights))))
                continue
            below = [done.pop() for _ in inputs][::-1]
            done.append(self._operator(i, weights, below))
        return done.pop()

    def _branches(self, i: int, weights: FloatArray) -> Iterator[tuple[int, FloatArray, bool]]:
        for item in self.model.inputs[i]:
            part = weights if self._multiplies(i) else weights * item.weight
            yield item.producer, item.stream.scatter(part), False

    def _multiplies(self, i: int) -> bool:
        return self.model.is_join[i] and len(self.model.inputs[i]) > 1

    def _operator(self, i: int, weights: FloatArray, below: list[Frontier]) -> Frontier:
        own = self._own(i, weights)
        if not below:
            return own
        inputs = self.model.inputs[i]
        whole = float(weights.sum())
        if whole <= 0:
            return Frontier(np.zeros(1), np.zeros(1))
        shared = [item.stream.is_shared for item in inputs]
        if self._multiplies(i):
            return self._join(own, below, shared, whole)
        if len(inputs) == 1:
            how = (lambda a, b: a * b / whole) if shared[0] else np.minimum
            return combine(own, below[0], how, self.budget)
        total = below[0]
        for part in below[1:]:
            total = combine(total, part, np.add, self.budget)
        if all(shared) and all(np.ptp(item.weight) < 1e-12 for item in inputs):
            return combine(own, total, lambda a, b: a * b / whole, self.budget)
        return combine(own, total, np.minimum, self.budget)

    def _join(
        self, own: Frontier, below: list[Frontier], shared: list[bool], whole: float
    ) -> Frontier:
        found = own
        for part, is_shared in zip(below, shared, strict=True):
            if not is_shared:
                found = combine(found, part, np.minimum, self.budget)
        for part, is_shared in zip(below, shared, strict=True):
            if is_shared:
                found = combine(found, part, lambda a, b: a * b / whole, self.budget)
        return found

    def _own(self, i: int, weights: FloatArray) -> Frontier:
        """Frontier of the weight of an operator's chosen tasks."""
        problem, span = self.problem, self.model.spans[i]
        given, free = problem.base[span], problem.open[span]
        found = subsets(
            problem.cost[span][free] / max(self.copies[i], 1), weights[free], self.budget
        )
        return pareto(found.cost, found.value + weights[given].sum(), self.budget)
