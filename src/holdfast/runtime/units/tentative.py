"""Exporters of a fork: they deliver rows apart from the exact ones and say what these lack.

A batch is delivered only if exact results do not go beyond where it begins: see `superseded`.
Whatever an earlier fork has delivered goes with the first batch of a later one, which has begun
where the exact results stood.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.deployment import Boundary
from holdfast.pipeline import Console, ForeachBatch, Parquet, Sink, Sqlite
from holdfast.pipeline.sinks import newest_view, tentative_table
from holdfast.runtime.log.forked import ForkedLog
from holdfast.runtime.units.places import Life, need_folder, need_table
from holdfast.runtime.units.reading import ReadingUnit
from holdfast.runtime.units.superseded import (
    FOLDER,
    Marks,
    Part,
    accepts,
    parts_in,
)
from holdfast.runtime.units.tables import begin_writing, quoted, sqlite_rows, sqlite_type
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage.local import sync_folder
from holdfast.streams.unit import RunBatch

COLUMNS = ("_fork", "_batch", "_after", "_upto", "_missing", "_fidelity")
"""What a tentative row says besides its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tentative:
    """A batch of a fork, to be delivered."""

    part: Part
    missing: tuple[str, ...]
    """Exact units without whose output it was made."""
    fidelity: float | None
    """The predicted share of the input that it reflects."""

    @property
    def values(self) -> tuple[Any, ...]:
        """Those of `COLUMNS`."""
        part = self.part
        return (
            part.fork,
            part.number,
            part.after,
            part.upto,
            " ".join(self.missing),
            self.fidelity,
        )


class TentativeDelivery(ABC):
    """Takes the rows of one batch of a fork, unless exact results have come as far."""

    @abstractmethod
    def deliver(self, batch: Tentative, rows: Any) -> bool:
        """Whether it did; called again with the same rows after a failure."""


class ExactProgress:
    """How far exact results have come, as the records of the exact exporter say."""

    def __init__(self, log: ForkedLog) -> None:
        self._log = log

    def recorded(self) -> int:
        """End of its newest range, which it delivers or has delivered; -1 before any."""
        return self.at(self._log.newest_batch(self._log.exact))

    def at(self, batch: int) -> int:
        """End of one of its batches; -1: none."""
        return self._log.need_range(self._log.exact, batch).upto if batch >= 0 else -1


class TentativeExporter(ReadingUnit):
    """Reads what the fork's units publish, as every unit does, and delivers it apart."""

    def __init__(self, context: UnitContext, delivery: TentativeDelivery, schema: Any) -> None:
        super().__init__(context, schema)
        log = context.log
        if not isinstance(log, ForkedLog):
            raise TypeError("an exporter of a fork has a log of its own")
        self._log, self._delivery = log, delivery

    def run_batch(self, step: RunBatch) -> None:
        context, record, number = self.context, step.range, step.position.batch
        rows = self.rows(record)
        missing = self._log.missing(number)
        batch = Tentative(
            part=Part(
                fork=self._log.fork.number, number=number, after=record.after, upto=record.upto
            ),
            missing=missing,
            fidelity=self._log.predict(context.segment.name, missing),
        )
        context.crash.at("before-tentative", context.name, number)
        context.log.check_current(context.name, context.generation)
        delivered = self._delivery.deliver(batch, rows)
        context.crash.at("after-tentative", context.name, number)
        self.progress.add(rows_in=rows.num_rows, rows_out=rows.num_rows if delivered else 0)


class TentativeParquet(TentativeDelivery):
    """Files beside the exact ones, in a folder that readers of directories leave out."""

    def __init__(
        self, folder: Path, life: Life, progress: ExactProgress, new_id: Callable[[], str]
    ) -> None:
        self._folder, self._life, self._progress = folder, life, progress
        self._new_id = new_id

    def deliver(self, batch: Tentative, rows: Any) -> bool:
        part, own = batch.part, self._folder / FOLDER
        if rows.num_rows == 0 or part.after < self._progress.recorded():
            return False
        need_folder(self._folder, self._life)
        own.mkdir(exist_ok=True)
        temporary = own / f".holdfast-{self._new_id()}.tmp"
        try:
            with temporary.open("wb") as file:
                pq.write_table(_marked(rows, batch), file)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # delivered before; the same rows are in it
                os.link(temporary, own / part.file)
        finally:
            temporary.unlink(missing_ok=True)
        for other, path in parts_in(self._folder):
            if other.fork < part.fork:
                path.unlink(missing_ok=True)
        # Looked at afterwards: should the exact range come later still, its exporter sees the file.
        beyond = part.after >= self._progress.recorded()
        if not beyond:
            (own / part.file).unlink(missing_ok=True)
        sync_folder(own)
        return beyond


