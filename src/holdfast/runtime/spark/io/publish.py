"""What a Spark unit does with a batch's result: write slice files in tasks.

Writing is the last step of the unit's own query, so Spark plans it once; what comes out of the
query is one line per task that says what it wrote. foreachBatch collects them and puts the records
from the driver's own Python thread. A batch's number is read from the offset Spark has logged for
it, in tasks as in the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import ArrayType, MapType, StructType

from holdfast.deployment import KEY_GROUPS, Boundary
from holdfast.deployment.slicefiles import SliceFile, rows_in, slice_file
from holdfast.runtime.checkpoint.clone import batch_number
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.storage import open_storage
from holdfast.storage.identity import new_id

_HASH = "_hf_hash"
_MESSAGE = "message"
_SPARK_BATCH = "streaming.sql.batchId"
"""Spark's local property with the id of the batch a job belongs to."""


def _nothing() -> None:
    """Files that are on disk are there to stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files of one batch, by boundary."""

    files: dict[str, tuple[SliceFile, ...]]
    keep: Callable[[], None] = _nothing
    """Puts on disk what is only in memory: to be called before a record names the files."""
    forget: Callable[[], None] = _nothing
    """Gives that memory back."""

    @property
    def rows(self) -> int:
        return rows_in(next(iter(self.files.values()), ()))


def writing(
    frame: DataFrame,
    boundaries: tuple[Boundary, ...],
    *,
    log: SliceLog,
    unit: str,
    generation: int,
    number: Callable[[], int],
) -> DataFrame:
    """A frame to `collect_files` from: every task writes its rows, once per boundary.

    `number` is called in tasks and tells the number of the batch.
    """
    folders = [log.data(unit, boundary.name).address("") for boundary in boundaries]
    write = _task(folders, _group_columns(boundaries), generation, number)
    return keyed(frame, boundaries).mapInArrow(write, f"{_MESSAGE} string")


def keyed(frame: DataFrame, boundaries: tuple[Boundary, ...]) -> DataFrame:
    """Behind the columns, every row's key group on each boundary, and its hash."""
    groups = [
        _group(boundary.key).alias(name)
        for boundary, name in zip(boundaries, _group_columns(boundaries), strict=True)
    ]
    hashed = F.xxhash64(*[hashable(frame, name) for name in frame.columns]).alias(_HASH)
    columns = [F.col(f"`{name}`") for name in frame.columns]
    return frame.select(*columns, *groups, hashed)


def collect_files(
    frame: DataFrame, boundaries: tuple[Boundary, ...], *, log: SliceLog, unit: str
) -> Written:
    """Run what `writing` has made, and see that its files are there to stay."""
    told = [json.loads(row[_MESSAGE]) for row in frame.collect()]
    files: dict[str, list[SliceFile]] = {boundary.name: [] for boundary in boundaries}
    # Tasks end in any order; a fixed one makes every reader see rows in the same order.
    for message in sorted(told, key=lambda message: int(message["task"])):
        for boundary, item in zip(boundaries, message["files"], strict=True):
            if item is not None:
                files[boundary.name].append(slice_file(item))
    return synced(files, log, unit)


def synced(files: dict[str, list[SliceFile]], log: SliceLog, unit: str) -> Written:
    """See that the names of the files, per boundary, are there to stay."""
    for name, items in files.items():
        if items:
            log.data(unit, name).sync("")
    return Written(files={name: tuple(items) for name, items in files.items()})


def write_files(
    frame: DataFrame,
    boundaries: tuple[Boundary, ...],
    *,
    log: SliceLog,
    unit: str,
    number: int,
    generation: int,
) -> Written:
    """Write one batch that is no part of a unit's query."""
    made = writing(
        frame,
        boundaries,
        log=log,
        unit=unit,
        generation=generation,
        number=lambda: number,
    )
    return collect_files(made, boundaries, log=log, unit=unit)


def number_in_task(checkpoint: str, rows: int) -> int:
    """The number of the batch that this task belongs to; `rows` stand for one in the clock.

    A storage does not travel to tasks, its address does.
    """
    from pyspark import TaskContext  # noqa: PLC0415 - runs in a task

    context = TaskContext.get()
    told = context.getLocalProperty(_SPARK_BATCH) if context else None
    if told is None:
        raise AssertionError("Spark no longer tells tasks the id of their batch")
    return batch_number(open_storage(checkpoint), int(told), rows)


def _group_columns(boundaries: tuple[Boundary, ...]) -> list[str]:
    return [f"_hf_group{index}" for index in range(len(boundaries))]


def _group(key: tuple[str, ...]) -> Any:
    if not key:
        return F.lit(0).cast("int")
    return F.pmod(F.hash(*[F.col(f"`{name}`") for name in key]), F.lit(KEY_GROUPS)).cast("int")


def hashable(frame: DataFrame, name: str) -> Any:
    """Spark refuses to hash maps, whose order means nothing: their entries, sorted, instead."""
    column = F.col(f"`{name}`")
    if not _has_map(frame.schema[name].dataType):
        return column
    if isinstance(frame.schema[name].dataType, MapType):
        return F.to_json(F.array_sort(F.map_entries(column)))
    return F.to_json(F.struct(column))


def _has_map(kind: Any) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(field.dataType) for field in kind)
    return False


def _task(
    folders: list[str], group_columns: list[str], generation: int, number: Callable[[], int]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def write(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a task

        context = TaskContext.get()
        task = context.partitionId() if context else 0
        found = [batch for batch in batches if batch.num_rows]
        message = {"task": task, "files": [None] * len(folders)}
        if found:
            stem = f"{number():010d}-g{generation}"
            table = pa.Table.from_batches(found)
            hashes = table.column(_HASH).to_numpy().astype(np.int64).view(np.uint64)
            rows = table.drop_columns([*group_columns, _HASH])
            message["files"] = [
                asdict(
                    write_slice_file(
                        open_storage(folder),
                        f"{stem}-p{task}-{new_id()[:8]}.arrow",
                        rows,
                        table.column(column).to_numpy(),
                        hashes,
                    )
                )
                for folder, column in zip(folders, group_columns, strict=True)
            ]
        yield pa.record_batch([pa.array([json.dumps(message)])], names=[_MESSAGE])

    return write
