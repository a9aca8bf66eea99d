"""Exporter units: they deliver the result log to the world.

An epoch is delivered when all shards have published it. Progress commits with the data: Parquet
files are named by the batch and created once; Sqlite notes the batch in the transaction that holds
its rows; a function gets an id by which it can tell a redo.

A process may sleep at any point and wake up when others have delivered much more. So whatever takes
time comes first, and the last step before rows become visible is to look whether this generation is
still the current one and the batch not done. Between that look and a function's own effect lies all
that cannot be closed from here.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from holdfast.deployment import Boundary
from holdfast.errors import CorruptLogError
from holdfast.pipeline import Console, ForeachBatch, Parquet, Sink, Sqlite
from holdfast.pipeline.sinks import PROGRESS_TABLE
from holdfast.runtime.units.places import Life, need_folder, need_table, take_folder, take_table
from holdfast.runtime.units.reading import ReadingUnit
from holdfast.runtime.units.replicas import mark_delivered
from holdfast.runtime.units.superseded import Marks, accepts, sweep_files, sweep_rows
from holdfast.runtime.units.tables import begin_writing, quoted, sqlite_rows, sqlite_type
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage.identity import new_id
from holdfast.storage.local import sync_folder
from holdfast.streams.records import Range
from holdfast.streams.unit import Ended, RunBatch

TEMPORARY = ".holdfast-*.tmp"
"""Files of ours in a sink's folder that are not yet what they will be."""
FOLLOWERS_TEMPORARY = ".holdfast~{replica}-*.tmp"
"""Those of a follower, which its leader must not take for leftovers."""


class Delivery(ABC):
    """Takes the rows of one batch."""

    @abstractmethod
    def prepared(
        self, number: int, rows: Any, upto: int = -1
    ) -> AbstractContextManager[Callable[[], None]]:
        """Do what takes time and nobody sees; the function it gives makes batch `number` visible.

        Called again with the same rows after a failure. What was delivered tentatively of epochs up
        to `upto` goes with it.
        """


class ExporterUnit(ReadingUnit):
    """Reads a boundary as every unit does, and delivers instead of publishing."""

    def __init__(self, context: UnitContext, delivery: Delivery, schema: Any) -> None:
        super().__init__(context, schema)
        self._delivery = delivery

    def run_batch(self, step: RunBatch) -> None:
        context, record, number = self.context, step.range, step.position.batch
        rows = self._read(record)
        with self._delivery.prepared(number, rows, record.upto) as deliver:
            if not context.lead.give_way(number) and self._is_due(number):
                deliver()
        if context.lead.shared:
            context.lead.settle(mine=mark_delivered(context, number))
        self.progress.add(rows_in=rows.num_rows, rows_out=rows.num_rows)

    def _read(self, record: Range) -> Any:
        """The rows of a batch; slices that are damaged are made again."""
        heeded = -1
        while True:
            try:
                return self.rows(record, heed=heeded > record.after)
            except CorruptLogError:
                heed = self.context.healer.heal(
                    self.context.inputs,
                    record.after,
                    record.upto,
                    heeded=heeded,
                    tell=lambda doing: self.progress.tell(state="starting", doing=doing),
                )
                if heed is None:
                    raise
                heeded = max(heeded, heed)
                self.progress.tell(state="running", doing=None)

    def _is_due(self, number: int) -> bool:
        """Whether nobody has delivered the batch: the next range is put only when it is done.

        Raises if a newer generation has taken over, as that one delivers it.
        """
        context = self.context
        context.log.check_current(context.name, context.generation, context.replica)
        sealed = context.log.run(self.steps.seal_of(context.name))
        if sealed is not None:
            raise context.log.ended(context.name, Ended(why="sealed", change=sealed.change))
        return context.log.range(context.name, number + 1) is None


