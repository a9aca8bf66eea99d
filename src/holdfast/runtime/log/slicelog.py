"""The slice log of one run: typed records over a store, and who may still write them.

A number below the floor was decided and trimmed; putting it again would decide it twice. So what
is put or found below the floor does not exist. Writers look at the floor before the put, which is
no more than thrift, and again after it, which counts: they may have slept in between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from holdfast.deployment import KEY_GROUPS
from holdfast.deployment.records import (
    R,
    RangeRecord,
    SkipRecord,
    SliceRecord,
    decode,
    encode,
    parse_record_name,
    record_name,
)
from holdfast.errors import CheckFailedError, CorruptLogError, HoldfastError
from holdfast.rundir.layout import ORIGIN, Layout, member
from holdfast.storage import Storage, open_storage
from holdfast.storage.identity import new_id

MAX_SKIPS = 64
"""Versions of a batch's skip record: one per search, which ends after a while with what it has
found by then. A batch that needs more is not saved."""


class SupersededError(HoldfastError):
    """A newer generation has gone on; this one must stop and write nothing more."""


class NondeterministicError(CheckFailedError):
    """Two runs of one batch gave different rows."""

    def __init__(self, unit: str, record: SliceRecord, other: SliceRecord) -> None:
        self.unit = unit
        self.number = record.number
        theirs = other.digests()
        groups = sorted(
            group
            for group in {*record.digests(), *theirs}
            if record.digests().get(group) != theirs.get(group)
        )
        super().__init__(
            f"{unit}: batch {record.number} gave {record.rows} rows for epochs "
            f"{record.after + 1}..{record.upto}, but {other.rows} rows were published by "
            f"generation {other.generation} (key groups {groups[:8]} differ); the segment is not "
            "deterministic: put what differs into a map declared deterministic=False"
        )


class OtherSkipError(HoldfastError):
    """The batch was published with other rows left out; what is stored counts."""

    def __init__(self, unit: str, used: int, stored: SliceRecord) -> None:
        super().__init__(
            f"{unit}: batch {stored.number} was published by generation {stored.generation} with "
            f"version {stored.skip} of its skip record, this run used version {used}"
        )


class SliceLog:
    """Range, slice and skip records of one run directory."""

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
        self._new_id = new_id
        self.writer = new_id()

    @property
    def root(self) -> str:
        """The run directory, as other processes open it."""
        return self.store.address("")

    # Ranges

    def range(self, unit: str, number: int) -> RangeRecord | None:
        record = self._get(RangeRecord, member(self.layout.ranges(unit), number))
        if record is not None and number < self.floor(self.layout.unit_floors(unit)):
            return None
        return record

    def need_range(self, unit: str, number: int) -> RangeRecord | None:
        """The range record a batch depends on; None only for the one before the first."""
        if number < 0:
            return None
        record = self.range(unit, number)
        if record is None:
            raise self._missing(self.layout.ranges(unit), self.layout.unit_floors(unit), number)
        return record

    def put_range(self, record: RangeRecord) -> RangeRecord:
        """Fix what a batch reads; returns the record that counts, maybe someone else's."""
        name = member(self.layout.ranges(record.unit), record.number, record.timeline)
        floors = self.layout.unit_floors(record.unit)
        record = replace(record, writer=self.writer)
        return self._put_above(floors, RangeRecord, name, record, unit=record.unit)

    def put_time(self, unit: str, number: int) -> float:
        """When a range record was put, wall-clock seconds; 0 if that is not known."""
        return self.store.put_time(member(self.layout.ranges(unit), number)) or 0.0

    def newest_range(self, unit: str, start: int = -1) -> int:
        """Number of the newest range record, -1 for none; walks on from `start` if given."""
        if start < 0:
            names = self.store.names(self.layout.ranges(unit))
            return parse_record_name(names[-1])[1] if names else -1
        while self.store.exists(member(self.layout.ranges(unit), start + 1)):
            start += 1
        return start

    # Skips

    def skip(self, unit: str, number: int, version: int) -> SkipRecord | None:
        return self._get(SkipRecord, member(self.layout.skips(unit, version), number))

    def newest_skip(self, unit: str, number: int) -> SkipRecord | None:
        """The skip record with all the rows of a batch that anyone has failed on."""
        newest = None
        for version in range(1, MAX_SKIPS + 1):
            found = self.skip(unit, number, version)
            if found is None:
                break
            newest = found
        return newest

    def skipping(self, unit: str) -> list[int]:
        """Numbers of the batches that have a skip record."""
        names = self.store.names(self.layout.skips(unit, 1))
        return [parse_record_name(name)[1] for name in names]

    def put_skip(self, record: SkipRecord) -> SkipRecord:
        """Leave out rows of a batch; returns the record that counts, maybe someone else's."""
        folder = self.layout.skips(record.unit, record.version)
        name = member(folder, record.number, record.timeline)
        floors = self.layout.unit_floors(record.unit)
        record = replace(record, writer=self.writer)
        return self._put_above(floors, SkipRecord, name, record, unit=record.unit)

    # Slices

    def slice(self, boundary: str, shard: int, number: int) -> SliceRecord | None:
        return self._get(SliceRecord, member(self.layout.slices(boundary, shard), number))

    def need_slice(self, boundary: str, shard: int, number: int) -> SliceRecord:
        record = self.slice(boundary, shard, number)
        floors = self.layout.slice_floors(boundary, shard)
        if record is None or number < self.floor(floors):
            raise self._missing(self.layout.slices(boundary, shard), floors, number)
        return record

    def slices_from(self, boundary: str, shard: int, number: int) -> Iterator[SliceRecord]:
        """Published slices from a number on, found by name: no directory is listed."""
        while (record := self.slice(boundary, shard, number)) is not None:
            yield record
            number += 1

    def put_slice(self, record: SliceRecord, *, unit: str, adopt: bool = False) -> SliceRecord:
        """Publish a slice; returns the record that counts.

        Raises if the number was published with other rows, or made from other rows, unless these
        are to be adopted. What differs in the rounding of floats alone is not another row.
        """
        floors = self.layout.slice_floors(record.boundary, record.shard)
        record = replace(record, writer=self.writer)
        folder = self.layout.slices(record.boundary, record.shard)
        name = member(folder, record.number, record.timeline)
        stored = self._put_above(floors, SliceRecord, name, record, unit=unit)
        if adopt or stored.same_content(record):
            return stored
        if stored.skip != record.skip:
            raise OtherSkipError(unit, record.skip, stored)
        if self._rounded(stored, record):
            return stored
        raise NondeterministicError(unit, record, stored)

    def _rounded(self, stored: SliceRecord, record: SliceRecord) -> bool:
        if not stored.same_batch(record) or stored.rows != record.rows:
            return False
        import pyarrow as pa  # noqa: PLC0415 - slow to load, and hardly ever needed here

        from holdfast.runtime.log.rounding import same_but_for_rounding  # noqa: PLC0415 - the same
        from holdfast.runtime.log.slices import read_slice  # noqa: PLC0415 - the same

        folder = self.data(record.boundary, record.shard)
        mine, theirs = (
            pa.Table.from_batches(read_slice(folder, item, range(KEY_GROUPS)))
            for item in (record, stored)
        )
        return same_but_for_rounding(mine, theirs)

    def slice_time(self, record: SliceRecord) -> float | None:
        """When a slice was published, wall-clock seconds; None if it was trimmed meanwhile."""
        folder = self.layout.slices(record.boundary, record.shard)
        return self.store.put_time(member(folder, record.number, record.timeline))

    def data(self, boundary: str, shard: int) -> Storage:
        """Where the slice files of a boundary's shard are."""
        return self.store.below(self.layout.data(boundary, shard))

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

    def claim(self, unit: str, generation: int) -> None:
        """Tell older generations to stop; a courtesy, as safety rests on the records alone.

        Only the newest claim counts, so the older ones are removed: a unit that is taken over
        again and again leaves no trail.
        """
        folder = self.layout.generations(unit)
        self.store.put_if_absent(member(folder, generation), self.writer.encode())
        self._delete_below(folder, generation)

    def claim_path(self, unit: str, generation: int) -> str:
        """Address of the record of a generation's claim to the unit: for who watches for it."""
        return self.store.address(member(self.layout.generations(unit), generation))

    def check_current(self, unit: str, generation: int) -> None:
        """Raise if a newer generation has claimed the unit."""
        names = self.store.names(self.layout.generations(unit))
        newest = max((parse_record_name(name)[1] for name in names), default=generation)
        if newest > generation:
            raise SupersededError(f"{unit}: generation {generation} was replaced by {newest}")

    # Floors

    def floor(self, folder: str) -> int:
        """The first number of a folder that is not trimmed."""
        names = self.store.names(folder)
        return max((parse_record_name(name)[1] for name in names), default=0)

    def raise_floor(self, folder: str, number: int) -> None:
        """Announce that everything below a number is about to be removed."""
        self.store.put_if_absent(member(folder, number), self.writer.encode())
        self._delete_below(folder, number)

    def _delete_below(self, folder: str, number: int) -> None:
        for name in self.store.names(folder):
            if parse_record_name(name)[1] < number:
                self.store.delete(f"{folder}/{name}")

    def _check_floor(self, folder: str, number: int, unit: str) -> None:
        floor = self.floor(folder)
        if number < floor:
            raise SupersededError(
                f"{unit}: record {record_name(number)} was trimmed (floor {floor}): "
                "a newer unit went on"
            )

    def _put_above(self, floors: str, kind: type[R], name: str, record: R, *, unit: str) -> R:
        """Put a record unless its number is below the floor, or is when the put is over."""
        self._check_floor(floors, record.number, unit)
        stored = self._put(kind, name, record)
        try:
            self._check_floor(floors, record.number, unit)
        except SupersededError:
            self.store.delete(name)
            raise
        return stored

    def _missing(self, folder: str, floors: str, number: int) -> HoldfastError:
        """Why a record is not there that somebody depends on: floors rise before it is removed."""
        name, floor = member(folder, number), self.floor(floors)
        if number < floor:
            return SupersededError(f"{name} was trimmed (floor {floor}): a newer unit went on")
        return CorruptLogError(
            f"is not there, and nothing from {floor} on was trimmed: removed, or never put",
            path=self.store.address(name),
        )

    def _get(self, kind: type[R], name: str) -> R | None:
        data = self.store.get(name)
        return None if data is None else decode(kind, data, path=self.store.address(name))

    def _put(self, kind: type[R], name: str, record: R) -> R:
        data = encode(record)
        stored = self.store.put_if_absent(name, data)
        if stored == data:
            return record
        return decode(kind, stored, path=self.store.address(name))
