"""One streaming query over a throw-away log, fed from inside its own batches and timed.

A batch publishes its own input slice, of whatever size is asked for, just before Spark runs it; so
the query reads, computes and keeps state exactly as a unit does, and nothing waits or polls while
it is timed. Right after, the same slice is read once more by a job that does nothing else: what the
batch took beyond that is the operator's. Replayed rows get later event times every time round, for
otherwise they would be late.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import KEY_GROUPS
from holdfast.deployment.slicefiles import bytes_in
from holdfast.errors import BadInputError, HoldfastError
from holdfast.profile.cpu import CpuMeter
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.hashing import key_groups
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.wiring import begin_alone
from holdfast.runtime.spark.frames.compile import read_frames
from holdfast.runtime.spark.io.callbacks import each_batch
from holdfast.runtime.spark.io.native import Asker, NativeSource
from holdfast.runtime.spark.io.reader import TICK, InputSpec, ReaderSpec, task
from holdfast.runtime.spark.start.native import side_of
from holdfast.runtime.spark.start.session import unit_session
from holdfast.streams.records import Slice, unit_name

STREAM = "replay"
UNIT = f"{STREAM}.0#0"
LIMIT_S = 600
WARM_UP = 2
"""Batches of a new query that are slower than others."""


class _EnoughError(HoldfastError):
    """Ends the query from inside its last batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows of one boundary, and where they lie in event time."""

    spec: InputSpec
    key: tuple[str, ...]
    rows: Any
    """A pyarrow table."""
    span_us: int = 0
    """Event time that the rows cover: added every time round."""
    delay_us: int = 0
    """How far the watermark stays behind the newest row."""

    def part(self, start: float, end: float) -> Any:
        """The rows from one point to another, in times round the sample."""
        count = self.rows.num_rows
        if not count:
            return self.rows
        first, last = math.floor(start * count), math.floor(end * count)
        pieces = []
        while first < last:
            turn, at = divmod(first, count)
            piece = self.rows.slice(at, min(count - at, last - first))
            pieces.append(self._later(piece, turn * self.span_us))
            first += piece.num_rows
        return pa.concat_tables(pieces) if pieces else self.rows.slice(0, 0)

    def watermark(self, rows: Any, before: int | None) -> int | None:
        """The watermark behind some rows, never below the one before."""
        if self.spec.event_column is None or not rows.num_rows:
            return before
        column = rows.column(self.spec.event_column)
        newest = pc.max(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())).as_py()
        if newest is None:
            return before
        reached = int(newest) - self.delay_us
        return reached if before is None else max(before, reached)

    def _later(self, rows: Any, shift_us: int) -> Any:
        name = self.spec.event_column
        if name is None or not shift_us:
            return rows
        index = rows.schema.get_field_index(name)
        column = rows.column(name)
        moved = pc.add(
            column.cast(pa.timestamp("us", column.type.tz)), pa.scalar(shift_us, pa.duration("us"))
        )
        return rows.set_column(index, rows.schema.field(index), moved.cast(column.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One batch as it was timed."""

    rows: int
    size: int
    """Bytes of the slices read."""
    cpu_s: float
    """From the published input until its result is delivered, Java and Python workers."""
    wall_s: float
    read_cpu_s: float
    """The same for only reading the input."""
    read_wall_s: float
    began: float
    """When Spark came to the batch, and the CPU time used until then, this process included: from
    one batch to the next everything is in between, commits too."""
    began_cpu_s: float


Build = Callable[[Mapping[str, DataFrame]], DataFrame]
Deliver = Callable[[DataFrame, int], None]
Compare = Callable[[Mapping[str, DataFrame]], Sequence[DataFrame]]


def drop(frame: DataFrame, number: int = 0) -> None:
    """Compute all rows and throw them away, by the same road on which a unit would write them.

    Java takes the rows as Spark has planned them; through Python, Spark plans the batch once more.
    """
    del number
    if side_of(frame.sparkSession) == "native":
        _planned(frame).count()
    else:
        frame.write.format("noop").mode("overwrite").save()


def _planned(frame: DataFrame) -> Any:
    """Java's rows of a batch as it is planned already: those that `SliceWriter` writes."""
    execution: Any = frame._jdf.queryExecution()  # noqa: SLF001 - the only way to the plan
    plan = execution.logical()
    planned = plan.getClass().getSimpleName() == "LogicalRDD"
    return plan.rdd() if planned else execution.toRdd()


