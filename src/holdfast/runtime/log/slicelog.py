"""The slice log of one run: what the record protocol says, carried out on a store.

`holdfast.streams` decides; this runs its decisions, and says in the words of the run time what they
mean. Everything here is without memory. Who reads a stream on and on keeps a `Restarts` of its own
(`steps`), which reads every slice once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from holdfast.deployment import KEY_GROUPS
from holdfast.deployment.slicefiles import SliceFile, group_digests
from holdfast.errors import CheckFailedError, CorruptLogError, HoldfastError
from holdfast.rundir.layout import ORIGIN, Layout, member, record_folder
from holdfast.rundir.records import RecordFolder
from holdfast.storage import Storage, open_storage
from holdfast.storage.identity import new_id
from holdfast.streams import unit as streams_unit
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import (
    MOST_SKIPS,
    Child,
    Claim,
    Floor,
    Range,
    Seal,
    Skip,
    Slice,
    skip_place,
    stream_of,
)
from holdfast.streams.restart import Restarts
from holdfast.streams.steps import Get, GetFloor, Newest, Put, Steps, claims, ranges, skips, slices

T = TypeVar("T")


class SupersededError(HoldfastError):
    """A newer generation has gone on; this one must stop and write nothing more."""


class EndedError(HoldfastError):
    """The unit has come to its end: its log is sealed, and others carry the stream on."""

    def __init__(self, unit: str, ended: streams_unit.Ended, heirs: tuple[str, ...] = ()) -> None:
        self.ended, self.heirs = ended, heirs
        why = "has handed over" if ended.why == "handed over" else "was ended"
        after = f" to {', '.join(heirs)}" if heirs else ""
        super().__init__(f"{unit} {why}{after}: change {ended.change} of its stream")


class NondeterministicError(CheckFailedError):
    """Two runs of one batch gave different rows."""

    def __init__(self, item: Slice, other: Slice) -> None:
        self.unit, self.number = item.unit, item.number
        groups = {
            group
            for boundary in item.files
            for group in _differing(item.files[boundary], other.files.get(boundary, ()))
        }
        super().__init__(
            f"{item.unit}: batch {item.number} gave {item.rows} rows for epochs "
            f"{item.after + 1}..{item.upto}, but {other.rows} rows were published by "
            f"generation {other.generation} (key groups {sorted(groups)[:8]} differ); the segment "
            "is not deterministic: put what differs into a map declared deterministic=False"
        )


class OtherSkipError(HoldfastError):
    """The batch was published with other rows left out; what is stored counts."""

    def __init__(self, item: Slice, stored: Slice) -> None:
        super().__init__(
            f"{item.unit}: batch {stored.number} was published by generation "
            f"{stored.generation} with version {skip_version(stored)} of its skip record, this run "
            f"used version {skip_version(item)}"
        )


class SliceLog:
    """The records of one run directory, as one writer sees them."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        store: Storage | None = None,
        *,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        """Args:
        root: the run directory.
        store: what is in it, if that is open already.
        new_id: where identities come from: this writer's, and those of sinks' lives.
        """
        self.layout = Layout()
        self.store: Storage = store if store is not None else open_storage(root)
        self.records = RecordFolder(self.store)
        self._new_id = new_id
        self.writer = new_id()

    @property
    def root(self) -> str:
        """The run directory, as other processes open it."""
        return self.store.address("")

    # Decisions

    def steps(self) -> Restarts:
        """The decisions of the protocol, with a memory of their own; for one thread."""
        return Restarts(self.writer)

    def run(self, steps: Steps[T]) -> T:
        """Carry a decision out."""
        return self.records.run(steps)

    def child(self, unit: str) -> Child:
        """What the change that made a unit says of it."""
        return self.run(self.steps().child(unit))

    def carriers(self, stream: str) -> tuple[Child, ...]:
        """Who carries a stream once all changes on record are carried out; nobody before any."""
        return tuple(self.run(self.steps().carriers(stream)))

    def heirs(self, unit: str, ended: streams_unit.Ended) -> tuple[str, ...]:
        """Who carries on what a unit has carried, as far as that is on record."""
        if ended.change is None:
            return ()
        change = self.run(self.steps().find_change(stream_of(unit), ended.change))
        return tuple(child.unit for child in change.children) if change else ()

    def ended(self, unit: str, ended: streams_unit.Ended) -> HoldfastError:
        """What a unit that comes to its end is to raise."""
        if ended.why == "left behind":
            return SupersededError(f"{unit}: what it needs was trimmed: a newer unit went on")
        return EndedError(unit, ended, self.heirs(unit, ended))

    def require_open(self, unit: str) -> None:
        """Raise if a unit has come to its end: one that died before it could tell it.

        Nothing is published past a seal, so there is nothing left to do; and nothing may be left of
        what it would have to go on from.
        """
        seal = self.run(self.steps().seal_of(unit))
        if seal is not None:
            why: streams_unit.Why = "handed over" if seal.how == "run" else "sealed"
            raise self.ended(unit, streams_unit.Ended(why=why, change=seal.change))

    # Ranges

    def range(self, unit: str, batch: int) -> Range | None:
        """The range of a batch, if it is on record."""
        return self.run(self.steps().find_recorded(unit, batch))

    def need_range(self, unit: str, batch: int) -> Range:
        """The range of a batch that somebody depends on."""
        record = self.range(unit, batch)
        if record is None:
            raise self._missing(ranges(unit), batch)
        return record

    def newest_batch(self, unit: str) -> int:
        """The newest batch whose range is on record, -1 for none."""
        return self.run(self.steps().newest_batch(unit))

    def put_time(self, record: Range | Slice) -> float | None:
        """When a record was put, wall-clock seconds; None if it is gone, or that is not known."""
        folder = (ranges if isinstance(record, Range) else slices)(record.unit)
        return self.store.put_time(member(record_folder(folder), record.number))

    # Skips

    def skip(self, unit: str, batch: int, version: int) -> Skip | None:
        found: Skip | None = self.records.execute(Get(skips(unit), skip_place(batch, version)))
        return found

    def newest_skip(self, unit: str, batch: int) -> Skip | None:
        """The skip record with all the rows of a batch that anyone has failed on."""
        newest = None
        for version in range(1, MOST_SKIPS + 1):
            found = self.skip(unit, batch, version)
            if found is None:
                break
            newest = found
        return newest

    def skipping(self, unit: str) -> list[int]:
        """The batches that have a skip record."""
        names = self.store.names(record_folder(skips(unit)))
        return sorted({int(name) // MOST_SKIPS for name in names})

    def put_skip(self, record: Skip) -> Skip:
        """Leave out rows of a batch; returns the record that counts, maybe someone else's."""
        place = skip_place(record.batch, record.version)
        record = replace(record, number=place, writer=self.writer)
        if self.range(record.unit, record.batch) is None:
            raise self._missing(ranges(record.unit), record.batch)
        stored: Skip = self.records.execute(Put(skips(record.unit), place, record))
        if self.range(record.unit, record.batch) is None:  # looked at afterwards: that counts
            self.store.delete(member(record_folder(skips(record.unit)), place))
            raise self._missing(ranges(record.unit), record.batch)
        return stored

    # Slices

    def slice(self, unit: str, number: int) -> Slice | None:
        """What a batch has published, if it has."""
        found = self.records.execute(Get(slices(unit), number))
        return found if isinstance(found, Slice) else None

    def need_slice(self, unit: str, number: int) -> Slice:
        found = self.slice(unit, number)
        if found is None or number < self.floor(slices(unit)).number:
            raise self._missing(slices(unit), number)
        return found

    def slices_from(self, unit: str, number: int) -> Iterator[Slice]:
        """Published slices from a number on, found by name: no directory is listed."""
        while (found := self.slice(unit, number)) is not None:
            yield found
            number += 1

    def publish(self, item: Slice, *, adopt: bool = False) -> Slice:
        """Make a batch visible; returns the slice that counts.

        Raises if the batch was published with other rows, unless these are to be adopted, and if it
        was made from other rows: whoever keeps state must run it again, from those. What differs in
        the rounding of floats alone is not another row.
        """
        item = replace(item, writer=self.writer)
        try:
            told = self.run(self.steps().publish(item))
        except streams_unit.NondeterministicError:
            stored = self.need_slice(item.unit, item.number)
            if adopt or self._rounded(stored, item):
                return stored
            raise NondeterministicError(item, stored) from None
        match told:
            case "published":
                return item
            case "adopted":
                return self.need_slice(item.unit, item.number)
            case "trimmed":
                raise self._missing(slices(item.unit), item.number)
            case "sealed":
                seal: Seal = self.records.execute(Get(slices(item.unit), item.number))
                raise self.ended(item.unit, streams_unit.Ended(why="sealed", change=seal.change))
            case "other skip":
                raise OtherSkipError(item, self.need_slice(item.unit, item.number))

    def _rounded(self, stored: Slice, item: Slice) -> bool:
        if (stored.after, stored.upto, stored.rows) != (item.after, item.upto, item.rows):
            return False
        import pyarrow as pa  # noqa: PLC0415 - slow to load, and hardly ever needed here

        from holdfast.runtime.log.rounding import same_but_for_rounding  # noqa: PLC0415 - the same
        from holdfast.runtime.log.slices import read_slice  # noqa: PLC0415 - the same

        boundary = next(iter(item.files))
        folder = self.data(item.unit, boundary)
        mine, theirs = (
            pa.Table.from_batches(read_slice(folder, found.files[boundary], range(KEY_GROUPS)))
            for found in (item, stored)
        )
        return same_but_for_rounding(mine, theirs)

    def data(self, unit: str, boundary: str) -> Storage:
        """Where the slice files of a unit on a boundary are."""
        return self.store.below(self.layout.data(unit, boundary))

    # Time

    def origin(self) -> float | None:
        """The wall-clock second at which epoch 0 began; None before any source has started."""
        stored = self.store.get(ORIGIN)
        return None if stored is None else float(json.loads(stored))

    def put_origin(self, now: float) -> float:
        """The same; the first to ask decides that it is now."""
        known = self.origin()
        if known is not None:
            return known
        return float(json.loads(self.store.put_if_absent(ORIGIN, json.dumps(now).encode())))

    # Lives of sinks

    def known_life(self, unit: str) -> str | None:
        """Id of the present life of a sink; None before its first exporter has started."""
        stored = self.store.get(self.layout.life(unit))
        return None if stored is None else stored.decode()

    def life(self, unit: str) -> str:
        """The same; the first to ask makes it. It goes with the unit's records, so a reset sink,
        whose batches are numbered from 0 again, has another.
        """
        known = self.known_life(unit)
        if known is not None:
            return known
        mine = self._new_id()[:12].encode()
        return self.store.put_if_absent(self.layout.life(unit), mine).decode()

    # Generations

    def claim(self, unit: str, generation: int, replica: int = 0) -> None:
        """Take a generation of a replica, and tell older ones to stop.

        It is exclusive: whoever else was given the same number must not write its checkpoint. Only
        the newest claim counts, so the older ones are removed: a unit that is taken over again and
        again leaves no trail.
        """
        folder = claims(unit, replica)
        claim = Claim(unit=unit, replica=replica, number=generation, writer=self.writer)
        stored: Claim = self.records.execute(Put(folder, generation, claim))
        if stored != claim:
            raise SupersededError(f"{unit}: generation {generation} was claimed by {stored.writer}")
        # Looked at afterwards: an older number may be free again because its claim was removed.
        self.check_current(unit, generation, replica)
        for name in self.store.names(record_folder(folder)):
            if int(name) < generation:
                self.store.delete(f"{record_folder(folder)}/{name}")

    def claim_path(self, unit: str, generation: int, replica: int = 0) -> str:
        """Address of the record of a generation's claim to the unit: for who watches for it."""
        return self.records.address(claims(unit, replica), generation)

    def check_current(self, unit: str, generation: int, replica: int = 0) -> None:
        """Raise if a newer generation has claimed the unit."""
        newest = self.records.execute(Newest(claims(unit, replica)))
        if newest > generation:
            raise SupersededError(f"{unit}: generation {generation} was replaced by {newest}")

    # Floors

    def floor(self, folder: str) -> Floor:
        """What of a folder is trimmed."""
        found: Floor = self.records.execute(GetFloor(folder))
        return found

    def _missing(self, folder: str, number: int) -> HoldfastError:
        """Why a record is not there that somebody depends on: floors rise before it is removed."""
        floor = self.floor(folder).number
        if number < floor:
            return SupersededError(
                f"{folder}/{number} was trimmed (floor {floor}): a newer unit went on"
            )
        return CorruptLogError(
            f"is not there, and nothing from {floor} on was trimmed: removed, or never put",
            path=self.records.address(folder, number),
        )


def skip_version(item: Slice | None) -> int:
    """Which version of its skip record a slice was made with; 0: nothing was left out."""
    return int(item.skip or 0) if item is not None else 0


def trimmed(error: TrimmedError) -> SupersededError:
    """What it means for a running unit that what it reads is gone: somebody else has read it."""
    return SupersededError(f"{error}: a newer unit went on")


def _differing(mine: Iterable[SliceFile], theirs: Iterable[SliceFile]) -> set[int]:
    left, right = group_digests(mine), group_digests(theirs)
    return {group for group in {*left, *right} if left.get(group) != right.get(group)}