class TentativeSqlite(TentativeDelivery):
    """A table of tentative rows, and a view of the best known ones."""

    def __init__(
        self,
        path: Path,
        table: str,
        life: Life,
        boundary: Boundary,
        schema: Any,
        progress: ExactProgress,
    ) -> None:
        self._path, self._table, self._life, self._progress = path, table, life, progress
        key = boundary.upsert_key if boundary.mode == "upsert" else ()
        self._key = [schema.names.index(name) for name in key]
        self._own = tentative_table(table)
        names = (*schema.names, *COLUMNS)
        marks = ", ".join("?" for _ in names)
        self._insert = f'INSERT INTO "{self._own}" ({quoted(names)}) VALUES ({marks})'  # noqa: S608
        columns = [f"{quoted([item.name])} {sqlite_type(item.type)}" for item in schema]
        kinds = ("INTEGER", "INTEGER", "INTEGER", "INTEGER", "TEXT", "REAL")
        columns += [f"{name} {kind}" for name, kind in zip(COLUMNS, kinds, strict=True)]
        self._make = (
            f'CREATE TABLE IF NOT EXISTS "{self._own}" ({", ".join(columns)})',
            f'CREATE VIEW IF NOT EXISTS "{newest_view(table)}" AS '
            + _newest(table, schema.names, key),
        )

    def deliver(self, batch: Tentative, rows: Any) -> bool:
        part = batch.part
        values = [(*row, *batch.values) for row in sqlite_rows(rows, self._key)]
        with closing(begin_writing(self._path)) as base:
            # The exact exporter needs the lock that is held here, so what is seen stays so.
            if part.after < self._progress.at(need_table(base, self._table, self._life)):
                return False
            for statement in self._make:
                base.execute(statement)
            base.execute(
                f'DELETE FROM "{self._own}" WHERE _fork < ? OR (_fork = ? AND _batch = ?)',  # noqa: S608
                (part.fork, part.fork, part.number),
            )
            base.executemany(self._insert, values)
            base.commit()
        return True


class TentativeConsole(TentativeDelivery):
    """Prints rows, and what they lack."""

    def __init__(self, sink: str, limit: int, progress: ExactProgress) -> None:
        self._sink, self._limit, self._progress = sink, limit, progress

    def deliver(self, batch: Tentative, rows: Any) -> bool:
        if rows.num_rows == 0 or batch.part.after < self._progress.recorded():
            return False
        lack = f", without {', '.join(batch.missing)}" if batch.missing else ""
        head = f"{self._sink} batch {batch.part.number}: {rows.num_rows} tentative rows{lack}"
        lines = [head, *map(str, rows.slice(0, self._limit).to_pylist())]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        return True


class TentativeFunction(TentativeDelivery):
    """Calls a function that takes `tentative`; at least once."""

    def __init__(
        self,
        life: Life,
        function: Callable[..., None],
        make_frame: Callable[[Any], Any],
        marks: Marks,
        progress: ExactProgress,
    ) -> None:
        self._life, self._function, self._make_frame = life, function, make_frame
        self._marks, self._progress = marks, progress

    def deliver(self, batch: Tentative, rows: Any) -> bool:
        if not accepts(self._function, "tentative"):
            return False
        part = batch.part
        delivery = f"{self._life.sink}-{self._life.id}-fork{part.fork}-{part.number}"
        self._marks.put(part, delivery)
        if part.after < self._progress.recorded():
            self._marks.forget([part.mark])
            return False
        told = {
            "tentative": dict(zip(COLUMNS, batch.values, strict=True)),
            "supersedes": tuple(self._marks.before(-1, fork=part.fork).values()),
        }
        more = {name: value for name, value in told.items() if accepts(self._function, name)}
        self._function(self._make_frame(rows), delivery, **more)
        self._marks.forget(self._marks.before(-1, fork=part.fork))
        return True


def make_tentative(
    sink: Sink,
    *,
    context: UnitContext,
    boundary: Boundary,
    schema: Any,
    make_frame: Callable[[Any], Any],
) -> TentativeDelivery:
    """The tentative delivery of a sink; relative paths are taken from the run directory."""
    log, run_dir, name = context.log, Path(context.log.root), context.segment.name
    if not isinstance(log, ForkedLog):
        raise TypeError("an exporter of a fork has a log of its own")
    progress = ExactProgress(log)
    life = Life(sink=name, id=log.life(log.exact))
    match sink:
        case Parquet(path=path):
            return TentativeParquet(run_dir / path, life, progress, context.new_id)
        case Sqlite(path=path, table=table):
            return TentativeSqlite(run_dir / path, table, life, boundary, schema, progress)
        case Console(limit=limit):
            return TentativeConsole(name, limit, progress)
        case ForeachBatch(function=function):
            marks = Marks(log.store, log.exact)
            return TentativeFunction(life, function, make_frame, marks, progress)


def _marked(rows: Any, batch: Tentative) -> Any:
    """Rows with what they lack."""
    kinds: tuple[Any, ...] = (*[pa.int64()] * 4, pa.string(), pa.float64())
    for name, value, kind in zip(COLUMNS, batch.values, kinds, strict=True):
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, kind))
    return rows


def _newest(table: str, names: list[str], key: tuple[str, ...]) -> str:
    """Exact rows, and tentative ones for what comes after them; of an upsert, the newest row."""
    own, columns = tentative_table(table), quoted(names)
    exact = f'SELECT {columns}, 0 AS _tentative FROM "{table}"'  # noqa: S608 - checked names
    later = f'SELECT {columns}, 1 AS _tentative FROM "{own}"'  # noqa: S608 - checked names
    if not key:
        return f"{exact} UNION ALL {later}"
    there = " AND ".join(f'b.{quoted([name])} IS "{table}".{quoted([name])}' for name in key)
    newer = " AND ".join(f"b.{quoted([name])} IS a.{quoted([name])}" for name in key)
    return (
        f'{exact} WHERE NOT EXISTS (SELECT 1 FROM "{own}" b WHERE {there}) UNION ALL '  # noqa: S608
        f'{later} a WHERE NOT EXISTS (SELECT 1 FROM "{own}" b WHERE b.rowid > a.rowid AND {newer})'
    )