def read_only(frames: Mapping[str, DataFrame]) -> Sequence[DataFrame]:
    """Nothing but reading."""
    return list(frames.values())


@dataclass(slots=True, kw_only=True)
class Replay:
    """What is run: samples in, an operator, and what is done with its output."""

    spark: SparkSession
    root: Path
    samples: Sequence[Sample]
    build: Build
    mode: str = "append"
    snapshot_batches: int = 10
    deliver: Deliver = drop
    compare: Compare | None = read_only
    """What the same input is put through again, as a job without state, to be timed by itself:
    nothing but reading it, unless told otherwise; None: nothing at all."""
    progress: list[dict[str, Any]] = field(default_factory=list)
    """After a run: what Spark said about its last batches."""
    started: float = 0.0
    """When the last run began to build its query."""
    position: float = 0.0
    """How far the samples are used up, in times round: a run goes on where the last one ended."""
    batches: int = 0
    """Batches that were run, all runs together."""
    watermarks: list[int | None] = field(default_factory=list)

    def run(self, choose: Callable[[Sequence[Seen]], float | None]) -> list[Seen]:
        """Run batches of the chosen sizes (in times round the samples) until None is chosen."""
        log = SliceLog(self.root)
        begin_alone(log, STREAM, *(sample.spec.stream for sample in self.samples))
        spec = ReaderSpec(
            root=str(self.root),
            unit=UNIT,
            generation=0,
            inputs=tuple(sample.spec for sample in self.samples),
            groups=(0, KEY_GROUPS),
            batching=Batching(one_epoch_per_batch=True),
        )
        self.watermarks = self.watermarks or [None] * len(self.samples)
        feeder = _Feeder(self, log, spec, choose)
        self.started = time.monotonic()
        session = unit_session(self.spark, snapshot_batches=self.snapshot_batches)
        rows = feeder.source.rows if feeder.source is not None else None
        frame = self.build(read_frames(session, spec, rows))
        query = (
            each_batch(frame.writeStream, session, feeder.batch)
            .outputMode(self.mode)
            .option("checkpointLocation", str(self.checkpoint))
            .start()
        )
        try:
            ended = query.awaitTermination(LIMIT_S)
        except StreamingQueryException as error:
            ended = True
            if feeder.error is None:
                raise BadInputError(f"a replayed batch failed: {_line(error)}") from error
        finally:
            with contextlib.suppress(Exception):  # whatever ended the query is told, not this
                self.progress = [json.loads(item.json) for item in query.recentProgress]
                query.stop()
            feeder.close()
        if feeder.error is not None and not isinstance(feeder.error, _EnoughError):
            raise BadInputError(f"a replayed batch failed: {_line(feeder.error)}") from feeder.error
        if not ended:
            raise BadInputError(f"a replay took longer than {LIMIT_S} s")
        return feeder.seen

    def steady(self, amount: float, batches: int) -> list[float]:
        """From one batch to the next, seconds; the first ones, which are slow, not counted."""
        seen = self.run(_so_many(amount, WARM_UP + batches + 1))[WARM_UP:]
        return [after.began - before.began for before, after in itertools.pairwise(seen)]

    def restart(self, amount: float) -> float:
        """Seconds from building the query again until its first batch is done."""
        return self.run(_so_many(amount, 2))[1].began - self.started

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"


def _so_many(amount: float, batches: int) -> Callable[[Sequence[Seen]], float | None]:
    return lambda seen: amount if len(seen) < batches else None


class _FedSource(NativeSource):
    """Publishes the input of a batch when Spark asks for it."""

    feed: Callable[[int], None]

    def plan(self, number: int) -> str:
        try:
            self.feed(number)
        except BaseException as error:
            self._failed(number, error)
            raise
        return super().plan(number)


