"""Source units over any streaming source of Spark's own.

Spark plans what a batch reads, so the record follows it: before a batch is published, a range
record says which of Spark's end offsets got which epoch. Whoever finds that record again compares
offsets, never times. While Spark has nothing to give, also before its first row, empty slices are
published so that nothing downstream waits for it. What is done next is decided in `positions`.

The record is on disk for good, Spark's checkpoint may be of an older generation. So before a query
starts, its checkpoint is held against the newest record (`align`): if Spark does not know the
recorded end, it is told, and reads exactly that range.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.control.events import UnitReport
from holdfast.errors import CheckFailedError, HoldfastError
from holdfast.pipeline import SparkSource
from holdfast.runtime.checkpoint.align import align, sync_plan
from holdfast.runtime.checkpoint.clone import source_offset
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.spark.io.reader import StoppedError
from holdfast.runtime.spark.start.session import unit_session
from holdfast.runtime.spark.units.unit import BatchFailedError, SparkUnit
from holdfast.runtime.units.positions import (
    Read,
    SourcePosition,
    next_batch,
    next_deed,
    stamp,
)
from holdfast.runtime.units.sources import (
    epoch_tick,
    publish_rows,
    split_late,
)
from holdfast.streams.records import Range
from holdfast.streams.unit import End, Ended, Position, Proposal, RunBatch

IDLE_POLL_S = 0.05
CHECK_S = 0.25
"""How often a source that waits for Spark asks whether a newer generation has taken over."""


class ReplannedError(HoldfastError):
    """Another generation has recorded another end for the batch that Spark runs."""


class NativeSourceUnit(SparkUnit):
    """A query that only copies a source into the log."""

    def status(self) -> UnitReport:
        return self.progress.report

    def _prepare(self) -> None:
        super()._prepare()
        self._turn = threading.Lock()
        """Held by whoever decides and publishes a batch: Spark's thread or the idle clock."""
        self._origin = self.context.log.put_origin(self.context.wall.now())
        self._batching = Batching(
            batch_epochs=self.context.segment.batch_epochs,
            one_epoch_per_batch=self.context.segment.one_epoch_per_batch,
        )
        self._newest: RunBatch | None = None
        self._published = -1
        """Number of the newest batch known to be published."""
        self._watermark: tuple[int, int | None] = (-1, None)
        """Number of the last batch published here, and the watermark it left behind."""

    def _run_query(self) -> None:
        while not self._stopping.is_set():
            self._align()
            try:
                self._stream()
            except ReplannedError:
                continue

    def _align(self) -> None:
        """Make Spark go on where the records end."""
        context, newest = self.context, self._look()
        known = SourcePosition.after(newest)
        aligned = align(
            self._checkpoint(context.generation),
            unit=context.name,
            end=known.offset,
            start=known.start,
            now=context.wall.now(),
        )
        if aligned == "past" and self._next(None) == "wait":
            raise CheckFailedError(
                f"{context.name}: Spark is done with batch {known.batch}, whose slice is missing; "
                f"put it back, or start again with --reset {context.segment.name}"
            )

    def _stream(self) -> None:
        source = self._pipeline.operator(self.context.segment.name).source
        if not isinstance(source, SparkSource):
            raise TypeError("only a SparkSource is read natively")
        self._failure = None
        session = unit_session(self._spark, snapshot_batches=1)
        frame = load_rows(session, source)
        interval = self.context.deployment.epoch_s * self.context.segment.batch_epochs
        with self._starts:
            query = self._query = (
                frame.writeStream.foreachBatch(self._batch)
                .trigger(processingTime=f"{max(1, round(interval * 1000))} milliseconds")
                .option("checkpointLocation", self._checkpoint(self.context.generation).address(""))
                .start()
            )
        self.progress.tell(state="running")
        try:
            self._idle_clock(query)
        finally:
            # However this ends: a query without its unit would go on for ever.
            with contextlib.suppress(Exception):  # a batch that does not end in time dies with us
                query.stop()
        if not self._stopping.is_set():
            ended = CheckFailedError(f"{self.context.name}: Spark ended the query by itself")
            raise self._failure or query.exception() or ended

    # Spark's batches

    def _batch(self, frame: DataFrame, spark_batch: int) -> None:
        try:
            self._copy(frame, spark_batch)
        except Exception as error:  # noqa: BLE001 - told by status()
            self._failure = error
        if self._failure is not None:
            raise BatchFailedError(type(self._failure).__name__)

    def _copy(self, frame: DataFrame, spark_batch: int) -> None:
        """See that the rows of one of Spark's batches are in the log, once."""
        context, began = self.context, self.context.clock.now()
        checkpoint = self._checkpoint(context.generation)
        read = Read(
            start=source_offset(checkpoint, spark_batch - 1) if spark_batch > 0 else None,
            end=source_offset(checkpoint, spark_batch),
        )
        sync_plan(checkpoint, spark_batch)
        rows = frame.toArrow()
        with self._turn:
            while (step := self._step(read, rows)) != "done":
                if step == "replan":
                    raise ReplannedError(f"{context.name}: recorded {self._record}, read {read}")
                if step == "lost":
                    raise CheckFailedError(
                        f"{context.name}: recorded up to offset "
                        f"{SourcePosition.after(self._record).offset}, but Spark goes on from "
                        f"{read.start}"
                    )
            number = SourcePosition.after(self._record).batch
        self.progress.tell(batch_ms=1000 * (context.clock.now() - began))
        context.crash.at("before-commit", context.name, number)

    def _step(self, read: Read | None, rows: Any) -> str:
        """One step, done if it is a deed; to be called with the turn."""
        newest, context = self._look(), self.context
        step = self._next(read)
        if step in ("replan", "lost"):
            # A generation that was left behind finds records that it cannot understand.
            context.log.check_current(context.name, context.generation, context.replica)
        if step == "put":
            self._put(newest, read)
        elif step == "finish" and newest is not None:
            self._publish(newest, self._empty)
        elif step == "publish" and newest is not None:
            self._publish(newest, rows)
        return step

    def _next(self, read: Read | None) -> str:
        return next_deed(
            self._record, self._batch_number, published=self._is_published(), read=read
        )

    def _culprit(self, error: BaseException) -> str | None:
        return super()._culprit(error) or self.context.segment.name

    def _put(self, newest: Range | None, read: Read | None) -> None:
        """Record the next batch; if another generation was faster, its record counts."""
        context, log = self.context, self.context.log
        log.check_current(context.name, context.generation, context.replica)
        number, watermark_us = self._batch_number + 1, self._watermark_after(newest)

        def propose(after: int, _: Sequence[End], limit: int | None) -> Proposal:
            upto = stamp(after, self._tick(), self._batching, limit)
            return next_batch(newest, number, read, upto=upto, watermark_us=watermark_us)

        step = log.run(self._protocol.next_step(context.name, self._place(), (), propose))
        match step:
            case RunBatch():
                self._newest = step
                context.crash.at("after-range-record", context.name, number)
            case Ended():
                raise log.ended(context.name, step)
            case "waiting":  # for others that turn as well
                if self._stopping.wait(IDLE_POLL_S):
                    raise StoppedError(f"{context.name} was told to stop")

    def _publish(self, record: Range, rows: Any) -> None:
        number = self._batch_number
        watermark = SourcePosition.after(record).watermark_us
        kept, late, watermark = split_late(rows, self._pipeline.event_time, watermark)
        publish_rows(self.context, record, number, kept, late, watermark)
        self._published = number
        self._watermark = (number, watermark)
        self.progress.tell(batch=number, epoch=record.upto)
        self.progress.add(rows_in=rows.num_rows, rows_out=kept.num_rows)
        self._trim(number)

    # Nothing to read

    def _idle_clock(self, query: StreamingQuery) -> None:
        """Publish empty slices while Spark has nothing to give."""
        clock = self.context.clock
        checked = clock.now()
        while query.isActive and not self._stopping.is_set():
            worked = False
            if self._turn.acquire(blocking=False):
                try:
                    worked = self._idle()
                finally:
                    self._turn.release()
            if worked:
                continue  # after a pause there may be many epochs, each in a batch of its own
            if clock.now() - checked > CHECK_S:
                context = self.context
                context.log.check_current(context.name, context.generation, context.replica)
                checked = clock.now()
            self._stopping.wait(IDLE_POLL_S)

    def _idle(self) -> bool:
        """Finish an empty batch, or begin one if it is due; whether there was anything to do."""
        newest = self._look()
        last, tick = newest.upto if newest else -1, self._tick()
        due = self._batching.due(last, tick) is not None
        unpublished = newest is not None and not self._is_published()
        self.progress.tell(waiting=max(1, tick - last) if due or unpublished else 0)
        if not due and not unpublished:
            return False
        step = self._step(None, None)
        if step == "finish":
            self.context.crash.at("before-commit", self.context.name, self._published)
        return step != "wait"

    @cached_property
    def _empty(self) -> Any:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - idle sources only

        schema = self._schemas[self.context.segment.name]
        return to_arrow_schema(schema, timezone="UTC").empty_table()

    # The records

    @property
    def _record(self) -> Range | None:
        return self._newest.range if self._newest is not None else None

    @property
    def _batch_number(self) -> int:
        """That of the newest record; -1: none."""
        return self._newest.position.batch if self._newest is not None else -1

    def _look(self) -> Range | None:
        """The newest record; costs a look at two names while there is no newer one."""
        context, log = self.context, self.context.log
        if self._newest is None:
            number = log.newest_batch(context.name)
            if number >= 0:
                newest = log.need_range(context.name, number)
                self._newest = RunBatch(range=newest, position=self._position(number))
        else:
            while (record := log.range(context.name, self._batch_number + 1)) is not None:
                position = self._newest.done
                if record.turn != position.turn:
                    position = self._position(position.batch)
                self._newest = RunBatch(range=record, position=position)
        return self._record

    def _place(self) -> Position:
        """Where the unit goes on."""
        return self._newest.done if self._newest is not None else self._position(0)

    def _is_published(self) -> bool:
        """Whether the newest batch is there."""
        record, number = self._record, self._batch_number
        if record is not None and self._published != number and self._stored(number) is not None:
            self._published = number
            self.progress.tell(batch=number, epoch=record.upto)
        return record is not None and self._published == number

    def _watermark_after(self, record: Range | None) -> int | None:
        """What a published batch has left behind."""
        if record is None:
            return None
        number = self._batch_number
        if self._watermark[0] != number:
            found = self.context.log.need_slice(self.context.name, number)
            self._watermark = (number, found.watermark_us)
        return self._watermark[1]

    def _waiting(self) -> int:
        """As the idle clock has seen it: epochs that are due, or a batch that is not published."""
        return self.progress.report.waiting

    def _tick(self) -> int:
        context = self.context
        return epoch_tick(self._origin, context.deployment.epoch_s, context.wall.now())


def load_rows(session: SparkSession, source: SparkSource) -> DataFrame:
    """The source's rows in the columns its description promises."""
    wanted = cast("StructType", StructType.fromDDL(source.schema))
    frame = read_stream(session, source.format, source.options, source.schema)
    return frame.select(*[F.col(f"`{field.name}`").cast(field.dataType) for field in wanted])


def read_stream(
    session: SparkSession, kind: str, options: Mapping[str, str], schema: str
) -> DataFrame:
    """What Spark makes of a source, with the schema given or with one of its own."""
    try:
        return session.readStream.format(kind).options(**options).schema(schema).load()
    except (AnalysisException, IllegalArgumentException, UnsupportedOperationException):
        # A source with a schema of its own, like Kafka, refuses to be given one, each in its way.
        return session.readStream.format(kind).options(**options).load()
