"""One step of a unit: what to do next, and what becomes of what it did.

The unit's position (`Position`) is what its checkpoint says. From it and the records follows the
next step, whoever asks: a leader, a follower, a new generation or a zombie.

Batches are numbered from 0 without gaps, and so are slices. A turn takes a number among the ranges,
so after it the range of batch n has number n + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from holdfast.streams.handover import Birth, Handover, NotYet, Void, closing_into
from holdfast.streams.reading import ProtocolError, TrimmedError
from holdfast.streams.records import (
    Range,
    Seal,
    Slice,
    Turn,
    change_of,
    least_known,
    stream_of,
)
from holdfast.streams.steps import Get, Newest, Put, Steps, ranges, slices


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
    watermark_us: int | None = None
    """Of the inputs at `after`, as the last range says; at first that of the birth. Of a source
    that of its last slice."""

    @property
    def range_number(self) -> int:
        return self.batch if self.turn is None else self.batch + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBatch:
    """Run this range as batch `position.batch`, then publish it."""

    range: Range
    position: Position

    @property
    def done(self) -> Position:
        """Where the unit stands when the batch is committed."""
        return replace(
            self.position,
            batch=self.position.batch + 1,
            after=self.range.upto,
            watermark_us=self.range.watermark_us,
        )


Why: TypeAlias = Literal["handed over", "sealed", "left behind"]
"""`handed over`: it ran on to the handover epoch and sealed its log; `sealed`: others sealed it
where it was; `left behind`: another one of the same unit has gone on, and what this one
needs is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The unit has nothing more to do."""

    why: Why
    change: int | None = None
    """The change that it has made way for, if that is why."""


Waiting: TypeAlias = Literal["waiting"]
Step: TypeAlias = RunBatch | Ended | Waiting

Published: TypeAlias = Literal["published", "adopted", "other skip", "sealed", "trimmed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """An epoch at which a batch may end."""

    epoch: int
    rows: int = 0
    """Rows of all inputs from the position up to there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the next batch should be."""

    upto: int
    source: Any = None
    """A source's own position after it."""


Propose: TypeAlias = Callable[[int, Sequence[End], int | None], Proposal | None]
"""Chooses the next batch: from the position, the ends there are after it, and an end that must be
met and not crossed. None: not yet."""


class NondeterministicError(ProtocolError):
    """Two runs of one batch gave different rows."""


