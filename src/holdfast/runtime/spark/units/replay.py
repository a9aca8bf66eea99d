"""Batches that a unit has run before, run once more: for their files, and for nothing else.

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

    def replay(self) -> Mapping[int, Files]:
        """The files of the batches that are wanted; blocks until they are there."""
        self._protocol = self.context.log.steps()
        self._run_query()
        missing = set(self._replay.wanted) - set(self._made)
        if missing:
            raise CheckFailedError(f"{self.context.name}: batch {min(missing)} did not run again")
        return self._made

    def stop(self) -> None:
        """The query ends by itself."""

    def _batch(self, frame: DataFrame, spark_batch: int) -> None:
        try:
            self._run_again(frame, spark_batch)
        except Exception as error:  # noqa: BLE001 - told by `replay`
            self._failure = error
        if self._failure is not None:
            raise BatchFailedError(type(self._failure).__name__)
        if self._number == self._replay.last:
            self._stopping.set()
            raise BatchFailedError("all is done")

    def _run_again(self, frame: DataFrame, spark_batch: int) -> None:
        context = self.context
        number = self._number = batch_number(self._home, spark_batch, self._planned.spec.partitions)
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
