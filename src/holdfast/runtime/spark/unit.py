"""A unit as a streaming query: the one place where a batch is run, published and accounted for."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.deployment import key_group_range
from holdfast.deployment.records import RangeRecord, SliceRecord
from holdfast.errors import HoldfastError
from holdfast.pipeline import Pipeline
from holdfast.runtime.host import UnitStatus
from holdfast.runtime.log.protocol import Batching, output_watermark, read_range
from holdfast.runtime.log.slicelog import SliceLog, SupersededError
from holdfast.runtime.log.trim import TRIM_EVERY
from holdfast.runtime.profile.state import StateFiles
from holdfast.runtime.spark.checkpoint import (
    batch_number,
    clone_checkpoint,
    newest_generation,
    remove_older,
)
from holdfast.runtime.spark.compile import (
    OperatorError,
    build,
    culprit,
    input_specs,
    read_frames,
)
from holdfast.runtime.spark.publish import collect_files, number_in_task, publish, writing
from holdfast.runtime.spark.quarantine import quarantine
from holdfast.runtime.spark.reader import ReaderSpec, StoppedError, stop_marker
from holdfast.runtime.spark.session import unit_session
from holdfast.runtime.spark.threads import Progress, UnitContext

SIZE_EVERY = 8
"""Batches between two looks at how large the state is."""
KEEP_GENERATIONS = 2
"""Checkpoints of older generations that stay: the one in use and the one it was cloned from."""


class BatchFailedError(HoldfastError):
    """Tells Spark that a batch failed; the unit keeps the cause."""


class SparkUnit:
    """Starts, watches and stops one streaming query."""

    def __init__(
        self,
        context: UnitContext,
        *,
        spark: SparkSession,
        pipeline: Pipeline,
        schemas: Mapping[str, StructType],
        starts: threading.Lock,
        clone_from: int | None,
        partitions: int = 1,
    ) -> None:
        self.context = context
        self.progress = Progress()
        self._spark = spark
        self._pipeline = pipeline
        self._schemas = schemas
        self._starts = starts
        self._clone_from = clone_from
        self._partitions = partitions
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._number: int | None = None
        """The batch in hand."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=context.name, daemon=True)
        self._tails: dict[tuple[str, int], SliceRecord] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        marker = self._stop_marker()
        with contextlib.suppress(OSError):
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
        query = self._query
        if query is not None:
            # stop() waits for the batch in hand: not on the caller's thread.
            threading.Thread(target=_stop, args=(query,), daemon=True).start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def status(self) -> UnitStatus:
        if self.progress.state == "running":
            self.progress.waiting = max(0, self._frontier() - self.progress.epoch)
        return self.progress.status(self.context.unit, self.context.generation)

    # Life of the query

    def _run(self) -> None:
        try:
            self._prepare()
            while not self._stopping.is_set():
                try:
                    self._run_query()
                    break
                except Exception as error:
                    if not self._quarantined(error):
                        raise
        except SupersededError as error:
            self._end("stopped", str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the host must be able to tell
            self._failed(error)
        else:
            self._end("stopped", None)

    def _prepare(self) -> None:
        """Claim the unit, then clone: what an older generation does after the claim is bounded."""
        context = self.context
        context.log.claim(context.name, context.generation)
        target = self._checkpoint(context.generation)
        if target.exists():
            return
        source = self._clone_source()
        if source is None:
            target.mkdir(parents=True)
            return
        clone_checkpoint(self._checkpoint(source), target, unit=context.name, crash=context.crash)
        remove_older(target.parent, source - KEEP_GENERATIONS + 1)

    def _clone_source(self) -> int | None:
        folder = self._checkpoint(0).parent
        if self._clone_from is not None and self._checkpoint(self._clone_from).exists():
            return self._clone_from
        return newest_generation(folder, self.context.generation)

    def _run_query(self) -> None:
        context, segment = self.context, self.context.segment
        self._stop_marker().unlink(missing_ok=True)
        self._failure = self._number = None
        session = unit_session(self._spark, snapshot_batches=segment.snapshot_batches)
        groups = key_group_range(context.unit.shard, segment.shards)
        self._spec = ReaderSpec(
            root=str(context.log.layout.root),
            unit=context.name,
            generation=context.generation,
            inputs=input_specs(self._pipeline, context.deployment, segment, self._schemas),
            groups=(groups.start, groups.stop),
            batching=Batching(
                batch_epochs=segment.batch_epochs,
                one_epoch_per_batch=segment.one_epoch_per_batch,
            ),
            partitions=self._partitions,
            crash=context.crash,
        )
        frames = read_frames(session, self._spec)
        frame = self._writing(build(self._pipeline, context.deployment, segment, frames))
        upserts = any(boundary.mode == "upsert" for boundary in segment.outputs)
        if self._stopping.is_set():
            return
        with self._starts:  # one at a time: starting is all work for one core
            self._query = (
                frame.writeStream.foreachBatch(self._batch)
                .outputMode("update" if upserts else "append")
                .option("checkpointLocation", str(self._checkpoint(context.generation)))
                .start()
            )
        if self._stopping.is_set():
            self.stop()
        self.progress.state = "running"
        try:
            self._query.awaitTermination()
        except StreamingQueryException as error:
            if not self._stopping.is_set():
                raise self._failure or error from error
        if self._failure is not None and not self._stopping.is_set():
            raise self._failure

    def _writing(self, frame: DataFrame) -> DataFrame:
        context, tasks = self.context, self._spec.tasks
        checkpoint = self._checkpoint(context.generation)
        return writing(
            frame,
            context.segment.outputs,
            layout=context.log.layout,
            shard=context.unit.shard,
            generation=context.generation,
            number=lambda: number_in_task(checkpoint, tasks),
        )

    def _quarantined(self, error: BaseException) -> bool:
        """Whether rows were found without which the failed batch can go on."""
        if isinstance(error, HoldfastError) and not isinstance(error, OperatorError):
            return False
        operator = self._culprit(error)
        if operator is None or self._pipeline.operator(operator).on_error != "quarantine":
            return False
        number = self._number
        if number is None or self.context.log.skip(self.context.name, number) is not None:
            return False
        record, previous = self._ranges(number)
        self.progress.operator = operator
        # Many runs of the batch, so maybe a minute: to be told apart from a stall, which is killed.
        self.progress.state = "starting"
        return quarantine(
            self.context,
            spark=self._spark,
            pipeline=self._pipeline,
            spec=self._spec,
            previous=previous,
            record=record,
            operator=operator,
            reason=str(error),
        )

    def _culprit(self, error: BaseException) -> str | None:
        if isinstance(error, OperatorError):
            return error.operator
        text = "".join(traceback.format_exception(error))
        return culprit(self._pipeline, self.context.segment, text)

    def _stop_marker(self) -> Path:
        return stop_marker(self.context.log.layout.root, self.context.name, self.context.generation)

    # One batch

    def _batch(self, frame: DataFrame, spark_batch: int) -> None:
        try:
            self._run_batch(frame, spark_batch)
        except Exception as error:  # noqa: BLE001 - told by status()
            self._failure = error
        if self._failure is not None:
            # Spark matches what is raised here against a regular expression whose recursion
            # overflows the stack on a long text; the whole story is in `_failure`.
            raise BatchFailedError(type(self._failure).__name__)

    def _run_batch(self, frame: DataFrame, spark_batch: int) -> None:
        context, log = self.context, self.context.log
        start = time.time()
        checkpoint = self._checkpoint(context.generation)
        number = self._number = batch_number(checkpoint, spark_batch, self._spec.tasks)
        written = collect_files(
            frame, context.segment.outputs, layout=log.layout, shard=context.unit.shard
        )
        if self._stop_marker().exists():
            # Some tasks may have read nothing for it; the batch is run again, whole, elsewhere.
            raise StoppedError(f"{context.name} was told to stop")
        context.crash.at("after-data-files", context.name, number)
        record, previous = self._ranges(number)
        skip = log.skip(context.name, number)
        dead = sum(len(rows) for rows in skip.rows.values()) if skip else 0
        watermark = output_watermark(previous, record, stateful=context.segment.stateful)
        records = [
            SliceRecord(
                boundary=boundary.name,
                shard=context.unit.shard,
                number=number,
                after=record.after,
                upto=record.upto,
                inputs=record.inputs,
                files=written.files[boundary.name],
                watermark_us=watermark,
                dead_rows=dead,
                generation=context.generation,
                spark_batch=spark_batch,
            )
            for boundary in context.segment.outputs
        ]
        publish(log, records, unit=context.name, crash=context.crash)
        # The batch began when its input was there, not when Spark planned it.
        began = max(start, log.put_time(context.name, number))
        self._account(previous, record, written.rows, time.time() - began)
        self._trim(number)
        if context.segment.stateful and number % SIZE_EVERY == 1:
            files = StateFiles(checkpoint)
            files.scan()
            self.progress.state_bytes = files.restore_bytes
        context.crash.at("before-commit", context.name, number)

    def _trim(self, number: int) -> None:
        if number % TRIM_EVERY == TRIM_EVERY - 1:
            self.context.trimmer.trim_unit(self.context.name, number)
            self.context.trimmer.trim_outputs(self.context.segment, self.context.unit.shard)

    def _ranges(self, number: int) -> tuple[RangeRecord, RangeRecord | None]:
        record = self.context.log.need_range(self.context.name, number)
        if record is None:
            raise AssertionError("batches are numbered from 0")
        return record, self.context.log.need_range(self.context.name, number - 1)

    def _account(
        self, previous: RangeRecord | None, record: RangeRecord, rows_out: int, seconds: float
    ) -> None:
        groups = key_group_range(self.context.unit.shard, self.context.segment.shards)
        for name, shards in read_range(previous, record).items():
            for shard, numbers in enumerate(shards):
                for number in numbers:
                    found = self.context.log.need_slice(name, shard, number)
                    self._tails[name, shard] = found
                    self.progress.rows_in += sum(
                        part.rows
                        for file in found.files
                        for part in file.parts
                        if part.group in groups
                    )
        self.progress.rows_out += rows_out
        self.progress.batch_ms = 1000 * seconds
        self.progress.batch, self.progress.epoch = record.number, record.upto

    # Telling

    def _frontier(self) -> int:
        """The epoch that every shard of every input has published."""
        log: SliceLog = self.context.log
        ends = []
        for name in self.context.segment.inputs:
            for shard in range(self.context.deployment.producer(name).shards):
                tail = self._tails.get((name, shard))
                for found in log.slices_from(name, shard, tail.number + 1 if tail else 0):
                    tail = found
                if tail is not None:
                    self._tails[name, shard] = tail
                ends.append(tail.upto if tail else -1)
        return min(ends, default=-1)

    def _failed(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        self.progress.operator = self._culprit(error)
        self._end("failed", text)

    def _end(self, state: Any, error: str | None) -> None:
        self.progress.error = error
        self.progress.state = state

    def _checkpoint(self, generation: int) -> Path:
        return self.context.log.layout.checkpoint(self.context.unit, generation)


def _stop(query: StreamingQuery) -> None:
    with contextlib.suppress(Exception):  # a batch that does not end in time is killed with us
        query.stop()
