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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from holdfast.deployment.keygroups import split_range
from holdfast.deployment.records import RangeRecord, SliceRecord
from holdfast.errors import HoldfastError
from holdfast.runtime.log.backlog import Backlog
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.protocol import Batching, next_range, read_range, spark_watermark
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import read_slice
from holdfast.runtime.log.watch import LOOK_S, POLL_S, remote_watch

TICK = "_hf_tick"
ROWS_PER_BATCH = 65_536
"""Small record batches are joined to about this size before Spark gets them."""
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
    skips: Mapping[int, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Batch to, per boundary, the positions of the rows to leave out. Fixed while a query runs, so
    that all tasks of a batch leave out the same rows, whatever skip record is put meanwhile."""
    crash: Crash = field(default_factory=Crash)
    watch: str = field(default="", repr=False)
    """Address of the node's watcher; empty: waiting tasks look for themselves."""

    @property
    def tasks(self) -> int:
        """Rows that stand for one batch: one per input and part of its key groups."""
        return len(self.inputs) * self.partitions


class LogReader:
    """Decides and reads the batches of one unit in one Python worker."""

    def __init__(self, spec: ReaderSpec) -> None:
        self.spec = spec
        self.log = SliceLog(spec.root)
        self._stop = self.log.layout.stop_marker(spec.unit, spec.generation)
        self._backlog = Backlog(self.log, {item.boundary: item.shards for item in spec.inputs})
        self._watch = remote_watch(spec.watch)
        self._ranges: dict[int, RangeRecord] = {}

    def read(self, number: int, index: int, part: int) -> Iterator[Any]:
        """The rows of one task: one part of one input of a batch, the tick last."""
        record = self._await(number)
        if record is None:
            return
        previous = self._need(number - 1)
        item, spec = self.spec.inputs[index], self.spec
        skipped = frozenset(spec.skips.get(number, {}).get(item.boundary, ()))
        owned = range(*spec.groups)
        # Skipped rows are counted over the whole input, so one task must read all of it.
        parts = [owned] if skipped else split_range(owned, spec.partitions)
        if part >= len(parts):
            return
        slices = [
            self._backlog.slice(item.boundary, shard, at)
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
            folder = self.log.data(item.boundary, record.shard)
            yield from read_slice(folder, record, groups)

    def _await(self, number: int) -> RangeRecord | None:
        """The range record of a batch, put as soon as the inputs allow; None when told to stop.

        A task that is told to stop ends in an orderly way, since an error would cost its Python
        worker. The driver publishes nothing once the marker is there.
        """
        parent, checked, woken = os.getppid(), 0.0, False
        waited_for: tuple[str, ...] = ()
        while True:
            record = self._range(number) or self._propose(number)
            if record is not None:
                for old in [known for known in self._ranges if known < number - 1]:
                    del self._ranges[old]
                return record
            if self.log.store.exists(self._stop):
                return None
            if os.getppid() != parent:
                raise StoppedError("the node is gone")
            if woken or time.monotonic() - checked > LOOK_S:
                self.log.check_current(self.spec.unit, self.spec.generation)
                checked = time.monotonic()
            paths = self._wanted()
            if woken and paths == waited_for:
                time.sleep(POLL_S)  # a hint that led nowhere: not to be taken at once again
            woken, waited_for = self._watch.wait(paths, LOOK_S), paths

    def _wanted(self) -> tuple[str, ...]:
        """What a waiting task is to be woken by: input, the order to stop, or its successor."""
        successor = self.log.claim_path(self.spec.unit, self.spec.generation + 1)
        return (*self._backlog.missing, self.log.store.address(self._stop), successor)

    def _propose(self, number: int) -> RangeRecord | None:
        spec, previous = self.spec, self._need(number - 1)
        unread = self._backlog.after(previous)
        proposed = next_range(previous, unread, spec.batching, unit=spec.unit)
        if proposed is None:
            return None
        self.log.check_current(spec.unit, spec.generation)
        record = self.log.put_range(replace(proposed, generation=spec.generation))
        self._ranges[number] = record
        spec.crash.at("after-range-record", spec.unit, number)
        return record

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
    reader = _readers[key]
    reader.spec = spec  # a query that was started again may leave out other rows
    return reader


def task(spec: ReaderSpec, index: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What turns the row that stands for a part of a batch into the rows of an input."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for value in batch.column(0).to_pylist():
                number, place = divmod(value, spec.tasks)
                part = place - index * spec.partitions
                yield from reader_of(spec).read(number, index, part)

    return read


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
