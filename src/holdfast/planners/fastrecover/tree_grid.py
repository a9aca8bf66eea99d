"""`tree`: Algorithm 2 of the thesis on out-trees, overhead in Z steps and frequency in F.

Corrected in three places. The state is (operator, head, frequency, overhead), because an operator's
recovery depends on everything between its head and itself; as printed a child is chosen by its own
least value, which ignores what its dependants cost its parent. The children of an operator share
its overhead by a knapsack, one child after the other, instead of enumerating all splits
(exponential in Z). Leaves are weighted by their failure rate, and the frequency step is F_max / F.

Whatever one operator spends is rounded up to whole steps of overhead, as in the thesis: 29% from
the optimum at its defaults. Kept as a baseline.

Complexity: O(n * depth * F * Z^2) time.
"""

from __future__ import annotations

import numpy as np

from holdfast.planners.fastrecover.checkpointing import FloatArray, IntArray
from holdfast.planners.fastrecover.problem import Outcome, Problem, with_frequencies
from holdfast.planners.interface import Solve

DEFAULT_STEPS = 20
"""Z of the thesis' tree experiments."""
DEFAULT_FREQUENCIES = 100
"""F of the thesis."""
MAX_FREQUENCY = 200.0
"""F_max of the thesis, per time unit."""


def tree_on_grid(
    problem: Problem,
    solve: Solve,
    *,
    steps: int = DEFAULT_STEPS,
    frequencies: int = DEFAULT_FREQUENCIES,
) -> Outcome:
    """Algorithm 2, corrected; infeasible when the grid is too coarse, plan or no plan."""
    program = _Program(problem, steps, frequencies)
    if not program.run(solve):
        return Outcome(
            solution=problem.solve(problem.safest()),
            note="stopped early: one segment stands in for the grid's plan",
        )
    return program.outcome()


def share_out(first: FloatArray, second: FloatArray) -> tuple[FloatArray, IntArray]:
    """Knapsack of two tables over their last axis: least sum within c steps, and second's part."""
    steps = first.shape[-1]
    best = np.full(np.broadcast_shapes(first.shape, second.shape), np.inf)
    part = np.zeros(best.shape, np.int64)
    for used in range(steps):
        value = first[..., : steps - used] + second[..., used : used + 1]
        better = value < best[..., used:]
        best[..., used:][better] = value[better]
        part[..., used:][better] = used
    return best, part


class _Program:
    """Tables per operator, indexed [head, frequency, overhead]."""

    def __init__(self, problem: Problem, steps: int, frequencies: int) -> None:
        self.problem, self.model, self.steps = problem, problem.model, steps
        choices = problem.rule.choices
        grid = np.arange(1, frequencies + 1) * (MAX_FREQUENCY / frequencies)
        self.eta = np.asarray(choices) if choices else grid
        self.width = problem.goal.limit / steps
        model = self.model
        self.heads: list[list[int]] = [[] for _ in range(model.size)]
        for i in model.topology.order:
            up = model.upstream[i]
            self.heads[i] = [*self.heads[up[0]], i] if up else [i]
        self.stay: dict[int, FloatArray] = {}
        self.begin: dict[int, tuple[FloatArray, IntArray]] = {}
        self.parts: dict[int, list[IntArray]] = {}

    def run(self, solve: Solve) -> bool:
        for i in reversed(self.model.topology.order):
            if solve.should_stop():
                return False
            self._fill(i)
        return True

    def _needed(self, i: int) -> IntArray:
        """Whole steps of overhead, per head and frequency."""
        model, heads = self.model, self.heads[i]
        spent = np.repeat((model.state[i] * self.eta)[None, :], len(heads), axis=0)
        spent[-1] += model.access[i] * self.eta + model.save[i]
        return np.ceil(spent / self.width - 1e-9).astype(np.int64)

    def _fill(self, i: int) -> None:
        model, heads, eta = self.model, self.heads[i], self.eta
        path = np.asarray(heads)
        load = np.cumsum(model.state[path][::-1])[::-1] + model.access[path]
        rework = np.cumsum(model.replay[path][::-1])[::-1] + model.save[path]
        own = model.failure[i] * (load[:, None] + rework[:, None] / eta[None, :])
        own[:, eta > model.max_frequency[i]] = np.inf
        total = np.zeros((len(heads), len(eta), self.steps + 1))
        self.parts[i] = []
        for child in model.downstream[i]:
            begun = self.begin[child][0][None, None, :]
            option = np.minimum(self.stay[child][: len(heads)], begun)
            total, part = share_out(total, option)
            self.parts[i].append(part)
        self.stay[i] = self._shift(total, self._needed(i)) + own[:, :, None]
        table = self.stay[i][-1]
        at = table.argmin(axis=0)
        value = table[at, np.arange(self.steps + 1)]
        problem = self.problem
        if problem.forbidden[i] and not problem.required[i]:
            value = np.full_like(value, np.inf)
        if problem.required[i]:
            self.stay[i] = np.full_like(self.stay[i], np.inf)
        self.begin[i] = (value, at)

    def _shift(self, total: FloatArray, needed: IntArray) -> FloatArray:
        left = np.arange(self.steps + 1)[None, None, :] - needed[:, :, None]
        taken = np.take_along_axis(total, np.maximum(left, 0), axis=2)
        return np.where(left >= 0, taken, np.inf)

    def outcome(self) -> Outcome:
        model = self.model
        roots = np.flatnonzero(model.is_source)
        total = np.zeros(self.steps + 1)
        parts = []
        for root in roots:
            total, part = share_out(total, self.begin[int(root)][0])
            parts.append(part)
        if not np.isfinite(total[-1]):
            note = f"no plan on a grid of {self.steps} steps of overhead and {len(self.eta)} rates"
            return Outcome(solution=None, note=note)
        anchors, frequency = np.zeros(model.size, bool), np.zeros(model.size)
        left, todo = self.steps, []
        for root, part in zip(reversed(roots), reversed(parts), strict=True):
            used = int(part[left])
            todo.append((int(root), -1, -1, used))
            left -= used
        while todo:
            i, head, point, budget = todo.pop()
            begun, at = self.begin[i]
            if head < 0 or begun[budget] <= self.stay[i][head, point, budget]:
                anchors[i] = True
                head, point = len(self.heads[i]) - 1, int(at[budget])
            frequency[i] = self.eta[point]
            left = budget - int(self._needed(i)[head, point])
            for child, part in zip(
                reversed(model.downstream[i]), reversed(self.parts[i]), strict=True
            ):
                used = int(part[head, point, left])
                todo.append((child, head, point, used))
                left -= used
        return Outcome(solution=with_frequencies(self.problem, anchors, frequency))
