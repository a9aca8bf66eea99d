"""The slice log as a Spark stream: batch n of a unit reads what range record n says.

`LogReader` decides: it waits until the inputs allow range record n, puts or adopts it, and knows
what the batch reads. It does so once per batch in the driver, which tells Java (`native`), or in
every reading task, where slices go through Python: there Spark's own clock-like source gives one
tiny row per part of batch n, and a Python function behind it turns the row into the rows of that
part. Either way a batch is planned before its input is there, and no source process has to be
started per query.

Every input is a source of its own, whose batch n follows batch n - 1 whatever is there: so Spark
moves all of them in step, and their offsets are the same on either side.

A batch without rows still has a range record, so it still runs: it carries a tick row per input
with the recorded watermark, which alone moves Spark's, in every shard and every plan alike.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from holdfast.deployment.blocks import groups_between
from holdfast.deployment.keygroups import split_range
from holdfast.errors import HoldfastError
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.forked import open_log
from holdfast.runtime.log.slicelog import SliceLog, SupersededError, trimmed
from holdfast.runtime.log.slices import files_on, read_slice
from holdfast.runtime.log.watch import LOOK_S, POLL_S, remote_watch
from holdfast.runtime.log.watermarks import spark_watermark
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Range, Slice
from holdfast.streams.repair import Repairs
from holdfast.streams.steps import ranges
from holdfast.streams.unit import End, Ended, Position, Proposal, RunBatch

TICK = "_hf_tick"
MARK = "_hf_mark"
"""Column with Spark's next watermark in a tick row, null in all others."""
ROWS_PER_BATCH = 65_536
"""Small record batches are joined to about this size before Spark gets them."""
MAX_READERS = 32


