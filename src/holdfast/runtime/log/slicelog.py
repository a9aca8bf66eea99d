"""The slice log of one run: typed records over a store, and who may still write them.

A number below the floor was decided and trimmed; putting it again would decide it twice. Writers
check the floor before they put. A writer that is suspended between check and put may leave a
record below the floor: nobody reads there, and the next trim removes it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
from holdfast.errors import CheckFailedError, HoldfastError
from holdfast.runtime.log.layout import Layout, member
from holdfast.runtime.log.store import FileStore, RecordStore

ORIGIN = "origin"
"""Name of the record of when epoch 0 began."""


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
            "deterministic: declare the operator deterministic=False"
        )


class SliceLog:
    """Range, slice and skip records of one run directory."""

    def __init__(self, root: str | Path, store: RecordStore | None = None) -> None:
        self.layout = Layout(root=Path(root))
        self.store: RecordStore = store if store is not None else FileStore(root)
        self.writer = uuid.uuid4().hex

    # Ranges

    def range(self, unit: str, number: int) -> RangeRecord | None:
        return self._get(RangeRecord, member(self.layout.ranges(unit), number))

    def need_range(self, unit: str, number: int) -> RangeRecord | None:
        """The range record a batch depends on; None only for the one before the first."""
        if number < 0:
            return None
        record = self.range(unit, number)
        if record is None:
            raise SupersededError(f"{unit}: range record {number} is gone: a newer unit went on")
        return record

    def put_range(self, record: RangeRecord) -> RangeRecord:
        """Fix what a batch reads; returns the record that counts, maybe someone else's."""
        self._check_floor(self.layout.unit_floors(record.unit), record.number, record.unit)
        return self._put(
            RangeRecord,
            member(self.layout.ranges(record.unit), record.number, record.timeline),
            replace(record, writer=self.writer),
        )

    def put_time(self, unit: str, number: int) -> float:
        """When a range record was put, wall-clock seconds; 0 if that is not known."""
        path = self.layout.root / member(self.layout.ranges(unit), number)
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    def newest_range(self, unit: str, start: int = -1) -> int:
        """Number of the newest range record, -1 for none; walks on from `start` if given."""
        if start < 0:
            names = self.store.names(self.layout.ranges(unit))
            return parse_record_name(names[-1])[1] if names else -1
        while self.store.exists(member(self.layout.ranges(unit), start + 1)):
            start += 1
        return start

    # Skips

    def skip(self, unit: str, number: int) -> SkipRecord | None:
        return self._get(SkipRecord, member(self.layout.skips(unit), number))

    def put_skip(self, record: SkipRecord) -> SkipRecord:
        return self._put(
            SkipRecord,
            member(self.layout.skips(record.unit), record.number, record.timeline),
            replace(record, writer=self.writer),
        )

    # Slices

    def slice(self, boundary: str, shard: int, number: int) -> SliceRecord | None:
        return self._get(SliceRecord, member(self.layout.slices(boundary, shard), number))

    def need_slice(self, boundary: str, shard: int, number: int) -> SliceRecord:
        record = self.slice(boundary, shard, number)
        if record is None:
            raise SupersededError(
                f"slice {number} of {boundary} shard {shard} is gone: a newer unit went on"
            )
        return record

    def slices_from(self, boundary: str, shard: int, number: int) -> Iterator[SliceRecord]:
        """Published slices from a number on, found by name: no directory is listed."""
        while (record := self.slice(boundary, shard, number)) is not None:
            yield record
            number += 1

    def put_slice(self, record: SliceRecord, *, unit: str) -> SliceRecord:
        """Publish a slice; raises if the number was published with other rows."""
        floors = self.layout.slice_floors(record.boundary, record.shard)
        self._check_floor(floors, record.number, unit)
        record = replace(record, writer=self.writer)
        folder = self.layout.slices(record.boundary, record.shard)
        stored = self._put(SliceRecord, member(folder, record.number, record.timeline), record)
        if not stored.same_content(record):
            raise NondeterministicError(unit, record, stored)
        return stored

    def slice_time(self, record: SliceRecord) -> float | None:
        """When a slice was published, wall-clock seconds; None if it was trimmed meanwhile."""
        folder = self.layout.slices(record.boundary, record.shard)
        path = self.layout.root / member(folder, record.number, record.timeline)
        try:
            return path.stat().st_mtime
        except FileNotFoundError:
            return None

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

    # Generations

    def claim(self, unit: str, generation: int) -> None:
        """Tell older generations to stop; a courtesy, as safety rests on the records alone."""
        name = member(self.layout.generations(unit), generation)
        self.store.put_if_absent(name, self.writer.encode())

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

    def _get(self, kind: type[R], name: str) -> R | None:
        data = self.store.get(name)
        return None if data is None else decode(kind, data, path=str(self.layout.root / name))

    def _put(self, kind: type[R], name: str, record: R) -> R:
        data = encode(record)
        stored = self.store.put_if_absent(name, data)
        if stored == data:
            return record
        return decode(kind, stored, path=str(self.layout.root / name))
