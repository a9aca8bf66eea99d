"""What may be trimmed: nothing that anyone may still have to read.

Floors only rise. A unit pins its inputs from its birth on; its parents pin them until they are
sealed. A stream's last end pins the inputs of whatever may carry it, so that the children of a
`cut` which is not on record yet can begin there. What one holder no longer pins the next one does:
looked at in the order in which pins are handed on, none is missed, and each only rises, so an old
answer is a safe one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from holdfast.streams.handover import Birth
from holdfast.streams.records import Floor, Range
from holdfast.streams.steps import (
    Delete,
    Get,
    GetFloor,
    Newest,
    RaiseFloor,
    Steps,
    changes,
    ranges,
    slices,
)
from holdfast.streams.unit import UnitSteps

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


class Floors(UnitSteps):
    """Pins and trimming."""

    def __init__(
        self,
        wiring: Wiring,
        *,
        writer: str = "",
        retain: int = RETAIN_BATCHES,
        margin: int = TRIM_MARGIN,
    ) -> None:
        super().__init__(writer)
        self._wiring = wiring
        self._retain = retain + margin

    def trim(self, unit: str, stream: str) -> Steps[None]:
        """Trim what one unit owns: its slices and its ranges."""
        pin = yield from self.pin(stream)
        if pin is not None:
            yield from self._trim_slices(unit, pin)
        yield from self._trim_ranges(unit)

    # Pins

    def pin(self, stream: str) -> Steps[int | None]:
        """The epoch up to which nobody needs the stream any more; None: not known."""
        pins: list[int] = []
        for reader in self._wiring.readers(stream):
            pins += yield from self._pins_of_reader(stream, reader)
        return min(pins, default=None)

    def _pins_of_reader(self, stream: str, reader: str) -> Steps[list[int]]:
        """What the units of one reading stream pin: the giver of a pin before the taker."""
        pins: list[int] = []
        if (yield Get(changes(reader), 0)) is None:
            return pins  # a sink that is not there yet; if added, it begins at what is left
        if self._wiring.publishes(reader):
            pins.append((yield from self.last_end(reader)))
        return [*pins, *(yield from self._pins_of_units(stream, reader))]

    def _pins_of_units(self, stream: str, reader: str) -> Steps[list[int]]:
        """Parents before children: changes are looked up one by one, as they are on record."""
        pins: list[int] = []
        number = 0
        while (change := (yield Get(changes(reader), number))) is not None:
            number += 1
            for child in change.children:
                if stream in self._wiring.inputs(child.segment):
                    pinned = yield from self._unit_pin(child.unit)
                    if pinned is not None:
                        pins.append(pinned)
        return pins

    def _unit_pin(self, unit: str) -> Steps[int | None]:
        """Where the oldest batch that may be run again begins; None: nothing is needed any more."""
        if (yield from self.seal_of(unit)) is not None:
            return None
        newest = yield Newest(ranges(unit))
        floor: Floor = yield GetFloor(ranges(unit))
        for number in range(max(newest - self._retain, floor.number, 0), newest + 1):
            item = yield Get(ranges(unit), number)
            if isinstance(item, Range):
                return item.after
        born = yield from self.birth(unit)
        # While that is not known, its parents pin what it will need.
        return born.epoch if isinstance(born, Birth) else None

    def _has_turned(self, unit: str) -> Steps[bool]:
        return (yield from self.turn_of(unit)) is not None

    # Removing

    def _trim_slices(self, unit: str, pin: int) -> Steps[None]:
        log = yield from self.log(unit, None)
        doomed = [item for item in log.slices if item.upto <= pin]
        if not doomed:
            return
        first = doomed[0].number
        yield RaiseFloor(slices(unit), Floor(number=doomed[-1].number + 1, epoch=doomed[-1].upto))
        for number in range(first, doomed[-1].number + 1):
            yield Delete(slices(unit), number)

    def _trim_ranges(self, unit: str) -> Steps[None]:
        """A unit that has turned keeps its ranges: its turn must stay above the floor."""
        newest = yield Newest(ranges(unit))
        floor: Floor = yield GetFloor(ranges(unit))
        keep = newest - self._retain
        # The turn is looked for after the newest range: one that comes later has a larger number.
        if keep <= floor.number or (yield from self._has_turned(unit)):
            return
        yield RaiseFloor(ranges(unit), Floor(number=keep))
        for number in range(floor.number, keep):
            yield Delete(ranges(unit), number)
