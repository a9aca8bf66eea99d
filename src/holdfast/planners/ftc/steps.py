"""Step functions for the tree programs: the cost of a subtree against the latency it may pass on.

f(y) = base + the sum of all steps above y: non-increasing, because more latency never costs more.
A tree program adds such functions, shifts them by T, cuts them off at a bound and clips them at the
cost of a backup. All four are cheap on a double-ended queue of steps that is merged small into
large: O(n log^2 n) for a whole tree.
"""

from __future__ import annotations

import heapq
import math


class Steps:
    """A non-increasing step function with finitely many steps, kept with a lazy shift."""

    __slots__ = ("_height", "_high", "_infinite", "_low", "_next", "_shift", "_total", "base")

    def __init__(self) -> None:
        self.base = 0.0
        """f of a latency above every step."""
        self._low: list[tuple[float, int]] = []
        self._high: list[tuple[float, int]] = []
        self._height: dict[int, float] = {}
        self._next = 0
        self._shift = 0.0
        self._total = 0.0
        self._infinite = 0

    def __len__(self) -> int:
        return len(self._height)

    def items(self) -> list[tuple[float, float]]:
        """Every step as (where, height), in no order."""
        return [
            (key + self._shift, self._height[own]) for key, own in self._low if own in self._height
        ]

    def shift(self, by: float) -> None:
        """Move every step up by a time."""
        self._shift += by

    def add(self, at: float, height: float) -> None:
        """Below `at`, f grows by `height`."""
        key, own = at - self._shift, self._next
        self._next += 1
        self._height[own] = height
        heapq.heappush(self._low, (key, own))
        heapq.heappush(self._high, (-key, own))
        if height == math.inf:
            self._infinite += 1
        else:
            self._total += height

    def merged(self, other: Steps) -> Steps:
        """The sum of two functions; both arguments are used up."""
        large, small = (self, other) if len(self) >= len(other) else (other, self)
        large.base += small.base
        for at, height in small.items():
            large.add(at, height)
        return large

    def cut_off(self, above: float) -> None:
        """Latencies above `above` are not to be had: their steps are paid in any case."""
        while self._high:
            key, own = self._high[0]
            if own not in self._height:
                heapq.heappop(self._high)
            elif -key + self._shift > above:
                heapq.heappop(self._high)
                self.base += self._remove(own)
            else:
                return

    def clip(self, height: float) -> float:
        """Never pay more than base + `height`; returns the latency below which that is cheaper."""
        threshold = -math.inf
        while self._low and (self._infinite or self._total > height) and height < math.inf:
            key, own = heapq.heappop(self._low)
            if own not in self._height:
                continue
            threshold = key + self._shift
            self._remove(own)
            rest = math.inf if self._infinite else self._total
            if rest < height:
                self.add(threshold, height - rest)
                break
        return threshold

    def _remove(self, own: int) -> float:
        height = self._height.pop(own)
        if height == math.inf:
            self._infinite -= 1
        else:
            self._total -= height
        return height