class UnitSteps(Handover):
    """What a unit does next, and what its slice becomes."""

    def first_position(self, birth: Birth) -> Position:
        return Position(batch=0, after=birth.epoch, watermark_us=birth.watermark_us)

    def position_at(self, unit: str, batch: int) -> Steps[Position | NotYet | Void]:
        """Where a unit stands that has committed all batches below one."""
        if batch == 0:
            born = yield from self.birth(unit)
            return self.first_position(born) if isinstance(born, Birth) else born
        record = yield from self.recorded(unit, batch - 1)
        change = None
        if record.turn is not None:
            turn = yield from self.turn_of(unit)
            if turn is None:
                raise TrimmedError(f"{unit}: its turn is gone")
            change = turn.change
        return Position(
            batch=batch,
            after=record.upto,
            turn=record.turn,
            change=change,
            watermark_us=record.watermark_us,
        )

    def newest_batch(self, unit: str) -> Steps[int]:
        """The newest batch whose range is on record, -1 for none."""
        while True:
            number: int = yield Newest(ranges(unit))
            if number < 0:
                return -1
            item = yield Get(ranges(unit), number)
            if isinstance(item, Range):
                return number if item.turn is None else number - 1
            if isinstance(item, Turn):
                return number - 1  # if that one is trimmed, none is on record

    def recorded(self, unit: str, batch: int) -> Steps[Range]:
        """The range of a batch that has been run, to run it again or to go on from it."""
        item = yield from self.find_recorded(unit, batch)
        if item is None:
            raise TrimmedError(f"{unit}: the range of batch {batch} is gone")
        return item

    def next_step(
        self,
        unit: str,
        position: Position,
        inputs: Sequence[str],
        propose: Propose,
        *,
        must_end_at: int | None = None,
        reach: int | None = None,
    ) -> Steps[Step]:
        """What a unit at a position does next; sources have no inputs.

        With a `reach`, it looks for ends only so many epochs ahead, unless there are none.
        """
        while True:
            if (yield from self._hand_over(unit, position)):
                return Ended(why="handed over", change=position.change)
            number = position.range_number
            record = yield Get(ranges(unit), number)
            floor = yield from self.floor_now(ranges(unit))
            if number < floor.number:
                return Ended(why="left behind")
            if record is None:
                record = yield from self._propose(
                    unit, position, inputs, propose, must_end_at, reach
                )
            if record is None:
                item = yield Get(slices(unit), position.batch)
                if isinstance(item, Seal):
                    return Ended(why="sealed", change=item.change)
                return "waiting"
            if isinstance(record, Turn):
                position = replace(position, turn=number, change=record.change)
                change = yield from self.change(stream_of(unit), record.change)
                yield from self.place_turns(change)
                continue
            if record.after != position.after:
                return Ended(why="left behind")
            return RunBatch(range=record, position=position)

    def _hand_over(self, unit: str, position: Position) -> Steps[bool]:
        """Seal the log if the unit stands at its handover epoch; its state is committed there."""
        if position.change is None:
            return False
        end = yield from self.handover_epoch(stream_of(unit), position.change)
        if end is None or end != position.after:
            return False
        seal = Seal(
            unit=unit,
            number=position.batch,
            change=position.change,
            how="run",
            end=end,
            batch=position.batch - 1,
            watermark_us=position.watermark_us,
            writer=self.writer,
        )
        stored = yield Put(slices(unit), seal.number, seal)
        if isinstance(stored, Slice):
            raise ProtocolError(f"{unit}: slice {seal.number} lies beyond its handover at {end}")
        return True

    def _propose(
        self,
        unit: str,
        position: Position,
        inputs: Sequence[str],
        propose: Propose,
        must_end_at: int | None,
        reach: int | None,
    ) -> Steps[Range | Turn | None]:
        limit = must_end_at if must_end_at is not None and must_end_at > position.after else None
        for end in (yield from self._stops(unit)):
            if end > position.after:
                limit = end if limit is None else min(end, limit)
        if position.change is not None:
            handover = yield from self.handover_epoch(stream_of(unit), position.change)
            if handover is None:
                change = yield from self.change(stream_of(unit), position.change)
                yield from self.place_turns(change)
                return None
            limit = handover if limit is None else min(handover, limit)
        while True:
            ends = yield from self.unread(inputs, position.after, reach)
            proposal = propose(position.after, ends, limit)
            if proposal is not None or reach is None or self._ran_out or not inputs:
                break
            reach *= 2  # all logs go on beyond the horizon, and no end before it will do
        if proposal is None or (limit is not None and proposal.upto > limit):
            return None
        number, upto = position.range_number, proposal.upto
        if upto <= position.after:
            raise ProtocolError(f"{unit}: a batch from {position.after} cannot end at {upto}")
        record = Range(
            unit=unit,
            number=number,
            after=position.after,
            upto=upto,
            turn=position.turn,
            watermark_us=(yield from self._watermark_at(inputs, position.after, upto)),
            source=proposal.source,
            writer=self.writer,
        )
        stored = yield Put(ranges(unit), number, record)
        if not (yield from self.counts(ranges(unit), number, mine=stored == record)):
            raise TrimmedError(f"{unit}: range {number} was decided and trimmed long ago")
        found: Range | Turn = stored
        return found

    def _stops(self, unit: str) -> Steps[tuple[int, ...]]:
        """Epochs at which a unit of a restart must end a batch: where it begins to carry its
        stream, if it takes over state that stands earlier, and where its readers do. So must those
        to whom it hands over before it has come there.
        """
        stream = stream_of(unit)
        made = yield from self.find_change(stream, change_of(unit))
        while made is not None and made.parents:
            made = yield from self.find_change(stream, change_of(made.parents[0]))
        if made is None or made.since is None:
            return ()
        carries = made.start
        if carries is None:
            closing = closing_into((yield from self.bases(stream)), made.number)
            carries = made.since if closing is None else closing.end
        return (carries, *made.ends)

    def unread(self, inputs: Sequence[str], after: int, reach: int | None) -> Steps[list[End]]:
        """The ends that a batch which begins at a position could have."""
        horizon = None if reach is None else after + reach
        ends = yield from self.common_ends(inputs, after, horizon)
        if not ends:
            return []
        rows: list[tuple[int, int]] = []
        for stream in inputs:
            found = yield from self.read(stream, after, ends[-1])
            rows += [(item.upto, item.rows) for item in found]
        rows.sort()
        made, total, at = [], 0, 0
        for end in ends:
            while at < len(rows) and rows[at][0] <= end:
                total += rows[at][1]
                at += 1
            made.append(End(epoch=end, rows=total))
        return made

    def _watermark_at(self, inputs: Sequence[str], after: int, end: int) -> Steps[int | None]:
        """The smallest watermark of all logs that carry the inputs at an end; None: not known."""
        found: list[int | None] = []
        for stream in inputs:
            items = yield from self.read(stream, after, end)
            found += [item.watermark_us for item in items if item.upto == end]
        return least_known(found)

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