class StoppedError(HoldfastError):
    """A batch is given up because its unit is to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One boundary as a unit reads it."""

    boundary: str
    stream: str
    """Whose rows they are."""
    schema: str
    """Spark's schema as JSON."""
    event_column: str | None = None
    ticks: bool = True
    """Whether ticks are injected, where there is an event time: only state heeds a watermark."""
    windows: bool = False
    """Whether state is closed by the ends of windows alone."""
    delay_us: int = 0
    """The pipeline's allowed lateness: how long deduplication within a watermark remembers."""

    @property
    def ticking(self) -> str | None:
        """The event-time column, if there are ticks."""
        return self.event_column if self.ticks else None

    def columns(self) -> list[StructField]:
        """The boundary's columns, nullable since a tick has none of them."""
        return StructType.fromJson(json.loads(self.schema))._as_nullable().fields  # noqa: SLF001

    def struct(self) -> StructType:
        """The columns, and whether a row is a tick."""
        return StructType([*self.columns(), StructField(TICK, BooleanType())])

    def arrow_schema(self) -> Any:
        return to_arrow_schema(self.struct(), timezone="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSpec:
    """Everything a reading task needs to know; it travels with the function."""

    root: str
    unit: str
    generation: int
    replica: int = 0
    inputs: tuple[InputSpec, ...]
    groups: tuple[int, int]
    """Ranks of the key groups that the unit owns: the first, and one past the last."""
    max_shards: int = 1
    """Of its operator: by it key groups have ranks."""
    batching: Batching
    partitions: int = 1
    """Tasks per input; the key groups are divided among them."""
    tasks: int = 1
    """The same where Java reads, which divides the rows."""
    skips: Mapping[int, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Batch to, per boundary, the positions of the rows to leave out. Fixed while a query runs, so
    that all tasks of a batch leave out the same rows, whatever skip record is put meanwhile."""
    heed_repairs: int = -1
    """Up to this epoch, slices may have files that were made again."""
    crash: Crash = field(default_factory=Crash)
    watch: str = field(default="", repr=False)
    """Address of the node's watcher; empty: waiting tasks look for themselves."""

    @property
    def streams(self) -> tuple[str, ...]:
        """What the unit reads, each once: several boundaries may be of one stream."""
        return tuple(dict.fromkeys(item.stream for item in self.inputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput:
    """What a batch reads of one input."""

    slices: tuple[Slice, ...]
    """In reading order."""
    groups: tuple[Collection[int], ...]
    """Key groups of each task; there may be fewer than tasks."""
    skipped: frozenset[int]
    """Positions, in reading order over all tasks, of the rows to leave out."""
    tick_us: int | None
    """Spark's next watermark; None: not known yet."""


class Waiting(Protocol):
    """How to wait for files."""

    def wait(self, paths: Sequence[str], timeout_s: float) -> bool:
        """Until one of the paths exists or the time is up; whether one exists."""
        ...


class LogReader:
    """Decides and reads the batches of one unit, in one Python worker or in the driver."""

    def __init__(
        self, spec: ReaderSpec, *, log: SliceLog | None = None, watch: Waiting | None = None
    ) -> None:
        self.spec = spec
        self.log = log or open_log(spec.root, spec.unit)
        self._stop = self.log.layout.stop_marker(spec.unit, spec.generation, spec.replica)
        self._protocol = self.log.steps()
        self._watch: Waiting = watch or remote_watch(spec.watch)
        self._parent = os.getppid() if watch is None else None
        """Of a worker, which must not outlive its node; a node may outlive whoever started it."""
        self._known: RunBatch | None = None
        """The batch that was decided last."""

    def read(self, number: int, index: int, part: int) -> Iterator[Any]:
        """The rows of one task: one part of one input of a batch, the tick last."""
        found = self.batch(number)
        if found is None:
            return
        planned, item = found[index], self.spec.inputs[index]
        if part >= len(planned.groups):
            return
        schema = item.arrow_schema()
        rows = self._rows(item, planned.slices, planned.groups[part])
        skipped = planned.skipped
        for batch in _joined(_without(rows, skipped) if skipped else rows):
            yield _shaped(batch, schema)
        if part == 0 and item.ticking and planned.tick_us is not None:
            yield _tick(planned.tick_us, item.ticking, schema)

    def batch(self, number: int) -> tuple[PlannedInput, ...] | None:
        """What every input of a batch reads, once that is decided; None when told to stop."""
        step = self.decide(number)
        if step is None:
            return None
        record, known = step.range, step.range.watermark_us
        try:
            read = {
                stream: self._slices(stream, record.after, record.upto)
                for stream in self.spec.streams
            }
        except TrimmedError as error:
            raise trimmed(error) from error
        planned = []
        for item in self.spec.inputs:
            skipped = frozenset(self.spec.skips.get(number, {}).get(item.boundary, ()))
            planned.append(
                PlannedInput(
                    slices=tuple(read[item.stream]),
                    # Skipped rows are counted over all of the input, so one task reads all of it.
                    groups=self._shares(1 if skipped else self.spec.partitions),
                    skipped=skipped,
                    tick_us=None if known is None else spark_watermark(known, windows=item.windows),
                )
            )
        return tuple(planned)

    def _slices(self, stream: str, after: int, upto: int) -> list[Slice]:
        found = self.log.run(self._protocol.read(stream, after, upto))
        if after >= self.spec.heed_repairs:
            return found
        return [self.log.run(self._protocol.repaired(item))[0] for item in found]

    def _shares(self, tasks: int) -> tuple[Collection[int], ...]:
        """The key groups of each of at most so many tasks."""
        owned, most = range(*self.spec.groups), self.spec.max_shards
        return tuple(
            groups_between(part.start, part.stop, most) for part in split_range(owned, tasks)
        )

    def _rows(
        self, item: InputSpec, slices: Sequence[Slice], groups: Collection[int]
    ) -> Iterator[Any]:
        for record in slices:
            folder = self.log.data(record.unit, item.boundary)
            yield from read_slice(folder, files_on(record, item.boundary), groups)

    def decide(self, number: int) -> RunBatch | None:
        """What a batch reads, decided as soon as the inputs allow; None when told to stop.

        A task that is told to stop, or whose unit has come to its end, ends in an orderly way,
        since an error would cost its Python worker. The driver publishes nothing then.
        """
        checked, woken = 0.0, False
        waited_for: tuple[str, ...] = ()
        spec, log = self.spec, self.log
        while True:
            step = self._step(number)
            if isinstance(step, RunBatch):
                return step
            if isinstance(step, Ended):
                if step.why == "handed over":
                    spec.crash.at("after-seal", spec.unit, number)
                if self._parent is not None and step.why != "left behind":
                    return None
                raise log.ended(spec.unit, step)
            if log.store.exists(self._stop):
                return None
            if self._parent is not None and os.getppid() != self._parent:
                raise StoppedError("the node is gone")
            if woken or time.monotonic() - checked > LOOK_S:
                log.check_current(spec.unit, spec.generation, spec.replica)
                checked = time.monotonic()
            paths = self._wanted(number)
            if woken and paths == waited_for:
                time.sleep(POLL_S)  # a hint that led nowhere: not to be taken at once again
            woken, waited_for = self._watch.wait(paths, LOOK_S), paths

    def _step(self, number: int) -> RunBatch | Ended | None:
        """One look at what a batch is to be; None: it cannot be decided yet."""
        known, spec, log = self._known, self.spec, self.log
        if known is not None and known.position.batch == number:
            return known
        try:
            position = self._position(number)
            step = log.run(
                self._protocol.next_step(
                    spec.unit,
                    position,
                    spec.streams,
                    self._propose,
                    reach=spec.batching.reach,
                )
            )
        except TrimmedError as error:
            raise trimmed(error) from error
        if isinstance(step, RunBatch):
            self._known = step
            if step.range.writer == log.writer:
                spec.crash.at("after-range-record", spec.unit, number)
        return None if step == "waiting" else step

    def _propose(self, after: int, ends: Sequence[End], limit: int | None) -> Proposal | None:
        proposed = self.spec.batching.propose(after, ends, limit)
        if proposed is not None:
            spec = self.spec
            self.log.check_current(spec.unit, spec.generation, spec.replica)
        return proposed

    def _position(self, number: int) -> Position:
        known = self._known
        if known is not None and known.position.batch == number - 1:
            return known.done
        found = self.log.run(self._protocol.position_at(self.spec.unit, number))
        if not isinstance(found, Position):
            raise SupersededError(f"{self.spec.unit} is {found} born")
        return found

    def _wanted(self, number: int) -> tuple[str, ...]:
        """What a waiting task is to be woken by: input, a turn, the order to stop, a successor."""
        spec, records = self.spec, self.log.records
        successor = self.log.claim_path(spec.unit, spec.generation + 1, spec.replica)
        turn = records.address(ranges(spec.unit), self._position(number).range_number)
        missing = [records.address(*item) for item in self._protocol.wanted()]
        return (*missing, turn, self.log.store.address(self._stop), successor)


def rows_read(
    log: SliceLog,
    protocol: Repairs,
    inputs: Sequence[InputSpec],
    record: Range,
    groups: Collection[int],
) -> int:
    """Rows of some key groups in what a batch reads."""
    return sum(
        part.rows
        for item in inputs
        for found in log.run(protocol.read(item.stream, record.after, record.upto))
        for file in files_on(found, item.boundary)
        for part in file.parts
        if part.group in groups
    )


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
                number, part = divmod(value, spec.partitions)
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
