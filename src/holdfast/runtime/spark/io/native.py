"""Slices in and out of Spark without Python in between: what Java is told, and what it tells.

When Spark has planned and compiled batch n, it asks once which slices to read (`NativeSource.plan`,
a call into this process that returns when the range record is there), and reads exactly these parts
of these files. Then foreachBatch hands the planned rows to Java, which writes them and tells the
files. Java knows nothing of records.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from holdfast.deployment import Boundary
from holdfast.deployment.slicefiles import SliceFile, slice_file
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import files_on
from holdfast.runtime.log.watch import NoWatch, Watch
from holdfast.runtime.spark.io.callbacks import java_class, start_callbacks
from holdfast.runtime.spark.io.publish import Written, synced
from holdfast.runtime.spark.io.reader import (
    MARK,
    InputSpec,
    LogReader,
    PlannedInput,
    ReaderSpec,
    StoppedError,
)

FORMAT = "holdfast.SliceSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """On whose behalf Java asks what to read."""

    log: SliceLog
    failed: Callable[[int, BaseException], None]
    """Told which batch could not be planned, and why: Spark only knows that."""
    watch: Watch = field(default_factory=NoWatch)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when it is to stop."""


class NativeSource:
    """The inputs of one query, planned here and read by Java."""

    def __init__(self, spark: SparkSession, spec: ReaderSpec, asker: Asker) -> None:
        self.asked_at = 0.0
        """When Spark last asked what to read, wall-clock seconds: it is ready then."""
        self.serve(spec, asker)
        self._planning = threading.Lock()
        """Spark may ask for several inputs at once; the reader is for one thread."""
        self._name = f"{spec.unit}-{spec.generation}-{uuid.uuid4().hex}"
        self._planners = java_class(spark, "holdfast.Planners")
        start_callbacks(spark)
        self._planners.put(self._name, self)

    def serve(self, spec: ReaderSpec, asker: Asker) -> None:
        """Answer for this unit; to be called before its query is started."""
        self._spec = spec
        waiting = _NodeWait(asker.watch, asker.stopping)
        self._reader = LogReader(spec, log=asker.log, watch=waiting)
        self._failed = asker.failed
        self._ends: BaseException | None = None

    def end(self, reason: BaseException) -> None:
        """Fail the next batch before anything of it is planned."""
        self._ends = reason

    def rows(self, spark: SparkSession, index: int) -> DataFrame:
        """An input as a streaming frame; with a column that only ticks have, if there are any."""
        item = self._spec.inputs[index]
        return (
            spark.readStream.format(FORMAT)
            .schema(_read_schema(item))
            .option("planner", self._name)
            .option("boundary", item.boundary)
            .option("index", index)
            .option("parts", self._spec.partitions)
            .option("tasks", self._spec.tasks)
            .load()
        )

    def plan(self, number: int) -> str:
        """Called by Java: what batch `number` reads."""
        self.asked_at = time.time()
        try:
            return json.dumps(self._plan(number))
        except BaseException as error:
            self._failed(number, error)
            raise

    def _plan(self, number: int) -> list[dict[str, Any]]:
        if self._ends is not None:
            raise self._ends
        with self._planning:
            found = self._reader.batch(number)
        if found is None:
            raise StoppedError(f"{self._spec.unit} was told to stop")
        return [
            told(item, planned, self._reader.log, self._spec.tasks)
            for item, planned in zip(self._spec.inputs, found, strict=True)
        ]

    def batch_rows(self, spark: SparkSession, index: int, number: int) -> DataFrame:
        """What a batch reads of an input, without ticks, as a frame of its own."""
        item = self._spec.inputs[index]
        rows = (
            spark.read.format(FORMAT)
            .schema(StructType(item.columns()))
            .option("plan", json.dumps(self._plan(number)))
            .option("boundary", item.boundary)
            .option("index", index)
            .option("tasks", self._spec.tasks)
        )
        return rows.load()

    def close(self) -> None:
        """Forget the query; to be called when it has ended."""
        self._planners.remove(self._name)

    class Java:
        """What Java takes it for."""

        implements: ClassVar = ["holdfast.Planner"]


