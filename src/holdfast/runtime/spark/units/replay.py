"""Batches that a unit has run before, run once more: for their files, or for the state they leave.

The unit itself may be running at the same time, elsewhere. So nothing is claimed, no record is put
and the checkpoint is a clone of its own: what comes out are files that nobody knows of yet.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.deployment.slicefiles import Files, content_digest
from holdfast.errors import CheckFailedError
from holdfast.pipeline import Pipeline, SparkSource
from holdfast.runtime.checkpoint.clone import batch_number
from holdfast.runtime.log.slicelog import NondeterministicError
from holdfast.runtime.spark.start.session import unit_session
from holdfast.runtime.spark.units.life import end_query
from holdfast.runtime.spark.units.native import load_rows
from holdfast.runtime.spark.units.unit import BatchFailedError, SparkUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams.repair import Replay

REPLAYED = 1_000_000
"""Generation that the files of a replay name; no unit is ever started so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What it takes to run a unit's batches in this process."""

    spark: SparkSession
    pipeline: Pipeline
    """As the unit runs it."""
    schemas: Mapping[str, StructType]
    starts: threading.Lock
    partitions: int


class ReplayUnit(SparkUnit):
    """A streaming query over recorded ranges, from a commit to the last batch that is wanted."""

    def __init__(
        self, context: UnitContext, bench: Bench, replay: Replay, checkpoint: Storage, *, heed: int
    ) -> None:
        """`heed`: up to this epoch, what it reads may have been repaired itself."""
        super().__init__(
            context,
            spark=bench.spark,
            pipeline=bench.pipeline,
            schemas=bench.schemas,
            starts=bench.starts,
            clone_from=None,
            partitions=bench.partitions,
        )
        self._replay = replay
        self._home = checkpoint
        self._heed_repairs = heed
        self._made: dict[int, Files] = {}
        self._ends_with = replay.last
        """The batch that Spark is not to commit."""
        self._given_up = False

    def replay(self) -> Mapping[int, Files]:
        """The files of the batches that are wanted; blocks until they are there."""
        self._protocol = self.context.log.steps()
        self._run_query()
        missing = set(self._replay.wanted) - set(self._made)
        if missing:
            raise CheckFailedError(f"{self.context.name}: batch {min(missing)} did not run again")
        return self._made

    def commit(self, limit_s: float) -> None:
        """Run all batches and have the last one committed as well; blocks until it is."""
        self._protocol = self.context.log.steps()
        self._ends_with = self._replay.last + 1  # which is planned, and not run
        timer = threading.Timer(limit_s, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            self._run_query()
        finally:
            timer.cancel()
        if self._given_up:
            raise CheckFailedError(f"batch {self._replay.last} did not end in {limit_s:.0f} s")

    def stop(self) -> None:
        """The query ends by itself."""

    def _give_up(self) -> None:
        self._given_up = True
        self._stopping.set()
        if self._query is not None:
            end_query(self._query, self.run_id)

    def _not_planned(self, number: int, error: BaseException) -> None:
        if number <= self._replay.last:
            super()._not_planned(number, error)

    def _batch(self, frame: DataFrame, spark_batch: int) -> None:
        number = self._number = batch_number(self._home, spark_batch, self._planned.spec.partitions)
        if number <= self._replay.last:
            try:
                self._run_again(frame, number)
            except Exception as error:  # noqa: BLE001 - told by `replay`
                self._failure = error
        if self._failure is not None:
            raise BatchFailedError(type(self._failure).__name__)
        if number >= self._ends_with:
            self._stopping.set()
            raise BatchFailedError("all is done")

    def _run_again(self, frame: DataFrame, number: int) -> None:
        context = self.context
        written = self._planned.side.written(frame, number, hold=False)
        stored = self._stored(number)
        if stored is not None and stored.digest != content_digest(written.files):
            drop_files(context, written.files)
            raise NondeterministicError(
                replace(stored, files=written.files, rows=written.rows), stored
            )
        if number in self._replay.wanted:
            self._made[number] = written.files
        else:
            drop_files(context, written.files)

    def _checkpoint(self, generation: int) -> Storage:  # noqa: ARG002 - it has one
        return self._home


def read_natively(bench: Bench, source: SparkSource, checkpoint: Storage) -> Any:
    """The rows of the one range that a native source's checkpoint has planned."""
    found: list[Any] = []

    def take(frame: DataFrame, _: int) -> None:
        found.append(frame.toArrow())
        raise BatchFailedError("all is done")

    frame = load_rows(unit_session(bench.spark, snapshot_batches=1), source)
    with bench.starts:
        query = (
            frame.writeStream.foreachBatch(take)
            .option("checkpointLocation", checkpoint.address(""))
            .start()
        )
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if not found:
            raise
    finally:
        with contextlib.suppress(Exception):  # it has ended, one way or another
            query.stop()
    return found[0]


def drop_files(context: UnitContext, files: Files) -> None:
    """Remove files that no record names."""
    for boundary, items in files.items():
        for file in items:
            context.log.data(context.name, boundary).delete(file.name)
