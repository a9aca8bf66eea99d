"""One step of a unit: what to do next, and what becomes of what it did.

The unit's position (`Position`) is what its checkpoint says. From it and the records follows the
next step, whoever asks: a leader, a follower, a new generation or a zombie.

Batches are numbered from 0 without gaps, and so are slices. A turn takes a number among the ranges,
so after it the range of batch n has number n + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from holdfast.streams.handover import Birth, Handover
from holdfast.streams.reading import ProtocolError, TrimmedError
from holdfast.streams.records import Range, Seal, Slice, Turn, stream_of
from holdfast.streams.steps import Get, Put, Steps, ranges, slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a unit has come: all batches below `batch` are committed."""

    batch: int
    after: int
    """End of the last of them; before the first, the epoch of the unit's birth."""
    turn: int | None = None
    """Number of the unit's turn among its ranges, once it has met it."""
    change: int | None = None
    """The change that the turn belongs to."""

    @property
    def range_number(self) -> int:
        return self.batch if self.turn is None else self.batch + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBatch:
    """Run this range as batch `position.batch`, then publish it."""

    range: Range
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The unit has nothing more to do."""

    why: Literal["handed over", "sealed", "left behind"]


Waiting: TypeAlias = Literal["waiting"]
Step: TypeAlias = RunBatch | Ended | Waiting

Published: TypeAlias = Literal["published", "adopted", "other skip", "sealed", "trimmed"]

Propose: TypeAlias = Callable[[int, Sequence[int], int | None], int | None]
"""Chooses the end of the next batch: from the position, the ends there are after it, and an end
that must be met and not crossed. None: not yet."""


class NondeterministicError(ProtocolError):
    """Two runs of one batch gave different rows."""


class UnitSteps(Handover):
    """What a unit does next, and what its slice becomes."""

    def first_position(self, birth: Birth) -> Position:
        return Position(batch=0, after=birth.epoch)

    def next_step(
        self,
        unit: str,
        position: Position,
        inputs: Sequence[str],
        propose: Propose,
        *,
        must_end_at: int | None = None,
    ) -> Steps[Step]:
        """What a unit at a position does next; sources have no inputs."""
        while True:
            if (yield from self._hand_over(unit, position)):
                return Ended(why="handed over")
            number = position.range_number
            record = yield Get(ranges(unit), number)
            floor = yield from self.floor_now(ranges(unit))
            if number < floor.number:
                return Ended(why="left behind")
            if record is None:
                record = yield from self._propose(unit, position, inputs, propose, must_end_at)
            if record is None:
                item = yield Get(slices(unit), position.batch)
                return Ended(why="sealed") if isinstance(item, Seal) else "waiting"
            if isinstance(record, Turn):
                position = replace(position, turn=number, change=record.change)
                change = yield from self.change(stream_of(unit), record.change)
                yield from self.place_turns(change)
                continue
            if record.after != position.after:
                return Ended(why="left behind")
            return RunBatch(range=record, position=position)

    def _hand_over(self, unit: str, position: Position) -> Steps[bool]:
        """Seal the log if the unit stands at its cut; its state is committed there."""
        if position.change is None:
            return False
        cut = yield from self.cut_epoch(stream_of(unit), position.change)
        if cut is None or cut != position.after:
            return False
        seal = Seal(
            unit=unit,
            number=position.batch,
            change=position.change,
            how="run",
            end=cut,
            batch=position.batch - 1,
            writer=self.writer,
        )
        stored = yield Put(slices(unit), seal.number, seal)
        if isinstance(stored, Slice):
            raise ProtocolError(f"{unit}: slice {seal.number} lies beyond its cut {cut}")
        return True

    def _propose(
        self,
        unit: str,
        position: Position,
        inputs: Sequence[str],
        propose: Propose,
        must_end_at: int | None,
    ) -> Steps[Range | Turn | None]:
        ends = yield from self.common_ends(inputs, position.after)
        limit = must_end_at if must_end_at is not None and must_end_at > position.after else None
        if position.change is not None:
            cut = yield from self.cut_epoch(stream_of(unit), position.change)
            if cut is None:
                change = yield from self.change(stream_of(unit), position.change)
                yield from self.place_turns(change)
                return None
            limit = cut if limit is None else min(cut, limit)
        upto = propose(position.after, ends, limit)
        if upto is None or (limit is not None and upto > limit):
            return None
        number = position.range_number
        record = Range(
            unit=unit,
            number=number,
            after=position.after,
            upto=upto,
            turn=position.turn,
            writer=self.writer,
        )
        stored = yield Put(ranges(unit), number, record)
        if not (yield from self.counts(ranges(unit), number, mine=stored == record)):
            raise TrimmedError(f"{unit}: range {number} was decided and trimmed long ago")
        found: Range | Turn = stored
        return found

    def publish(self, item: Slice) -> Steps[Published]:
        """Make a batch visible, or find what was made visible before."""
        folder = slices(item.unit)
        stored = yield Put(folder, item.number, item)
        if not (yield from self.counts(folder, item.number, mine=stored == item)):
            return "trimmed"  # published and read by all long ago
        if stored == item:
            return "published"
        if isinstance(stored, Seal):
            return "sealed"
        if stored.skip != item.skip:
            return "other skip"
        if not stored.same_content(item):
            raise NondeterministicError(f"{item.unit}: batch {item.number} gave other rows")
        return "adopted"
