"""What may be trimmed: nothing that anyone may still have to read.

Floors only rise. A unit pins its inputs from its birth on; its parents pin them until they are
sealed. A stream's last end pins the inputs of whatever may carry it, so that the children of a
`halt` which is not on record yet can begin there; of a path that was shut down, that of the stream
it is a path of, if that is later. What one holder no longer pins the next one does: looked at in
the order in which pins are handed on, none is missed, and each only rises, so an old answer is a
safe one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

from holdfast.streams.records import (
    Change,
    Closing,
    Floor,
    Range,
    Seal,
    Slice,
    change_of,
    skip_place,
    stream_of,
)
from holdfast.streams.repair import KEEP_EVERY
from holdfast.streams.restart import Restarts
from holdfast.streams.steps import (
    RESTARTS,
    Delete,
    Get,
    GetFloor,
    Newest,
    RaiseFloor,
    Steps,
    ranges,
    skips,
    slices,
)

RETAIN_BATCHES = 8
"""Committed batches that a checkpoint keeps: how far back a takeover may redo."""
TRIM_MARGIN = 2
"""Batches kept beyond that: the newest range may be two ahead of the oldest live commit."""


class Wiring(Protocol):
    """Who reads what."""

    def readers(self, stream: str) -> Iterable[str]:
        """The streams (or sinks) that segments make out of this one."""
        ...

    def publishes(self, stream: str) -> bool:
        """Whether it has logs; a sink has none."""
        ...

    def inputs(self, segment: str) -> Iterable[str]:
        """The streams that a segment reads."""
        ...

    def may_shut_down(self, stream: str) -> bool:
        """Whether there may be nobody who carries it: a hot path that has failed for good."""
        ...


class Floors(Restarts):
    """Pins and trimming."""

    def __init__(
        self,
        wiring: Wiring,
        *,
        writer: str = "",
        retain: int = RETAIN_BATCHES,
        margin: int = TRIM_MARGIN,
        shared: Container[str] = (),
        levels: int = 1,
        keep_newest: bool = False,
    ) -> None:
        """`shared` streams may be halted by a change whose children take over the state. With
        `levels` above 1, a slice is kept until what was made of it so many boundaries further down
        is, so that lost slices of up to one less unit in a row can be made again. With
        `keep_newest`, the newest slice of a log that goes on stays, read or not: its unit may have
        been killed before it had committed that batch, and goes on from its watermark.
        """
        super().__init__(writer)
        self._wiring = wiring
        self._retain = retain + margin
        self._shared = shared
        self._levels = levels
        self._keep_newest = keep_newest

    def trim(self, unit: str, stream: str) -> Steps[None]:
        """Trim what one unit owns: its slices and its ranges."""
        pin = yield from self.pin(stream)
        if pin is not None:
            yield from self._trim_slices(unit, pin)
        if (yield from self.is_over(unit)):
            yield from self._forget(unit)
        else:
            yield from self._trim_ranges(unit)

    # Pins

    def pin(self, stream: str, levels: int | None = None) -> Steps[int | None]:
        """The epoch up to which nobody needs the stream any more; None: not known."""
        pins: list[int] = []
        for reader in self._wiring.readers(stream):
            pins += yield from self._pins_of_reader(
                stream, reader, self._levels if levels is None else levels
            )
        return min(pins, default=None)

    def pinned_by(self, stream: str) -> Steps[list[tuple[str, int]]]:
        """Who needs the stream after which epoch, for people: a stream by its end, or a unit."""
        found: list[tuple[str, int]] = []
        for reader in self._wiring.readers(stream):
            changes = yield from self.changes_of(reader)
            if changes:
                found += [(reader, end) for end in (yield from self._pins_of_end(reader))]
            for child in (child for change in changes for child in change.children):
                if stream in self._wiring.inputs(child.segment):
                    pinned = yield from self._unit_pin(child.unit, self._levels)
                    found += [] if pinned is None else [(child.unit, pinned)]
        return found

    def _pins_of_reader(self, stream: str, reader: str, levels: int = 1) -> Steps[list[int]]:
        """What the units of one reading stream pin: the giver of a pin before the taker."""
        pins: list[int] = []
        if (yield from self.find_change(reader, 0)) is None:
            return pins  # a sink that is not there yet; if added, it begins at what is left
        pins += yield from self._pins_of_end(reader)
        return [*pins, *(yield from self._pins_of_units(stream, reader, levels))]

    def _pins_of_end(self, stream: str) -> Steps[list[int]]:
        """What whoever carries a stream on will need: all after its last end.

        One that was shut down is begun again there, or where those stand who read it if that is
        later.
        """
        if not self._wiring.publishes(stream):
            return []
        end = yield from self.last_end(stream)
        if not self._wiring.may_shut_down(stream):
            return [end]
        base, _ = (yield from self.bases(stream))[-1]
        read: list[int] = []
        for reader in () if base.children else self._wiring.readers(stream):
            if (yield from self.find_change(reader, 0)) is not None:
                read += yield from self._pins_of_end(reader)
        return [max(end, min(read, default=-1))]

    def _pins_of_units(self, stream: str, reader: str, levels: int = 1) -> Steps[list[int]]:
        """Parents before children: changes are looked up one by one, as they are on record."""
        pins: list[int] = []
        number = 0
        while (change := (yield from self.find_change(reader, number))) is not None:
            number += 1
            for child in change.children:
                if stream in self._wiring.inputs(child.segment):
                    pinned = yield from self._unit_pin(child.unit, levels)
                    if pinned is not None:
                        pins.append(pinned)
        return pins

    def _unit_pin(self, unit: str, levels: int = 1) -> Steps[int | None]:
        """Where the oldest batch that may be run again begins; None: nothing is needed any more."""
        seal = yield from self.seal_of(unit)
        needed = yield from self._needed_after(unit, seal, levels)
        if seal is not None and needed is None:
            return None
        newest = yield Newest(ranges(unit))
        floor: Floor = yield GetFloor(ranges(unit))
        first = newest + 1 if seal is not None else newest - self._retain
        first = yield from self._first_needed(unit, first, floor, needed)
        for number in range(max(first, floor.number, 0), newest + 1):
            item = yield Get(ranges(unit), number)
            if isinstance(item, Range):
                return item.after
        if seal is not None:
            return None
        # While that is not known, its parents pin what it will need. One without parents is born
        # before anybody trims again.
        return (yield from self.birth_epoch(unit))

    def keep_epoch(self, unit: str) -> Steps[int | None]:
        """A checkpoint keeps its newest commit at or before this epoch; None: the newest few do."""
        seal = yield from self.seal_of(unit)
        return (yield from self._needed_after(unit, seal, self._levels))

    def _needed_after(self, unit: str, seal: Seal | None, levels: int) -> Steps[int | None]:
        """The epoch after which batches may have to be run again, however far the unit is ahead."""
        found: list[int] = []
        stream = stream_of(unit)
        if stream in self._shared and (
            seal is None or (seal.how == "halt" and not (yield from self.inherited(unit)))
        ):
            # The batch that ends there may not have been committed.
            found.append((yield from self.common_end(unit)) - 1)
        if levels > 1 and self._wiring.publishes(stream):
            pinned = yield from self.pin(stream, levels - 1)
            found.append(-1 if pinned is None else pinned)
        return min(found, default=None)

    def _first_needed(self, unit: str, first: int, floor: Floor, needed: int | None) -> Steps[int]:
        """The first range that ends after an epoch, if that is below `first`."""
        while needed is not None and first > floor.number:
            item = yield Get(ranges(unit), first - 1)
            if item is None or (isinstance(item, Range) and item.upto <= needed):
                # A replay begins at a commit that is kept, which may lie a few batches before; and
                # the first of its batches goes on from the range before it, maybe past a turn.
                return max(floor.number, first - KEEP_EVERY - 1) if self._levels > 1 else first
            first -= 1
        return first

    # State that others take over

    def common_end(self, unit: str) -> Steps[int]:
        """The last end that the logs beside a unit have in common: its heirs may begin there."""
        stream = stream_of(unit)
        known = yield from self.bases(stream)
        started: Closing | None = None
        mine: tuple[Change, Closing | None] | None = None
        for base, closing in known:
            if base.number > change_of(unit):
                break
            mine, start = (base, closing), started
            started = closing
        if mine is None:
            return -1
        base, closing = mine
        if closing is not None:
            return closing.end
        common = yield from self._common(stream, base, None)
        begun = start.end if start is not None else base.start
        return max([*common, -1 if begun is None else begun])

    def inherited(self, unit: str) -> Steps[bool]:
        """Whether nobody needs the state of a unit that a `halt` has left any more.

        Those who carry the stream now have their own, or began with none: a unit records its first
        range when it has its state.
        """
        stream = stream_of(unit)
        base, _ = (yield from self.bases(stream))[-1]
        if base.number <= change_of(unit):
            return False
        if not base.shared:
            return True
        for child in base.children:
            if not (yield from self._has_begun(child.unit)):
                return False
        return True

    def _has_turned(self, unit: str) -> Steps[bool]:
        return (yield from self.turn_of(unit)) is not None

    # Units that are over

    def is_over(self, unit: str) -> Steps[bool]:
        """Whether nobody needs anything of a sealed unit any more but its seal.

        All it published is trimmed, everyone who hands over with it has done so, and those who go
        on from its state have their own. Its checkpoints can be removed, and all its records but
        the seal and the floors, which is what stays of it for good: a sleeper that wakes up finds
        them, and its change.
        """
        seal = yield from self.seal_of(unit)
        if seal is None:
            return False
        floor: Floor = yield GetFloor(slices(unit))
        if floor.number < seal.number or not (yield from self.is_taken_over(unit)):
            return False
        stream = stream_of(unit)
        base = yield from self._base_of(unit)
        closed = (yield from self.find_closing(stream, base.number)) is not None
        if closed and stream in self._shared:
            return (yield from self.inherited(unit))
        if seal.how == "halt":
            return closed
        change = yield from self.change(stream, seal.change)
        for parent in change.parents:
            if (yield from self.seal_of(parent)) is None:
                return False
        for child in change.children:
            if not (yield from self._has_begun(child.unit)):
                return False
        if stream in self._shared and seal.end is not None:
            # Left where it handed over, the stream goes on from its state.
            return (yield from self.common_end(unit)) > seal.end
        return True

    def is_taken_over(self, unit: str) -> Steps[bool]:
        """Whether those who go on from the state of a unit that a restart has ended have begun.

        All restarts are looked at: units that a second one ends before they have begun hand on the
        commit that they were to begin with.
        """
        newest = yield Newest(RESTARTS)
        for number in range(newest + 1):
            record = yield from self.find_restart(number)
            for asked in record.changes if record is not None else ():
                if unit in dict(asked.state):
                    heir = yield from self.part_of(number, asked.stream)
                    if heir is None:
                        return False
                    for child in heir.children:
                        if not (yield from self._has_begun(child.unit)):
                            return False
        return True

    def _has_begun(self, unit: str) -> Steps[bool]:
        """Whether a unit needs nobody's state any more."""
        if stream_of(unit) not in self._shared and (yield from self.seal_of(unit)) is not None:
            return True
        return (yield from self.has_state(unit))

    def _base_of(self, unit: str) -> Steps[Change]:
        """The base that a unit's log belongs to."""
        known = yield from self.bases(stream_of(unit))
        found = known[0][0]
        for base, _ in known:
            if base.number <= change_of(unit):
                found = base
        return found

    def _forget(self, unit: str) -> Steps[None]:
        newest = yield Newest(ranges(unit))
        floor: Floor = yield GetFloor(ranges(unit))
        if newest < floor.number:
            return
        yield RaiseFloor(ranges(unit), Floor(number=newest + 1))
        yield from self._remove_ranges(unit, floor.number, newest + 1)

    # Removing

    def _trim_slices(self, unit: str, pin: int) -> Steps[None]:
        """Looks at no more than it removes, and two.

        What is kept as the newest stays until another slice, or a seal, follows it.
        """
        folder = slices(unit)
        floor: Floor = yield GetFloor(folder)
        number, last = floor.number, floor.epoch
        item = yield Get(folder, number)
        while isinstance(item, Slice) and item.upto <= pin:
            following = yield Get(folder, number + 1)
            if following is None and self._keep_newest:
                break
            number, last, item = number + 1, item.upto, following
        if number == floor.number:
            return
        yield RaiseFloor(folder, Floor(number=number, epoch=last))
        for removed in range(floor.number, number):
            yield Delete(folder, removed)
        yield from self.forget_repairs(unit, floor.number, number - 1)

    def _trim_ranges(self, unit: str) -> Steps[None]:
        """A unit that has turned keeps its ranges: its turn must stay above the floor."""
        newest = yield Newest(ranges(unit))
        floor: Floor = yield GetFloor(ranges(unit))
        keep = newest - self._retain - 1  # a batch goes on from the range before it
        if keep <= floor.number:
            return
        seal = yield from self.seal_of(unit)
        needed = yield from self._needed_after(unit, seal, self._levels)
        keep = yield from self._first_needed(unit, keep, floor, needed)
        # The turn is looked for after the newest range: one that comes later has a larger number.
        if keep <= floor.number or (yield from self._has_turned(unit)):
            return
        yield RaiseFloor(ranges(unit), Floor(number=keep))
        yield from self._remove_ranges(unit, floor.number, keep)

    def _remove_ranges(self, unit: str, first: int, keep: int) -> Steps[None]:
        """With the skips of these batches; after a turn a batch is one below its range."""
        skipped = yield Newest(skips(unit))
        for number in range(first, keep):
            yield Delete(ranges(unit), number)
        for place in range(skip_place(max(0, first - 1)), min(skip_place(keep - 1), skipped + 1)):
            yield Delete(skips(unit), place)
