"""Exporter units: they deliver the result log to the world.

An epoch is delivered when all shards have published it. Progress commits with the data: Parquet
files are named by the batch, so a redo replaces a file by the same; Sqlite notes the batch in the
transaction that holds its rows; a function gets an id by which it can tell a redo.
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
import sqlite3
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.deployment import KEY_GROUPS, Boundary
from holdfast.deployment.records import RangeRecord, SliceRecord
from holdfast.pipeline import Console, ForeachBatch, Parquet, Sink, Sqlite
from holdfast.runtime.log.protocol import Batching, next_range, read_range
from holdfast.runtime.log.slices import read_slice
from holdfast.runtime.log.store import sync_folder
from holdfast.runtime.spark.threads import ThreadUnit, UnitContext

PROGRESS_TABLE = "holdfast_progress"


class Delivery(ABC):
    """Takes the rows of one batch."""

    @abstractmethod
    def deliver(self, number: int, rows: Any) -> None:
        """Deliver batch `number`; called again with the same rows after a failure."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of what it holds."""


class ExporterUnit(ThreadUnit):
    """Reads a boundary as every unit does, and delivers instead of publishing."""

    def __init__(self, context: UnitContext, delivery: Delivery, schema: Any) -> None:
        super().__init__(context)
        self._delivery = delivery
        self._schema = schema
        self._unread: dict[tuple[str, int], list[SliceRecord]] = {}
        self._batching = Batching(batch_epochs=context.segment.batch_epochs)

    def propose(self, previous: RangeRecord | None) -> RangeRecord | None:
        unread = {}
        for name in self.context.segment.inputs:
            shards = self.context.deployment.producer(name).shards
            first = previous.inputs[name] if previous else (0,) * shards
            unread[name] = [self._from(name, shard, first[shard]) for shard in range(shards)]
        proposed = next_range(previous, unread, self._batching, unit=self.context.name)
        self.progress.waiting = proposed.upto - proposed.after if proposed else 0
        return proposed

    def run_batch(self, previous: RangeRecord | None, record: RangeRecord) -> None:
        log = self.context.log
        batches: list[Any] = []
        for name, shards in read_range(previous, record).items():
            for shard, numbers in enumerate(shards):
                folder = log.layout.data(name, shard)
                for number in numbers:
                    item = self._slice(name, shard, number)
                    batches += read_slice(folder, item, range(KEY_GROUPS))
        rows = pa.Table.from_batches(batches) if batches else self._schema.empty_table()
        self._delivery.deliver(record.number, rows)
        self.progress.rows_in += rows.num_rows
        self.progress.rows_out += rows.num_rows

    def _from(self, boundary: str, shard: int, first: int) -> list[SliceRecord]:
        known = [item for item in self._unread.get((boundary, shard), []) if item.number >= first]
        follow = known[-1].number + 1 if known else first
        known += self.context.log.slices_from(boundary, shard, follow)
        self._unread[boundary, shard] = known
        return known

    def _slice(self, boundary: str, shard: int, number: int) -> SliceRecord:
        for item in self._unread.get((boundary, shard), []):
            if item.number == number:
                return item
        return self.context.log.need_slice(boundary, shard, number)


class ParquetDelivery(Delivery):
    """One file per batch that has rows; upserts: the last row of the newest file counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def deliver(self, number: int, rows: Any) -> None:
        if rows.num_rows == 0:
            return
        temporary = self._folder / f".{uuid.uuid4().hex}.tmp"
        try:
            with temporary.open("wb") as file:
                pq.write_table(rows, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._folder / f"part-{number:010d}.parquet")
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self._folder)


class SqliteDelivery(Delivery):
    """Rows and the number of their batch in one transaction."""

    def __init__(self, path: Path, table: str, sink: str, boundary: Boundary, schema: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._sink, self._schema = path, sink, schema
        self._table = table
        names = ", ".join(f'"{field.name}"' for field in schema)
        marks = ", ".join("?" for _ in schema)
        verb = "INSERT OR REPLACE" if boundary.mode == "upsert" else "INSERT"
        self._insert = f'{verb} INTO "{table}" ({names}) VALUES ({marks})'
        key = boundary.upsert_key if boundary.mode == "upsert" else ()
        quoted = ", ".join(f'"{name}"' for name in key)
        unique = f", PRIMARY KEY ({quoted})" if key else ""
        columns = ", ".join(f'"{field.name}" {_sqlite_type(field.type)}' for field in schema)
        with closing(self._connect()) as base, base:
            base.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({columns}{unique})')
            base.execute(
                f"CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} (sink TEXT PRIMARY KEY, batch INT)"
            )

    def deliver(self, number: int, rows: Any) -> None:
        with closing(self._connect()) as base:
            base.execute("BEGIN IMMEDIATE")
            done = base.execute(
                f"SELECT batch FROM {PROGRESS_TABLE} WHERE sink = ?",  # noqa: S608 - a constant
                (self._sink,),
            ).fetchone()
            if done is not None and done[0] >= number:
                base.rollback()
                return
            values = [[_sqlite_value(item) for item in column.to_pylist()] for column in rows]
            base.executemany(self._insert, zip(*values, strict=True))
            base.execute(
                f"INSERT OR REPLACE INTO {PROGRESS_TABLE} VALUES (?, ?)",  # noqa: S608
                (self._sink, number),
            )
            base.commit()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30, isolation_level=None)


class ConsoleDelivery(Delivery):
    """Prints the first rows of every batch that has some."""

    def __init__(self, sink: str, limit: int) -> None:
        self._sink, self._limit = sink, limit

    def deliver(self, number: int, rows: Any) -> None:
        if rows.num_rows:
            shown = rows.slice(0, self._limit).to_pylist()
            lines = [f"{self._sink} batch {number}: {rows.num_rows} rows", *map(str, shown)]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()


class FunctionDelivery(Delivery):
    """Calls a function with a DataFrame and an id; at least once."""

    def __init__(
        self, sink: str, function: Callable[[Any, str], None], make_frame: Callable[[Any], Any]
    ) -> None:
        self._sink, self._function, self._make_frame = sink, function, make_frame

    def deliver(self, number: int, rows: Any) -> None:
        self._function(self._make_frame(rows), f"{self._sink}-{number}")


def make_delivery(
    sink: Sink,
    *,
    name: str,
    run_dir: Path,
    boundary: Boundary,
    schema: Any,
    make_frame: Callable[[Any], Any],
) -> Delivery:
    """The delivery of a sink; relative paths are taken from the run directory."""
    match sink:
        case Parquet(path=path):
            return ParquetDelivery(run_dir / path)
        case Sqlite(path=path, table=table):
            return SqliteDelivery(run_dir / path, table, name, boundary, schema)
        case Console(limit=limit):
            return ConsoleDelivery(name, limit)
        case ForeachBatch(function=function):
            return FunctionDelivery(name, function, make_frame)


def _sqlite_type(kind: Any) -> str:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) else "TEXT"


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value
