"""Fidelity kept up to date while tasks fail and return one after another.

A change touches its own operator and what lies below it; an operator whose completeness did not
change stops the wave. Changes can be tried and taken back, which is how planners and the run-time
compare variations of one state.

Complexity: O(tasks of the operators that change) per change.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from types import TracebackType

import numpy as np

from holdfast.planners.ppa.fidelity import BoolArray, FidelityModel
from holdfast.planners.ppa.fidelity_streams import FloatArray


class FidelityState:
    """Which tasks are alive, and the fidelity that follows."""

    def __init__(self, model: FidelityModel, alive: BoolArray) -> None:
        self.model = model
        self._state = alive.astype(np.float64)
        self._complete = model.propagate(self._state)
        lengths = [span.stop - span.start for span in model.spans]
        self._operator = np.repeat(np.arange(len(lengths)), lengths)
        self._rank = np.empty(len(lengths), np.int64)
        self._rank[np.asarray(model.topology.order)] = np.arange(len(lengths))
        self._queries: list[list[tuple[float, FloatArray]]] = [[] for _ in lengths]
        for query in model.queries:
            self._queries[query.operator].append((query.weight, query.parts))
        self._fidelity = float(model.weigh(self._complete))
        self._undo: list[list[tuple[slice, FloatArray, FloatArray]]] = []
        self._undo_fidelity: list[float] = []

    @property
    def fidelity(self) -> float:
        """OF now."""
        return self._fidelity

    @property
    def alive(self) -> BoolArray:
        return self._state > 0

    def fail(self, tasks: Iterable[int]) -> float:
        """Let tasks fail; returns OF."""
        return self._set(tasks, 0.0)

    def revive(self, tasks: Iterable[int]) -> float:
        """Let tasks return; returns OF."""
        return self._set(tasks, 1.0)

    def trial(self) -> Trial:
        """A `with` block after which everything is as before."""
        return Trial(self)

    def _set(self, tasks: Iterable[int], value: float) -> float:
        model = self.model
        dirty: dict[int, list[int]] = {}
        for task in tasks:
            if self._state[task] != value:
                dirty.setdefault(int(self._operator[task]), []).append(task)
        wave = [(int(self._rank[i]), i) for i in dirty]
        heapq.heapify(wave)
        queued = set(dirty)
        while wave:
            _, i = heapq.heappop(wave)
            span = model.spans[i]
            state, before = self._state[span].copy(), self._complete[span].copy()
            for task in dirty.get(i, ()):
                self._state[task] = value
            after = self._state[span]
            if model.inputs[i]:
                after = after * model.arriving(i, self._complete)
            if self._undo:
                self._undo[-1].append((span, state, before))
            if np.array_equal(after, before):
                continue
            self._complete[span] = after
            for weight, parts in self._queries[i]:
                self._fidelity += weight * float(parts @ (after - before))
            for j in model.topology.downstream[i]:
                if j not in queued:
                    queued.add(j)
                    heapq.heappush(wave, (int(self._rank[j]), j))
        return self._fidelity

    def _begin(self) -> None:
        self._undo.append([])
        self._undo_fidelity.append(self._fidelity)

    def _back(self) -> None:
        for span, state, complete in reversed(self._undo.pop()):
            self._state[span] = state
            self._complete[span] = complete
        self._fidelity = self._undo_fidelity.pop()


class Trial:
    """Takes back on exit what was changed inside."""

    def __init__(self, state: FidelityState) -> None:
        self._state = state

    def __enter__(self) -> FidelityState:
        self._state._begin()  # noqa: SLF001  one mechanism in two classes
        return self._state

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._state._back()  # noqa: SLF001