class ParquetDelivery(Delivery):
    """One file per batch that has rows; upserts: the last row of the newest file counts."""

    def __init__(
        self,
        folder: Path,
        life: Life,
        *,
        resumed: bool,
        replica: int = 0,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self._folder, self._life, self._new_id = folder, life, new_id
        self._temporary = FOLLOWERS_TEMPORARY.format(replica=replica) if replica else TEMPORARY
        take_folder(folder, life, resumed=resumed)
        for path in folder.glob(self._temporary):
            path.unlink(missing_ok=True)  # of a generation that was killed

    @contextmanager
    def prepared(self, number: int, rows: Any, upto: int = -1) -> Iterator[Callable[[], None]]:
        if rows.num_rows == 0:
            yield lambda: sweep_files(self._folder, upto)
            return
        temporary = self._folder / self._temporary.replace("*", self._new_id())
        try:
            with temporary.open("wb") as file:
                pq.write_table(rows, file)
                file.flush()
                os.fsync(file.fileno())
            yield lambda: self._show(temporary, number, upto)
        finally:
            temporary.unlink(missing_ok=True)

    def _show(self, temporary: Path, number: int, upto: int) -> None:
        need_folder(self._folder, self._life)
        with suppress(FileExistsError):  # delivered before; the same rows are in it
            os.link(temporary, self._folder / f"part-{number:010d}.parquet")
        sync_folder(self._folder)
        sweep_files(self._folder, upto)


class SqliteDelivery(Delivery):
    """Rows and the number of their batch in one transaction."""

    def __init__(self, path: Path, table: str, life: Life, boundary: Boundary, schema: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._table, self._life = path, table, life
        key = boundary.upsert_key if boundary.mode == "upsert" else ()
        self._key = [schema.names.index(name) for name in key]
        marks = ", ".join("?" for _ in schema)
        names = quoted(schema.names)
        self._insert = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608 - quoted
        # IS finds NULL as well, by the index too; a primary key would take each for another.
        matches = " AND ".join(f"{quoted([name])} IS ?" for name in key)
        self._delete = f'DELETE FROM "{table}" WHERE {matches}'  # noqa: S608 - a checked name
        columns = ", ".join(f"{quoted([item.name])} {sqlite_type(item.type)}" for item in schema)
        with closing(self._begin()) as base:
            take_table(base, table, life)
            base.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({columns})')
            if key:
                # Tables and indices share names, hence the space, which no table of a sink has.
                # Not unique: an emptied table may get another key, a user's own have twins.
                index = quoted([f"{table} by {', '.join(key)}"])
                base.execute(f'CREATE INDEX IF NOT EXISTS {index} ON "{table}" ({quoted(key)})')
            base.commit()

    @contextmanager
    def prepared(self, number: int, rows: Any, upto: int = -1) -> Iterator[Callable[[], None]]:
        values = sqlite_rows(rows, self._key)
        if self._key:
            values = list({self._key_of(row): row for row in values}.values())
        yield lambda: self._write(number, values, upto)

    def _key_of(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[index] for index in self._key)

    def _write(self, number: int, values: list[tuple[Any, ...]], upto: int) -> None:
        with closing(self._begin()) as base:
            if need_table(base, self._table, self._life) >= number:
                return
            if self._key:
                base.executemany(self._delete, map(self._key_of, values))
            base.executemany(self._insert, values)
            sweep_rows(base, self._table, upto)
            base.execute(
                f"UPDATE {PROGRESS_TABLE} SET batch = ? WHERE table_name = ?",  # noqa: S608
                (number, self._table),
            )
            base.commit()

    def _begin(self) -> sqlite3.Connection:
        """A connection that holds the write lock; closed without a commit it changes nothing."""
        return begin_writing(self._path)


class ConsoleDelivery(Delivery):
    """Prints the first rows of every batch that has some."""

    def __init__(self, sink: str, limit: int) -> None:
        self._sink, self._limit = sink, limit

    @contextmanager
    def prepared(
        self,
        number: int,
        rows: Any,
        upto: int = -1,  # noqa: ARG002 - what was printed stays
    ) -> Iterator[Callable[[], None]]:
        shown = rows.slice(0, self._limit).to_pylist()
        lines = [f"{self._sink} batch {number}: {rows.num_rows} rows", *map(str, shown)]

        def say() -> None:
            if rows.num_rows:
                sys.stdout.write("\n".join(lines) + "\n")
                sys.stdout.flush()

        yield say


class FunctionDelivery(Delivery):
    """Calls a function with a DataFrame and an id; at least once."""

    def __init__(
        self,
        life: Life,
        function: Callable[..., None],
        make_frame: Callable[[Any], Any],
        marks: Marks | None = None,
    ) -> None:
        self._life, self._function, self._make_frame = life, function, make_frame
        self._marks = marks

    @contextmanager
    def prepared(self, number: int, rows: Any, upto: int = -1) -> Iterator[Callable[[], None]]:
        frame = self._make_frame(rows)
        yield lambda: self._call(frame, number, upto)

    def _call(self, frame: Any, number: int, upto: int) -> None:
        marks = self._marks
        replaced = marks.before(upto) if marks is not None else {}
        told = {"tentative": None, "supersedes": tuple(replaced.values())}
        more = {name: value for name, value in told.items() if accepts(self._function, name)}
        self._function(frame, f"{self._life.sink}-{self._life.id}-{number}", **more)
        if marks is not None:
            marks.forget(replaced)


def make_delivery(
    sink: Sink,
    *,
    context: UnitContext,
    boundary: Boundary,
    schema: Any,
    make_frame: Callable[[Any], Any],
) -> Delivery:
    """The delivery of a sink; relative paths are taken from the run directory."""
    log, run_dir, name = context.log, Path(context.log.root), context.segment.name
    life = Life(sink=name, id=log.life(context.name))
    match sink:
        case Parquet(path=path):
            resumed = log.newest_batch(context.name) >= 0
            return ParquetDelivery(
                run_dir / path,
                life,
                resumed=resumed,
                replica=context.replica,
                new_id=context.new_id,
            )
        case Sqlite(path=path, table=table):
            return SqliteDelivery(run_dir / path, table, life, boundary, schema)
        case Console(limit=limit):
            return ConsoleDelivery(name, limit)
        case ForeachBatch(function=function):
            marks = Marks(log.store, context.name)
            return FunctionDelivery(life, function, make_frame, marks)
