"""The two ways in which a unit's rows come into Spark and out of it: in Java, or through Python.

Both read the same slices in the same order and write the same files, and a checkpoint of one is a
checkpoint of the other. So which one is taken is a matter of this session alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from holdfast.runtime.spark.frames.compile import Rows, python_rows
from holdfast.runtime.spark.io.native import Asker, NativeSource, write_natively
from holdfast.runtime.spark.io.publish import (
    Written,
    collect_files,
    keyed,
    number_in_task,
    writing,
)
from holdfast.runtime.spark.io.reader import ReaderSpec
from holdfast.runtime.spark.start.native import side_of
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage


class Side(Protocol):
    """Reading and writing of one query."""

    @property
    def rows(self) -> Rows:
        """Makes the frame of an input."""
        ...

    def writing(self, frame: DataFrame) -> DataFrame:
        """The last step of the query."""
        ...

    def written(self, frame: DataFrame, number: int, *, hold: bool) -> Written:
        """Run a batch that foreachBatch was given, up to files that are on disk.

        With `hold` they may be in memory instead, until they are kept.
        """
        ...

    def ready_at(self) -> float:
        """When Spark was ready for the batch in hand, wall-clock seconds."""
        ...

    def close(self) -> None:
        """To be called when the query has ended."""
        ...


def choose_side(
    context: UnitContext,
    spark: SparkSession,
    spec: ReaderSpec,
    *,
    checkpoint: Storage,
    asker: Asker,
) -> Side:
    """Java where it can be had; it asks for the `asker`."""
    if side_of(spark) == "python":
        return PythonSide(context=context, spec=spec, checkpoint=checkpoint)
    return NativeSide(context=context, source=NativeSource(spark, spec, asker))


def asker_of(
    context: UnitContext, *, stopping: threading.Event, failed: Callable[[int, BaseException], None]
) -> Asker:
    """A unit, as Java asks for it; `failed` is told which batch could not be planned, and why."""
    return Asker(log=context.log, watch=context.watch, stopping=stopping, failed=failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSide:
    """Python workers read, wait and write."""

    context: UnitContext
    spec: ReaderSpec
    checkpoint: Storage

    @property
    def rows(self) -> Rows:
        return python_rows(self.spec)

    def writing(self, frame: DataFrame) -> DataFrame:
        checkpoint, rows = self.checkpoint.address(""), self.spec.partitions
        return writing(
            frame,
            self.context.segment.outputs,
            log=self.context.log,
            unit=self.context.name,
            generation=self.context.generation,
            number=lambda: number_in_task(checkpoint, rows),
        )

    def written(self, frame: DataFrame, number: int, *, hold: bool) -> Written:  # noqa: ARG002 - tasks know the number, and write in processes of their own
        return collect_files(
            frame,
            self.context.segment.outputs,
            log=self.context.log,
            unit=self.context.name,
        )

    def ready_at(self) -> float:
        return self.context.wall.now()

    def close(self) -> None:
        """Workers are Spark's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSide:
    """Java reads and writes; this process decides what, and waits."""

    context: UnitContext
    source: NativeSource

    @property
    def rows(self) -> Rows:
        return self.source.rows

    def writing(self, frame: DataFrame) -> DataFrame:
        return keyed(frame, self.context.segment.outputs)

    def written(self, frame: DataFrame, number: int, *, hold: bool) -> Written:
        return write_natively(
            frame,
            self.context.segment.outputs,
            log=self.context.log,
            unit=self.context.name,
            number=number,
            generation=self.context.generation,
            hold=hold,
        )

    def ready_at(self) -> float:
        return self.source.asked_at

    def adopt(self, context: UnitContext, spec: ReaderSpec, asker: Asker) -> NativeSide:
        """The same for another unit, in place of this one: Java asks, whoever answers."""
        self.source.serve(spec, asker)
        return NativeSide(context=context, source=self.source)

    def close(self) -> None:
        self.source.close()
