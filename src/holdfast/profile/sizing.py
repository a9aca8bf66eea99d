"""How large the batches of a measurement are to be; pure.

A cost per tuple is the slope between batches of two sizes, so that whatever a batch costs by itself
drops out. The larger one must take long enough to be seen, and how long that is is not known before
it was tried: batches grow until one is large enough, which warms everything up on the way, and then
small and large ones alternate, so that whatever drifts hits both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GROWTH = 4.0
SMALL = 0.25
"""The small batches, relative to the large ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One batch."""

    rows: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """When a batch is large enough, and how many are measured."""

    first: int = 1000
    """Rows of the first batch."""
    enough_s: float = 0.5
    """CPU time that the larger batch must take more than the smallest."""
    most: int = 500_000
    """Rows of the largest batch, whatever it takes."""
    pairs: int = 6
    budget_s: float = 60.0
    """Wall time after which no more batches are started."""

    def next(self, tried: Sequence[Tried]) -> int | None:
        """Rows of the next batch, or None when it is enough."""
        grown = self._grown(tried)
        if sum(one.wall_s for one in tried) > self.budget_s and grown < len(tried):
            return None
        if grown == len(tried):
            return min(self.most, round(tried[-1].rows * GROWTH)) if tried else self.first
        measured = len(tried) - grown - 1
        if measured >= 2 * self.pairs:
            return None
        large = tried[grown].rows
        return large if measured % 2 else max(1, round(large * SMALL))

    def measured(self, tried: Sequence[Tried]) -> range:
        """Which batches count: those after growth has ended."""
        return range(min(self._grown(tried) + 1, len(tried)), len(tried))

    def _grown(self, tried: Sequence[Tried]) -> int:
        """The first batch that is large enough; as many as were tried if none is.

        Never the very first, which pays for everything that is done once.
        """
        spent = 0.0
        for index, one in enumerate(tried):
            spent += one.wall_s
            if index == 0:
                continue
            least = min(other.cpu_s for other in tried[:index])
            slow = spent > self.budget_s / 2
            if one.cpu_s - least >= self.enough_s or one.rows >= self.most or slow:
                return index
        return len(tried)
