"""The slice log as a Spark stream: batch n of a unit reads what range record n says.

Spark's own clock-like source gives one tiny row per part of batch n; a Python function behind it
waits until the inputs allow range record n, puts or adopts it, and turns the row into the rows of
that part. So a batch is planned before its input is there, no source process has to be started per
query, and a query with several inputs reads each of them once. All inputs hang on the one source,
as Spark would plan the offsets of two apart.

A batch without rows still has a range record, so it still runs: it carries a tick row per input
with the recorded watermark, which alone moves Spark's, in every shard and every plan alike.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from holdfast.errors import HoldfastError
from holdfast.model.keygroups import split_range
from holdfast.model.records import RangeRecord, SliceRecord
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.layout import word
from holdfast.runtime.log.protocol import Batching, next_range, read_range, spark_watermark
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import read_slice

TICK = "_hf_tick"
ROWS_PER_BATCH = 65_536
"""Small record batches are joined to about this size before Spark gets them."""
POLL_S = 0.01
"""How often a waiting task looks for new slices: one look costs a tenth of a millisecond."""
CHECK_S = 0.25
"""How often it asks whether a newer generation has taken over."""
MAX_READERS = 32


class StoppedError(HoldfastError):
    """A batch is given up because its unit is to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One boundary as a unit reads it."""

    boundary: str
    shards: int
    """Of the unit that publishes it."""
    schema: str
    """Spark's schema as JSON."""
    event_column: str | None = None
    delay_us: int = 0
    """The pipeline's allowed lateness: how long deduplication within a watermark remembers."""

    def struct(self) -> StructType:
        """The boundary's columns, nullable since a tick has none of them, and whether a tick."""
        fields = StructType.fromJson(json.loads(self.schema))._as_nullable().fields  # noqa: SLF001
        return StructType([*fields, StructField(TICK, BooleanType())])

    def arrow_schema(self) -> Any:
        return to_arrow_schema(self.struct(), timezone="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSpec:
    """Everything a reading task needs to know; it travels with the function."""

    root: str
    unit: str
    generation: int
    inputs: tuple[InputSpec, ...]
    groups: tuple[int, int]
    """Key groups the unit owns: first, and one past the last."""
    batching: Batching
    partitions: int = 1
    """Tasks per input; the key groups are divided among them."""
    crash: Crash = field(default_factory=Crash)

    @property
    def tasks(self) -> int:
        """Rows that stand for one batch: one per input and part of its key groups."""
        return len(self.inputs) * self.partitions


class LogReader:
    """Decides and reads the batches of one unit in one Python worker."""

    def __init__(self, spec: ReaderSpec) -> None:
        self.spec = spec
        self.log = SliceLog(spec.root)
        self._stop = stop_marker(spec.root, spec.unit, spec.generation)
        self._unread: dict[tuple[str, int], list[SliceRecord]] = {}
        """Published slices seen and not yet in a range, so that none is read twice."""
        self._ranges: dict[int, RangeRecord] = {}

    def read(self, number: int, index: int, part: int) -> Iterator[Any]:
        """The rows of one task: one part of one input of a batch, the tick last."""
        record = self._await(number)
        if record is None:
            return
        previous = self._need(number - 1)
        item, spec = self.spec.inputs[index], self.spec
        skip = self.log.skip(spec.unit, number)
        skipped = frozenset(skip.rows.get(item.boundary, ()) if skip else ())
        owned = range(*spec.groups)
        # Skipped rows are counted over the whole input, so one task must read all of it.
        parts = [owned] if skipped else split_range(owned, spec.partitions)
        if part >= len(parts):
            return
        slices = [
            self._slice(item.boundary, shard, at)
            for shard, numbers in enumerate(read_range(previous, record)[item.boundary])
            for at in numbers
        ]
        schema = item.arrow_schema()
        rows = self._rows(item, slices, parts[part])
        for batch in _joined(_without(rows, skipped) if skipped else rows):
            yield _shaped(batch, schema)
        if part == 0 and item.event_column and record.watermark_us is not None:
            yield _tick(spark_watermark(record.watermark_us), item.event_column, schema)

    def _rows(self, item: InputSpec, slices: list[SliceRecord], groups: range) -> Iterator[Any]:
        for record in slices:
            folder = self.log.layout.data(item.boundary, record.shard)
            yield from read_slice(folder, record, groups)

    def _await(self, number: int) -> RangeRecord | None:
        """The range record of a batch, put as soon as the inputs allow; None when told to stop.

        A task that is told to stop ends in an orderly way, since an error would cost its Python
        worker. The driver publishes nothing once the marker is there.
        """
        parent, checked = os.getppid(), 0.0
        while True:
            record = self._range(number) or self._propose(number)
            if record is not None:
                for old in [known for known in self._ranges if known < number - 1]:
                    del self._ranges[old]
                return record
            if self._stop.exists():
                return None
            if os.getppid() != parent:
                raise StoppedError("the node is gone")
            if time.monotonic() - checked > CHECK_S:
                self.log.check_current(self.spec.unit, self.spec.generation)
                checked = time.monotonic()
            time.sleep(POLL_S)

    def _propose(self, number: int) -> RangeRecord | None:
        spec, previous = self.spec, self._need(number - 1)
        proposed = next_range(previous, self._published(previous), spec.batching, unit=spec.unit)
        if proposed is None:
            return None
        self.log.check_current(spec.unit, spec.generation)
        record = self.log.put_range(replace(proposed, generation=spec.generation))
        self._ranges[number] = record
        spec.crash.at("after-range-record", spec.unit, number)
        return record

    def _published(self, previous: RangeRecord | None) -> dict[str, list[list[SliceRecord]]]:
        found: dict[str, list[list[SliceRecord]]] = {}
        for item in self.spec.inputs:
            first = previous.inputs[item.boundary] if previous else (0,) * item.shards
            found[item.boundary] = [
                self._from(item.boundary, shard, first[shard]) for shard in range(item.shards)
            ]
        return found

    def _from(self, boundary: str, shard: int, first: int) -> list[SliceRecord]:
        """All published slices from `first` on; only what is new is read."""
        known = [item for item in self._unread.get((boundary, shard), []) if item.number >= first]
        follow = known[-1].number + 1 if known else first
        known += self.log.slices_from(boundary, shard, follow)
        self._unread[boundary, shard] = known
        return known

    def _slice(self, boundary: str, shard: int, number: int) -> SliceRecord:
        for item in self._unread.get((boundary, shard), []):
            if item.number == number:
                return item
        return self.log.need_slice(boundary, shard, number)

    def _range(self, number: int) -> RangeRecord | None:
        if number not in self._ranges:
            record = self.log.range(self.spec.unit, number)
            if record is None:
                return None
            self._ranges[number] = record
        return self._ranges[number]

    def _need(self, number: int) -> RangeRecord | None:
        if number < 0:
            return None
        return self._range(number) or self.log.need_range(self.spec.unit, number)


_readers: dict[tuple[str, str, int], LogReader] = {}
"""Workers are reused from batch to batch, and what they have seen of the log with them."""


def reader_of(spec: ReaderSpec) -> LogReader:
    """The reader of a unit's generation in this worker."""
    key = (spec.root, spec.unit, spec.generation)
    if key not in _readers:
        if len(_readers) >= MAX_READERS:
            _readers.clear()
        _readers[key] = LogReader(spec)
    return _readers[key]


def task(spec: ReaderSpec, index: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What turns the row that stands for a part of a batch into the rows of an input."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for value in batch.column(0).to_pylist():
                number, place = divmod(value, spec.tasks)
                part = place - index * spec.partitions
                yield from reader_of(spec).read(number, index, part)

    return read


def stop_marker(root: str | Path, unit: str, generation: int) -> Path:
    """A file that tells a generation's waiting tasks to give up."""
    return Path(root) / "units" / word(unit) / f"stop-{generation}"


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """Small record batches put together: one per key group would cost more than its rows."""
    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_BATCH:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, rows = [], 0
    if rows:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _without(batches: Iterator[Any], skip: frozenset[int]) -> Iterator[Any]:
    """Leave out rows by their position in reading order."""
    position = 0
    for batch in batches:
        keep = [position + row not in skip for row in range(batch.num_rows)]
        position += batch.num_rows
        yield batch if all(keep) else batch.filter(pa.array(keep))


def _shaped(batch: Any, schema: Any) -> Any:
    arrays: list[Any] = [
        _as(batch.column(field.name), field.type) for field in schema if field.name != TICK
    ]
    arrays.append(pa.repeat(pa.scalar(value=False), batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(array: Any, kind: Any) -> Any:
    """The array with another type, which may differ only in what may be null."""
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array(array.to_pylist(), kind)


def _tick(event_us: int, event_column: str, schema: Any) -> Any:
    values: dict[str, Any] = {TICK: True}
    arrays = [
        pa.array([event_us], pa.int64()).cast(field.type)
        if field.name == event_column
        else pa.array([values.get(field.name)], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
