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
from collections.abc import Mapping
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
from holdfast.deployment.records import RangeRecord
from holdfast.errors import CheckFailedError, HoldfastError
from holdfast.pipeline import SparkSource
from holdfast.runtime.checkpoint.align import align, sync_plan
from holdfast.runtime.checkpoint.clone import source_offset
from holdfast.runtime.log.protocol import Batching, epoch_due
from holdfast.runtime.spark.start.session import unit_session
from holdfast.runtime.spark.units.unit import BatchFailedError, SparkUnit
from holdfast.runtime.units.positions import Position, Read, next_record, next_step, stamp
from holdfast.runtime.units.sources import (
    epoch_tick,
    publish_rows,
    split_late,
)

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
        self._newest: RangeRecord | None = None
        self._published = -1
        """Number of the newest batch known to be published on all boundaries."""
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
        known = Position.after(newest)
        aligned = align(
            self._checkpoint(context.generation),
            unit=context.name,
            end=known.offset,
            start=known.start,
            now=context.wall.now(),
        )
        if aligned == "past" and next_step(newest, published=self._is_published(), read=None) == (
            "wait"
        ):
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
        frame = _load(session, source)
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
                    raise ReplannedError(f"{context.name}: recorded {self._newest}, read {read}")
                if step == "lost":
                    raise CheckFailedError(
                        f"{context.name}: recorded up to offset "
                        f"{Position.after(self._newest).offset}, but Spark goes on from "
                        f"{read.start}"
                    )
            number = Position.after(self._newest).batch
        self.progress.tell(batch_ms=1000 * (context.clock.now() - began))
        context.crash.at("before-commit", context.name, number)

    def _step(self, read: Read | None, rows: Any) -> str:
        """One step, done if it is a deed; to be called with the turn."""
        newest = self._look()
        step = next_step(newest, published=self._is_published(), read=read)
        if step in ("replan", "lost"):
            # A generation that was left behind finds records that it cannot understand.
            self.context.log.check_current(self.context.name, self.context.generation)
        if step == "put":
            self._put(newest, read)
        elif step == "finish" and newest is not None:
            self._publish(newest, self._empty)
        elif step == "publish" and newest is not None:
            self._publish(newest, rows)
        return step

    def _culprit(self, error: BaseException) -> str | None:
        return super()._culprit(error) or self.context.segment.name

    def _put(self, newest: RangeRecord | None, read: Read | None) -> None:
        """Record the next batch; if another generation was faster, its record counts."""
        context = self.context
        context.log.check_current(context.name, context.generation)
        last = newest.upto if newest else -1
        self._newest = context.log.put_range(
            next_record(
                newest,
                read,
                unit=context.name,
                generation=context.generation,
                upto=stamp(last, self._tick(), self._batching),
                watermark_us=self._watermark_after(newest),
            )
        )
        context.crash.at("after-range-record", context.name, self._newest.number)

    def _publish(self, record: RangeRecord, rows: Any) -> None:
        watermark = Position.after(record).watermark_us
        kept, late, watermark = split_late(rows, self._pipeline.event_time, watermark)
        publish_rows(self.context, record, kept, late, watermark)
        self._published = record.number
        self._watermark = (record.number, watermark)
        self.progress.tell(batch=record.number, epoch=record.upto)
        self.progress.add(rows_in=rows.num_rows, rows_out=kept.num_rows)
        self._trim(record.number)

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
                self.context.log.check_current(self.context.name, self.context.generation)
                checked = clock.now()
            self._stopping.wait(IDLE_POLL_S)

    def _idle(self) -> bool:
        """Finish an empty batch, or begin one if it is due; whether there was anything to do."""
        newest = self._look()
        last, tick = newest.upto if newest else -1, self._tick()
        due = epoch_due(last, tick, self._batching) is not None
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

    def _look(self) -> RangeRecord | None:
        """The newest record; costs one look at a name while there is no newer one."""
        log, name = self.context.log, self.context.name
        known = self._newest.number if self._newest else -1
        number = log.newest_range(name, known)
        if number != known:
            self._newest = log.need_range(name, number)
        return self._newest

    def _is_published(self) -> bool:
        """Whether the newest batch is there on all boundaries."""
        record, context = self._newest, self.context
        if record is not None and self._published != record.number:
            found = [
                context.log.slice(boundary.name, context.unit.shard, record.number)
                for boundary in context.segment.outputs
            ]
            if all(found):
                self._published = record.number
                self.progress.tell(batch=record.number, epoch=record.upto)
        return record is not None and self._published == record.number

    def _watermark_after(self, record: RangeRecord | None) -> int | None:
        """What a published batch has left behind."""
        if record is None:
            return None
        if self._watermark[0] != record.number:
            boundary, shard = self.context.segment.outputs[0].name, self.context.unit.shard
            found = self.context.log.need_slice(boundary, shard, record.number)
            self._watermark = (record.number, found.watermark_us)
        return self._watermark[1]

    def _waiting(self) -> int:
        """As the idle clock has seen it: epochs that are due, or a batch that is not published."""
        return self.progress.report.waiting

    def _tick(self) -> int:
        context = self.context
        return epoch_tick(self._origin, context.deployment.epoch_s, context.wall.now())


def _load(session: SparkSession, source: SparkSource) -> DataFrame:
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