def _read_schema(item: InputSpec) -> StructType:
    mark = [StructField(MARK, TimestampType())] if item.ticking else []
    return StructType([*item.columns(), *mark])


class _NodeWait:
    """The node's watcher. The order to stop is a file too; should that fail, there is the event."""

    def __init__(self, watch: Watch, stopping: threading.Event) -> None:
        self._watch, self._stopping = watch, stopping

    def wait(self, paths: Sequence[str], timeout_s: float) -> bool:
        if self._stopping.is_set():
            raise StoppedError("the unit was told to stop")
        return self._watch.wait(paths, timeout_s, threading.Event())


def told(item: InputSpec, planned: PlannedInput, log: SliceLog, tasks: int) -> dict[str, Any]:
    """What Java is told of one input: `SliceReaders` has the form."""
    files = list(_files(item, planned, log, frozenset().union(*planned.groups)))
    return {"tick": planned.tick_us, "tasks": _shared(files, tasks)}


def _files(
    item: InputSpec, planned: PlannedInput, log: SliceLog, groups: Collection[int]
) -> Iterator[dict[str, Any]]:
    skipped = sorted(planned.skipped)
    passed, position = 0, 0
    for record in planned.slices:
        folder = log.data(record.unit, item.boundary)
        for file in files_on(record, item.boundary):
            parts = []
            for part in file.parts:
                if part.group not in groups:
                    continue
                described = [part.rows, part.offset, part.size, part.crc]
                while passed < len(skipped) and skipped[passed] < position + part.rows:
                    described.append(skipped[passed] - position)
                    passed += 1
                position += part.rows
                parts.append(described)
            if parts:
                schema = [file.schema_size, file.schema_crc]
                yield {"path": folder.address(file.name), "schema": schema, "parts": parts}


def _shared(files: list[dict[str, Any]], tasks: int) -> list[list[dict[str, Any]]]:
    """Files divided among tasks: each about as many rows, in the order in which one would read."""
    if tasks == 1:
        return [files]
    rows = sum(part[0] for file in files for part in file["parts"])
    shares: list[list[dict[str, Any]]] = [[] for _ in range(tasks)]
    passed = 0
    for file in files:
        places = []
        for part in file["parts"]:
            places.append(min(tasks - 1, tasks * passed // max(1, rows)))
            passed += part[0]
        for place in sorted(set(places)):
            mine = [part for at, part in zip(places, file["parts"], strict=True) if at == place]
            shares[place].append({**file, "parts": mine})
    return shares


def write_natively(
    frame: DataFrame,
    boundaries: tuple[Boundary, ...],
    *,
    log: SliceLog,
    unit: str,
    number: int,
    generation: int,
    hold: bool = False,
) -> Written:
    """Write one batch of rows that `keyed` has prepared, in Java.

    With `hold` the files stay in memory, as far as there is room, until they are kept.
    """
    folders = [log.data(unit, boundary.name).address("") for boundary in boundaries]
    job = json.dumps([f"{number:010d}-g{generation}", *folders])
    writer = java_class(frame.sparkSession, "holdfast.SliceWriter")
    held = java_class(frame.sparkSession, "holdfast.Held")
    if hold:
        _forget(held, folders)  # what a batch has left that failed half way
    answer = (writer.hold if hold else writer.write)(frame._jdf, job)  # noqa: SLF001
    files: dict[str, list[SliceFile]] = {boundary.name: [] for boundary in boundaries}
    # One line per task, in their order: so every reader sees rows in the same order.
    for message in json.loads(answer):
        for boundary, items in zip(boundaries, message["files"], strict=True):
            files[boundary.name] += map(slice_file, items)
    if not hold:
        return synced(files, log, unit)
    paths = [log.data(unit, name).address(file.name) for name in files for file in files[name]]

    def keep() -> None:
        held.write(json.dumps(paths))
        synced(files, log, unit)

    return Written(
        files={name: tuple(items) for name, items in files.items()},
        keep=keep,
        forget=lambda: _forget(held, folders),
    )


def _forget(held: Any, folders: Sequence[str]) -> None:
    for folder in folders:
        held.forget(folder)
