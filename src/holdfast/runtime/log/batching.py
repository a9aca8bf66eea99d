"""How a unit divides its input into batches: the policy that the pure step of a unit is given.

A batch ends at an end of all inputs, so the slice it publishes reflects exactly the source rows up
to that epoch, whatever the shards, the batching and the failures before. Which end is a matter of
policy alone. A unit that keeps up takes one batch interval at a time. One that is behind takes
several at once, up to the roundest end it can reach (see `roundest`), so that shards which fall
behind by different amounts keep meeting at common ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.streams.unit import End, Proposal

MAX_BATCH_ROWS = 1_000_000
"""A unit that is behind takes no more rows than this in one batch, unless one interval has more."""

MAX_BATCH_EPOCHS = 512
"""Nor does it look further ahead than this for the end of a batch, so that planning one costs the
same whether it is a minute or a day behind. A power of two: see `_cells`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How a unit divides its input into batches."""

    batch_epochs: int = 1
    one_epoch_per_batch: bool = False
    max_rows: int = MAX_BATCH_ROWS
    max_epochs: int = MAX_BATCH_EPOCHS

    @property
    def reach(self) -> int:
        """How many epochs ahead an end may be chosen."""
        return (self._cells() + 1) * self.batch_epochs

    def propose(self, after: int, ends: Sequence[End], limit: int | None) -> Proposal | None:
        """The next batch of a unit that reads streams."""
        upto = self.choose_end(after, ends, limit)
        return None if upto is None else Proposal(upto=upto)

    def choose_end(self, after: int, ends: Sequence[End], limit: int | None = None) -> int | None:
        """The end of the next batch; None while the inputs do not suffice.

        The first end in each batch interval is a candidate; the roundest that is not too large is
        it. A `limit` must be met: it is a candidate whatever the interval.
        """
        span = self.batch_epochs
        cell = (after + 1) // span
        last = cell + self._cells()
        best = -1
        chosen: int | None = None
        for end in ends:
            if limit is not None and end.epoch >= limit:
                # No end of a batch may be passed by one that began before a better one.
                return limit if chosen is None and end.epoch == limit else chosen
            if (end.epoch + 1) // span == cell:
                continue
            cell = (end.epoch + 1) // span
            if chosen is not None and (cell > last or end.rows > self.max_rows):
                break
            if cell & -cell >= best:
                best, chosen = cell & -cell, end.epoch
            if self.one_epoch_per_batch or cell >= last:
                break
        return chosen

    def due(
        self, after: int, tick: int, limit: int | None = None, *, max_epochs: int = 1 << 30
    ) -> int | None:
        """The epoch up to which a source's next batch goes, or None before its time has come.

        Sources end their batches at whole batch intervals, so that several of them meet. Monotone
        even if the clock runs backwards: never below `after` + 1.
        """
        span = self.batch_epochs
        first = (self.due_tick(after) + 1) // span
        newest = min(tick, after + max(max_epochs, span)) + 1
        upto = None
        if newest // span >= first:
            cell = first if self.one_epoch_per_batch else roundest(first, newest // span)
            upto = cell * span - 1
        if limit is None or (upto is not None and upto <= limit):
            return upto
        return limit if tick >= limit else None

    def due_tick(self, after: int) -> int:
        """The first epoch whose end makes a source's next batch due."""
        return ((after + 1) // self.batch_epochs + 1) * self.batch_epochs - 1

    def _cells(self) -> int:
        """How many batch intervals ahead are looked at for the end of a batch: a power of two.

        A window of so many holds exactly one multiple of it, so nobody ever steps over one: however
        far behind they are, shards meet there at the latest.
        """
        reach = max(1, self.max_epochs // self.batch_epochs)
        return 1 << (reach.bit_length() - 1)


def roundest(low: int, high: int) -> int:
    """The number in [low, high] that the largest power of two divides; low >= 1.

    Whoever walks up the numbers by such steps, from wherever, in whatever strides, lands on every
    number that is rounder than all others it passes: so do two who fell behind differently.
    """
    for bits in range(high.bit_length(), -1, -1):
        number = high >> bits << bits
        if number >= low:
            return number
    raise ValueError(f"no number in [{low}, {high}]")
