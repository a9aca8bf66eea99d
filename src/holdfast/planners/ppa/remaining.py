"""What the undecided part of a topology can still contribute to a state of the exact search.

With all open tasks alive, a state would reach its potential. Of that potential only a part can be
had with the budget that is left: every operator still to come through which all output has to pass
(and which is fed by Full links alone) passes on at most the share of its chosen tasks. Those shares
multiply, and the best way to spend a budget on them is one frontier per position in the order.
"""

from __future__ import annotations

import numpy as np

from holdfast.planners.ppa.fidelity_streams import FloatArray
from holdfast.planners.ppa.frontier import Frontier, combine, pareto, subsets
from holdfast.planners.ppa.problem import Problem
from holdfast.planners.ppa.wiring import Wiring


class Remaining:
    """Upper bounds for states, by how many tasks of the order are decided."""

    def __init__(self, problem: Problem, wires: Wiring) -> None:
        self._problem = problem
        self._wires = wires
        self._most = problem.most
        self._reach = self._frontiers()

    def ceilings(
        self, k: int, cost: FloatArray, values: FloatArray, columns: dict[int, int]
    ) -> FloatArray:
        """Upper bound on OF for every state after `k` decisions."""
        potential = self._potential(k, values, columns)
        reach = self._reach[k]
        if reach is None:
            return potential
        return potential * np.minimum(reach.at(self._problem.budget - cost), 1.0)

    def _potential(self, k: int, values: FloatArray, columns: dict[int, int]) -> FloatArray:
        """OF of each state when every task still open is alive."""
        wires = self._wires
        filled: dict[int, FloatArray | float] = {s: values[:, c] for s, c in columns.items()}
        total: FloatArray = values[:, 0].copy()
        for task in wires.order[k:]:
            if not self._most[task]:
                continue
            slots = wires.reads[task]
            flow: FloatArray | float = 1.0
            if slots and wires.is_join[task]:
                for slot, _ in slots:
                    flow = flow * filled.get(slot, 0.0)
            elif slots:
                flow = sum((filled.get(slot, 0.0) * f for slot, f in slots), 0.0)
            for slot, weight in wires.writes[task]:
                filled[slot] = filled.get(slot, 0.0) + weight * flow
            if wires.worth[task] > 0:
                total = total + wires.worth[task] * flow
        return total

    # -- what a budget can buy of operators to come ------------------------------------------------

    def _frontiers(self) -> list[Frontier | None]:
        """Per number of decided tasks, the frontier of the product of shares to come."""
        problem, wires = self._problem, self._wires
        place = {task: k for k, task in enumerate(wires.order)}
        starts: dict[int, list[Frontier]] = {}
        for i, share in self._bottlenecks():
            span = problem.model.spans[i]
            first = min((place[t] for t in range(span.start, span.stop) if t in place), default=-1)
            if first >= 0:
                starts.setdefault(first, []).append(share)
        found: list[Frontier | None] = [None] * (len(wires.order) + 1)
        product: Frontier | None = None
        for k in range(len(wires.order), -1, -1):
            for share in starts.get(k, ()):
                product = (
                    share
                    if product is None
                    else combine(product, share, np.multiply, problem.budget)
                )
            found[k] = product
        return found

    def _bottlenecks(self) -> list[tuple[int, Frontier]]:
        """Operators fed by Full links alone (or sources) that all output passes, with shares.

        The share is of what such an operator passes on when everything is alive; with its inputs
        alike for all its tasks, OF is at most its potential times that share. A source has no
        inputs at all and qualifies when its consumers read it through a Full link, because then
        only its total counts.
        """
        model = self._problem.model
        if len(model.queries) != 1 or not model.is_linear:
            return []
        sink = model.queries[0].operator
        found: list[tuple[int, Frontier]] = []
        # Walk up from the sink; a union ends the walk, since output may pass either side.
        walk = [sink]
        down = {sink: model.queries[0].parts * model.queries[0].weight}
        while walk:
            i = walk.pop()
            inputs = model.inputs[i]
            if all(item.stream.is_shared for item in inputs):
                found.append((i, self._share(i, down[i])))
            if len(inputs) > 1 and not model.is_join[i]:
                continue
            for item in inputs:
                down[item.producer] = item.stream.scatter(down[i])
                walk.append(item.producer)
        return [pair for pair in found if self._stands_alone(pair[0])]

    def _stands_alone(self, i: int) -> bool:
        """All its consumers read it through Full links (or it is the sink)."""
        inputs = self._problem.model.inputs
        return all(item.stream.is_shared for row in inputs for item in row if item.producer == i)

    def _share(self, i: int, down: FloatArray) -> Frontier:
        problem, span = self._problem, self._problem.model.spans[i]
        alive = problem.most[span]
        whole = float(down[alive].sum())
        if whole <= 0:
            return Frontier(np.zeros(1), np.ones(1))
        free, given = problem.open[span], problem.base[span]
        found = subsets(problem.cost[span][free], down[free] / whole, problem.budget)
        value = found.value + down[given].sum() / whole
        return pareto(found.cost, value, problem.budget)
