"""Branch and cut over the master: the exact solver for what no polynomial rule covers.

Best bound first. At every node of the search the relaxation is cut until it covers all windows,
a plan is rounded from it, and reduced costs fix what cannot change in any cheaper plan. Branching
is strong: the few most fractional columns are tried both ways for a few simplex steps, and the one
whose two sides climb most is taken. Windows found anywhere hold everywhere.

On instances of the papers' size the relaxation is nearly whole, so that a handful of nodes
suffices; a general MILP solver spends longer on its first node than this takes in all.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from holdfast.planners.ftc.heuristics import rounded
from holdfast.planners.ftc.master import EPSILON, FloatArray, Master
from holdfast.planners.ftc.windows import fractional
from holdfast.planners.interface import Progress, Solve

_CUT_ROUNDS = 40
"""Most cut rounds at one node; whatever is missing then is found at its children."""
_CANDIDATES = 8
"""Columns tried by strong branching."""
_TRIAL_STEPS = 60
"""Simplex iterations of one trial."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """How a search ended."""

    plan: bytearray
    """The cheapest plan known: found, or the one it started from."""
    bound: float
    """Proved lower bound within the ranges searched."""
    complete: bool
    """Nothing cheaper than `plan` exists within the ranges searched."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Node:
    value: float
    x: FloatArray
    lower: FloatArray
    upper: FloatArray


class _Search:
    def __init__(self, master: Master, plan: bytearray, below: float, solve: Solve) -> None:
        self.master = master
        self.best = plan
        self.value = min(master.core.cost(plan), below)
        self.solve = solve
        self.at = 0.0
        """The bound of the node being worked on."""
        self.lost = math.inf
        """The least bound of the nodes given up unseen because time was up."""

    def evaluate(self, lower: FloatArray, upper: FloatArray) -> _Node | None:
        """Cut a node to its relaxation; None if it holds nothing cheaper, or was `lost`."""
        master, core = self.master, self.master.core
        master.restrict(lower, upper)
        node: _Node | None = None
        for turn in range(_CUT_ROUNDS):
            answer = master.relax()
            if answer is None:
                if master.infeasible:
                    return None
                # Stopped in the middle: what is known so far stays valid.
                if node is None:
                    self.lost = min(self.lost, self.at)
                return node
            if master.closes(answer.value, self.value):
                return None
            node = self._fix(answer.value, answer.x, answer.reduced_cost, lower, upper)
            weight = master.weights(answer.x)
            fresh = master.add(fractional(core, weight))
            if turn == 0 or not fresh:
                candidate = rounded(core, weight, 0.5)
                if core.cost(candidate) < self.value:
                    self.best, self.value = candidate, core.cost(candidate)
                    self.solve.report(Progress(message="better plan", objective=self.value))
            if not fresh or self.solve.should_stop():
                break
            if len(master.rows) > 400 + 6 * len(master.free):
                master.purge(age=8)
        return node

    def _fix(
        self, value: float, x: FloatArray, reduced: FloatArray, lower: FloatArray, upper: FloatArray
    ) -> _Node:
        slack = self.value - max(self.master.step, 0.0) - value + EPSILON
        narrow_upper = np.where((reduced > slack) & (x < EPSILON), 0.0, upper)
        narrow_lower = np.where((-reduced > slack) & (x > 1.0 - EPSILON), 1.0, lower)
        return _Node(value=value, x=x, lower=narrow_lower, upper=narrow_upper)

    def choose(self, node: _Node) -> int | None:
        """The column to branch on; None when the relaxation is whole."""
        off = np.minimum(node.x, 1.0 - node.x) * (node.upper - node.lower)
        ranked = np.argsort(-off, kind="stable")[:_CANDIDATES].tolist()
        candidates = [int(column) for column in ranked if off[column] > EPSILON]
        if len(candidates) <= 1:
            return candidates[0] if candidates else None
        best, score = candidates[0], -1.0
        for column in candidates:
            gains = [self._trial(node, column, side) for side in (1.0, 0.0)]
            product = max(gains[0], EPSILON) * max(gains[1], EPSILON)
            if product > score:
                best, score = column, product
        return best

    def _trial(self, node: _Node, column: int, side: float) -> float:
        self.master.restrict(*_with(node, column, side))
        answer = self.master.relax(iterations=_TRIAL_STEPS)
        reached = self.value if answer is None else min(answer.value, self.value)
        return max(reached - node.value, 0.0)


def branch_and_cut(
    master: Master,
    plan: bytearray,
    solve: Solve,
    *,
    lower: FloatArray | None = None,
    upper: FloatArray | None = None,
    below: float = math.inf,
    nodes: int | None = None,
) -> Searched:
    """Find the cheapest plan within the ranges, or prove that `plan` already is; see `Searched`.

    Only plans cheaper than `below` are of interest; without one, `plan` is returned as it came.
    """
    count = len(master.free)
    search = _Search(master, plan, below, solve)
    low = np.zeros(count) if lower is None else lower
    high = np.ones(count) if upper is None else upper
    heap: list[tuple[float, int, _Node]] = []
    root = search.evaluate(low, high)
    if root is not None:
        heap.append((root.value, 0, root))
    made, visited, bound = 0, 0, math.inf
    while heap:
        bound, _, node = heap[0]
        search.at = bound
        if master.closes(bound, search.value):
            heap.clear()
            break
        if solve.should_stop() or (nodes is not None and visited >= nodes):
            break
        heapq.heappop(heap)
        visited += 1
        column = search.choose(node)
        if column is None:
            # Whole, and covering all windows: `evaluate` has taken it as a plan already, unless
            # cutting was cut short.
            again = search.evaluate(node.lower, node.upper)
            if again is not None and not _same(again, node):
                made += 1
                heapq.heappush(heap, (again.value, made, again))
            continue
        for side in (1.0, 0.0):
            child = search.evaluate(*_with(node, column, side))
            if child is not None:
                made += 1
                heapq.heappush(heap, (max(child.value, bound), made, child))
        solve.report(Progress(message="branching", objective=search.value, bound=bound))
    master.restrict(np.zeros(count), np.ones(count))
    complete = not heap and search.lost == math.inf
    reached = search.value if complete else min(bound, search.lost, search.value)
    return Searched(plan=search.best, bound=reached, complete=complete)


def _with(node: _Node, column: int, side: float) -> tuple[FloatArray, FloatArray]:
    lower, upper = node.lower.copy(), node.upper.copy()
    lower[column] = upper[column] = side
    return lower, upper


def _same(a: _Node, b: _Node) -> bool:
    return a.value <= b.value + EPSILON and bool(np.allclose(a.x, b.x, atol=EPSILON))
