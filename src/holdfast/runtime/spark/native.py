"""Source units over any streaming source of Spark's own.

Spark plans what a batch reads, so the record follows it: before a batch is published, a range
record says which of Spark's end offsets got which epoch. Whoever finds that record again compares
offsets, never times. While the source is idle, empty slices are published so that nothing
downstream waits for it.

The record is on disk for good, Spark's checkpoint may not be: it is not synced, and a clone may be
of an older generation. So before a query starts, its checkpoint is held against the newest record
(`align`): if Spark does not know the recorded end, it is told, and reads exactly that range.
"""

from __future__ import annotations

import threading
import time
from typing import Any, cast

from pyspark.errors import (
    AnalysisException,
    StreamingQueryException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from holdfast.errors import CheckFailedError
from holdfast.model.records import RangeRecord
from holdfast.pipeline import SparkSource
from holdfast.runtime.log.protocol import Batching, epoch_due, roundest
from holdfast.runtime.log.slicelog import SupersededError
from holdfast.runtime.spark.align import align
from holdfast.runtime.spark.checkpoint import source_offset
from holdfast.runtime.spark.session import unit_session
from holdfast.runtime.spark.sources import (
    epoch_tick,
    publish_rows,
    split_late,
)
from holdfast.runtime.spark.unit import BatchFailedError, SparkUnit

IDLE_POLL_S = 0.05


class NativeSourceUnit(SparkUnit):
    """A query that only copies a source into the log."""

    def _run_query(self) -> None:
        source = self._pipeline.operator(self.context.segment.name).source
        if not isinstance(source, SparkSource):
            raise TypeError("only a SparkSource is read natively")
        self._turn = threading.Lock()
        """Held by whoever decides and publishes a batch: Spark's thread or the idle clock."""
        self._origin = self.context.log.put_origin(time.time())
        session = unit_session(self._spark, snapshot_batches=1)
        frame = _load(session, source)
        interval = self.context.deployment.epoch_s * self.context.segment.batch_epochs
        with self._starts:
            self._query = (
                frame.writeStream.foreachBatch(self._batch)
                .trigger(processingTime=f"{max(1, round(interval * 1000))} milliseconds")
                .option("checkpointLocation", str(self._checkpoint(self.context.generation)))
                .start()
            )
        self.progress.state = "running"
        self._idle_clock()
        try:
            self._query.awaitTermination()
        except StreamingQueryException as error:
            if not self._stopping.is_set():
                raise self._failure or error from error

    def _prepare(self) -> None:
        super()._prepare()
        name = self.context.name
        newest = self._newest()
        if newest is None:
            return
        data = self.context.log.need_range(name, newest.source["data"])
        if data is not None:
            before = self.context.log.need_range(name, data.number - 1)
            self.progress.extra["aligned"] = align(
                self._checkpoint(self.context.generation),
                unit=name,
                end=data.source["offset"],
                start=before.source["offset"] if before else None,
            )

    def _batch(self, frame: DataFrame, spark_batch: int) -> None:
        try:
            self._copy(frame, spark_batch)
        except Exception as error:  # noqa: BLE001 - told by status()
            self._failure = error
        if self._failure is not None:
            raise BatchFailedError(type(self._failure).__name__)

    def _copy(self, frame: DataFrame, spark_batch: int) -> None:
        context, start = self.context, time.monotonic()
        offset = source_offset(self._checkpoint(context.generation), spark_batch)
        rows = frame.toArrow()
        with self._turn:
            newest = self._newest()
            if newest is not None and newest.source["offset"] == offset:
                record = context.log.need_range(context.name, newest.source["data"])
            else:
                self._check_start(newest, spark_batch)
                record = self._decide(newest, offset)
            if record is None or self._published(record):
                return
            if record.source["offset"] != offset:
                # Another generation was faster: the next one starts from what it recorded.
                raise SupersededError(
                    f"{context.name}: batch {record.number} was recorded up to offset "
                    f"{record.source['offset']} by generation {record.generation}, "
                    f"this one has read up to {offset}"
                )
            self._publish(record, rows)
        self.progress.batch_ms = 1000 * (time.monotonic() - start)
        context.crash.at("before-commit", context.name, record.number)

    def _culprit(self, error: BaseException) -> str | None:
        return super()._culprit(error) or self.context.segment.name

    def _check_start(self, newest: RangeRecord | None, spark_batch: int) -> None:
        """What Spark reads now must begin where the records end, or rows would come twice."""
        recorded = newest.source["offset"] if newest else None
        folder = self._checkpoint(self.context.generation)
        start = source_offset(folder, spark_batch - 1) if spark_batch > 0 else None
        if start != recorded:
            raise CheckFailedError(
                f"{self.context.name}: recorded up to offset {recorded}, "
                f"but Spark goes on from {start}"
            )

    def _decide(self, newest: RangeRecord | None, offset: str) -> RangeRecord:
        """Stamp what Spark is about to give us with an epoch."""
        context = self.context
        context.log.check_current(context.name, context.generation)
        last = newest.upto if newest else -1
        number = newest.number + 1 if newest else 0
        known = newest.source if newest else {"offset": None, "data": -1}
        data = number if known["offset"] != offset else known["data"]
        record = context.log.put_range(
            RangeRecord(
                unit=context.name,
                number=number,
                after=last,
                upto=roundest(last + 2, max(last + 2, self._tick() + 1)) - 1,
                source={"offset": offset, "data": data},
                generation=context.generation,
            )
        )
        context.crash.at("after-range-record", context.name, number)
        return record

    def _publish(self, record: RangeRecord, rows: Any) -> None:
        context, watermark = self.context, None
        if record.number > 0:
            boundary, shard = context.segment.outputs[0].name, context.unit.shard
            watermark = context.log.need_slice(boundary, shard, record.number - 1).watermark_us
        kept, late, watermark = split_late(rows, self._pipeline.event_time, watermark)
        publish_rows(context, record, kept, late, watermark)
        self.progress.batch, self.progress.epoch = record.number, record.upto
        self.progress.rows_in += rows.num_rows
        self.progress.rows_out += kept.num_rows
        self._trim(record.number)

    def _idle_clock(self) -> None:
        """Publish empty slices while Spark has nothing to give."""
        batching = Batching(batch_epochs=self.context.segment.batch_epochs)
        empty = None
        while self._query is not None and self._query.isActive and not self._stopping.is_set():
            self._stopping.wait(IDLE_POLL_S)
            if not self._turn.acquire(blocking=False):
                continue
            try:
                newest = self._newest()
                if newest is None or not self._published(newest):
                    continue  # Spark's first batch, or the redo of its last, comes first
                if epoch_due(newest.upto, self._tick(), batching) is None:
                    continue
                if empty is None:
                    empty = self._empty()
                self._publish(self._decide(newest, newest.source["offset"]), empty)
            finally:
                self._turn.release()

    def _empty(self) -> Any:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - idle sources only

        schema = self._schemas[self.context.segment.name]
        return to_arrow_schema(schema, timezone="UTC").empty_table()

    def _published(self, record: RangeRecord) -> bool:
        return all(
            self.context.log.slice(boundary.name, self.context.unit.shard, record.number)
            for boundary in self.context.segment.outputs
        )

    def _newest(self) -> RangeRecord | None:
        name = self.context.name
        self._seen = self.context.log.newest_range(name, getattr(self, "_seen", -1))
        return self.context.log.need_range(name, self._seen)

    def _waiting(self) -> int:
        """Epochs that are due and that nobody is publishing.

        Before Spark's first batch there may be nothing to give at all.
        """
        if self._turn.locked():
            return 0
        epoch, tick = self.progress.epoch, self._tick()
        batching = Batching(batch_epochs=self.context.segment.batch_epochs)
        if self.progress.batch < 0 or epoch_due(epoch, tick, batching) is None:
            return 0
        return max(0, tick - epoch)

    def _tick(self) -> int:
        return epoch_tick(self._origin, self.context.deployment.epoch_s, time.time())


def _load(session: SparkSession, source: SparkSource) -> DataFrame:
    """The source's rows in the columns its description promises."""
    reader = session.readStream.format(source.format).options(**source.options)
    wanted = cast("StructType", StructType.fromDDL(source.schema))
    try:
        frame = reader.schema(source.schema).load()
    except (AnalysisException, UnsupportedOperationException):
        # A source with a schema of its own, like Kafka, refuses to be given one.
        frame = session.readStream.format(source.format).options(**source.options).load()
    return frame.select(*[F.col(f"`{field.name}`").cast(field.dataType) for field in wanted])
