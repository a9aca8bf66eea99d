"""The slice log as a Spark streaming source: offset n means "range record n was read".

All inputs of a unit come through this one source, since Spark would plan the offsets of two
sources apart. Each input has its own columns, prefixed, and a number; Spark reads the source once
per branch of its plan. A batch without rows still has a range record, so it still runs: it carries
a tick row per input with the watermark, which drives eviction in every shard alike.
"""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

from holdfast.model.keygroups import split_range
from holdfast.model.records import RangeRecord, SliceRecord
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.layout import word
from holdfast.runtime.log.protocol import Batching, next_range, read_range
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import read_slice

FORMAT = "holdfast_log"
INPUT, TICK = "_hf_input", "_hf_tick"
ROWS_PER_BATCH = 65_536
"""Small record batches are joined to about this size before Spark gets them."""
POLL_S, PATIENCE_S = 0.004, 0.2
"""How often to look for new slices, and how long before Spark gets its thread back."""


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
    """What `withWatermark` subtracts; a tick row adds it."""

    def struct(self) -> StructType:
        return StructType.fromJson(json.loads(self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSpec:
    """Everything the source needs to know; other processes load it from a file."""

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

    def save(self) -> str:
        """Write it down and return where: Spark runs regular expressions over option values, and
        their recursion overflows the stack on long ones."""
        folder = Path(self.root) / "units" / word(self.unit)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"reader-{self.generation}.pickle"
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(pickle.dumps(self))
        temporary.replace(path)
        return str(path)

    @classmethod
    def load(cls, path: str) -> ReaderSpec:
        return cast("ReaderSpec", pickle.loads(Path(path).read_bytes()))  # noqa: S301 - our own

    def struct(self) -> StructType:
        """Which input, whether a tick, then the columns of every input under its prefix."""
        fields = [StructField(INPUT, IntegerType()), StructField(TICK, BooleanType())]
        for index, item in enumerate(self.inputs):
            fields += [
                StructField(column_name(index, field.name), nullable(field.dataType))
                for field in item.struct()
            ]
        return StructType(fields)


class LogSource(DataSource):
    """Registered under FORMAT in every session that runs units."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return ReaderSpec.load(self.options["spec"]).struct()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return LogReader(ReaderSpec.load(self.options["spec"]))


@dataclass(frozen=True, slots=True)
class LogPartition(InputPartition):
    """The part of one batch that one task reads."""

    input: int
    groups: range
    slices: tuple[SliceRecord, ...]
    skip: tuple[int, ...]
    tick_us: int | None

    # InputPartition's own constructor takes a value that is not needed here.
    def __repr__(self) -> str:
        return f"LogPartition({self.input}, {self.groups}, {len(self.slices)} slices)"


class LogReader(DataSourceStreamReader):
    """Lives in a process of its own for the length of a query; `read` runs in tasks."""

    def __init__(self, spec: ReaderSpec) -> None:
        self.spec = spec
        self._log: SliceLog | None = None
        self._unread: dict[tuple[str, int], list[SliceRecord]] = {}
        """Published slices seen and not yet in a range, so that none is read twice."""
        self._ranges: dict[int, RangeRecord] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "_log": None, "_unread": {}, "_ranges": {}}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"n": -1}

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, int],
        limit: ReadLimit,  # noqa: ARG002 - ranges decide
    ) -> dict[str, int]:
        """Put, or adopt, the next range record; `start` if there is nothing to read yet."""
        number = start["n"] + 1
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self._advance(number):
                return {"n": number}
            if time.monotonic() > deadline:
                return start
            time.sleep(POLL_S)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found: list[InputPartition] = []
        for number in range(start["n"] + 1, end["n"] + 1):
            found += self._partitions(number)
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, LogPartition):
            raise TypeError(f"{partition!r} is not a partition of the log")
        return read_partition(self.spec, partition)

    def commit(self, end: dict[str, int]) -> None:
        for number in [number for number in self._ranges if number < end["n"]]:
            del self._ranges[number]

    def _advance(self, number: int) -> bool:
        record = self._range(number)
        if record is None:
            previous = self._need(number - 1)
            proposed = next_range(
                previous, self._published(previous), self.spec.batching, unit=self.spec.unit
            )
            if proposed is None:
                return False
            self.log.check_current(self.spec.unit, self.spec.generation)
            record = self.log.put_range(proposed)
            self._ranges[number] = record
            self.spec.crash.at("after-range-record", self.spec.unit, number)
        return True

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

    def _partitions(self, number: int) -> Iterator[LogPartition]:
        record, previous = self._need(number), self._need(number - 1)
        if record is None:
            raise AssertionError("batches are numbered from 0")
        skip = self.log.skip(self.spec.unit, number)
        taken = read_range(previous, record)
        owned = range(*self.spec.groups)
        for index, item in enumerate(self.spec.inputs):
            slices = tuple(
                self._slice(item.boundary, shard, at)
                for shard, numbers in enumerate(taken[item.boundary])
                for at in numbers
            )
            tick = None
            if item.event_column and record.watermark_us is not None:
                tick = record.watermark_us + item.delay_us
            # Skipped rows are counted over the whole input, so it must be read by one task.
            skipped = skip.rows.get(item.boundary, ()) if skip else ()
            parts = [owned] if skipped else split_range(owned, self.spec.partitions)
            for part, groups in enumerate(parts):
                yield LogPartition(
                    index, groups, slices, tuple(skipped), tick if part == 0 else None
                )

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

    @property
    def log(self) -> SliceLog:
        if self._log is None:
            self._log = SliceLog(self.spec.root)
        return self._log


def read_partition(spec: ReaderSpec, partition: LogPartition) -> Iterator[Any]:
    """The rows of one task as record batches of the common schema, the tick last."""
    log = SliceLog(spec.root)
    item = spec.inputs[partition.input]
    schema = to_arrow_schema(spec.struct(), timezone="UTC")
    waiting: list[Any] = []
    rows = position = 0
    skip = frozenset(partition.skip)
    for record in partition.slices:
        folder = log.layout.data(item.boundary, record.shard)
        for found in read_slice(folder, record, partition.groups):
            kept = _without(found, skip, position) if skip else found
            position += found.num_rows
            rows += kept.num_rows
            waiting.append(kept)
            if rows >= ROWS_PER_BATCH:
                yield _widen(_join(waiting), partition.input, schema)
                waiting, rows = [], 0
    if rows:
        yield _widen(_join(waiting), partition.input, schema)
    if partition.tick_us is not None and item.event_column:
        yield _tick(partition, item.event_column, schema)


def column_name(index: int, name: str) -> str:
    """Name of an input's column in the source's schema."""
    return f"_hf{index}_{name}"


def nullable(kind: Any) -> Any:
    """A Spark type with everything in it nullable: rows of other inputs have no value here."""
    return kind._as_nullable() if hasattr(kind, "_as_nullable") else kind  # noqa: SLF001


def _join(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0]


def _without(batch: Any, skip: frozenset[int], position: int) -> Any:
    mask = [position + row not in skip for row in range(batch.num_rows)]
    return batch if all(mask) else batch.filter(pa.array(mask))


def _widen(batch: Any, index: int, schema: Any) -> Any:
    prefix = column_name(index, "")
    arrays: list[Any] = []
    for column in schema:
        if column.name == INPUT:
            arrays.append(pa.repeat(pa.scalar(index, pa.int32()), batch.num_rows))
        elif column.name == TICK:
            arrays.append(pa.repeat(pa.scalar(value=False), batch.num_rows))
        elif column.name.startswith(prefix):
            arrays.append(_as(batch.column(column.name[len(prefix) :]), column.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(array: Any, kind: Any) -> Any:
    """The array with another type, which may differ only in what may be null."""
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array(array.to_pylist(), kind)


def _tick(partition: LogPartition, event_column: str, schema: Any) -> Any:
    event = column_name(partition.input, event_column)
    values = {INPUT: partition.input, TICK: True}
    arrays = [
        pa.array([partition.tick_us], pa.int64()).cast(field.type)
        if field.name == event
        else pa.array([values.get(field.name)], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