class _Feeder:
    """Publishes input when Spark is ready for it; its foreachBatch function times what follows."""

    def __init__(
        self,
        replay: Replay,
        log: SliceLog,
        spec: ReaderSpec,
        choose: Callable[[Sequence[Seen]], float | None],
    ) -> None:
        self.seen: list[Seen] = []
        self.error: BaseException | None = None
        self._replay, self._log, self._spec, self._choose = replay, log, spec, choose
        self._meter = CpuMeter()
        self._fed: tuple[int, float, float, int, int] = (-1, 0.0, 0.0, 0, 0)
        """Number of the last batch published, when that was, and its rows and size."""
        self.source = self._native_source() if side_of(replay.spark) == "native" else None

    def close(self) -> None:
        if self.source is not None:
            self.source.close()

    def _native_source(self) -> _FedSource:
        asker = Asker(log=self._log, failed=lambda _, error: self._fail(error))
        source = _FedSource(self._replay.spark, self._spec, asker)
        source.feed = self._feed
        return source

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error

    def _feed(self, number: int) -> None:
        if self._fed[0] != number:
            began, began_cpu_s = time.monotonic(), self._meter.with_own()
            self._fed = (number, began, began_cpu_s, *self._publish(number, self._amount()))

    def batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._feed(number)
            _, began, began_cpu_s, rows, size = self._fed
            cpu_s, wall_s = self._timed(lambda: self._replay.deliver(frame, number))
            read = (0.0, 0.0)
            if self._replay.compare is not None:
                read = self._timed(lambda: self._again(number))
            self.seen.append(
                Seen(
                    rows=rows,
                    size=size,
                    cpu_s=cpu_s,
                    wall_s=wall_s,
                    read_cpu_s=read[0],
                    read_wall_s=read[1],
                    began=began,
                    began_cpu_s=began_cpu_s,
                )
            )
        except BaseException as error:
            self._fail(error)
            raise

    def _amount(self) -> float:
        amount = self._choose(self.seen)
        if amount is None:
            raise _EnoughError("no more batches")
        return amount

    def _timed(self, action: Callable[[], None]) -> tuple[float, float]:
        cpu_s, start = self._meter.seconds(), time.monotonic()
        action()
        wall_s = time.monotonic() - start
        return self._meter.seconds() - cpu_s, wall_s

    def _publish(self, number: int, amount: float) -> tuple[int, int]:
        replay = self._replay
        end, rows, size = replay.position + amount, 0, 0
        for index, sample in enumerate(replay.samples):
            table = sample.part(replay.position, end)
            watermark = sample.watermark(table, replay.watermarks[index])
            replay.watermarks[index] = watermark
            item = made_slice(self._log, sample, number, table, watermark)
            self._log.publish(item)
            rows += item.rows
            size += bytes_in(item.files[sample.spec.boundary])
        replay.position, replay.batches = end, replay.batches + 1
        return rows, size

    def _again(self, number: int) -> None:
        """Read the input of a batch again, as the batch has done, and do only this with it."""
        spec, compare = self._spec, self._replay.compare
        frames = {}
        for index, item in enumerate(spec.inputs):
            if self.source is not None:
                frames[item.boundary] = self.source.batch_rows(self._replay.spark, index, number)
                continue
            place = number * spec.partitions
            clock = self._replay.spark.range(place, place + 1, 1, 1).withColumnRenamed(
                "id", "value"
            )
            frame = clock.mapInArrow(task(spec, index), item.struct())
            frames[item.boundary] = frame.where(~F.col(TICK)).drop(TICK)
        if compare is None:
            raise AssertionError("there is something to compare with")
        for frame in compare(frames):
            drop(frame)


def made_slice(
    log: SliceLog, sample: Sample, number: int, rows: Any, watermark: int | None
) -> Slice:
    """Write rows as slice `number` of a sample's boundary."""
    files = []
    unit, boundary = unit_name(sample.spec.stream, 0, 0), sample.spec.boundary
    if rows.num_rows:
        folder, name = log.data(unit, boundary), f"{number:010d}.arrow"
        # Nobody compares the digests of a throw-away log.
        digests = np.zeros(rows.num_rows, np.uint64)
        groups = _groups(rows, sample.key)
        files.append(write_slice_file(folder, name, rows, groups, digests))
    return Slice(
        unit=unit,
        number=number,
        after=number - 1,
        upto=number,
        files={boundary: tuple(files)},
        rows=rows.num_rows,
        watermark_us=watermark,
    )


def _groups(rows: Any, key: tuple[str, ...]) -> Any:
    try:
        return key_groups(rows, key)
    except BadInputError:  # a key of a type that only Spark can hash
        return np.zeros(rows.num_rows, np.int64)


def _line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
