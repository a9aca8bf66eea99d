"""Whose rows a sink's place holds: a directory of Parquet files, or a table of an Sqlite file.

Problem: every run numbers its batches from 0, and so does a sink after `--reset`. If two of them
wrote into one place, batch 7 of the second would pass for batch 7 of the first and be skipped, or
replace it, and what both deliver would be there twice. So each *life* of a sink has an id, made
with its first exporter and gone with its records, and a place is marked with the life whose rows it
holds. A place with rows of another life is refused; an empty one is taken over. What its owner
wants done with old results only the owner can know.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.deployment import UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline import Parquet, Pipeline, Sqlite
from holdfast.pipeline.sinks import PROGRESS_TABLE, check_apart
from holdfast.rundir.contents import own_places
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.storage.local import LocalStorage

MARKER = "_holdfast.json"
"""In a directory of Parquet files; readers of such directories leave out names that begin so."""
PART = re.compile(r"part-\d+\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of a sink."""

    sink: str
    id: str | None
    """None: it has not begun, so that whatever a place holds is of another."""

    def refuse(self, place: str) -> BadInputError:
        return BadInputError(
            f"{place} holds results of another run, or of this one before a reset",
            where=self.sink,
            hint="move or delete them, or give the sink another path",
        )


def check_sinks(pipeline: Pipeline, run_dir: Path, fresh: Collection[str] = ()) -> None:
    """Refuse sinks that would mix their rows with others; `fresh` ones are to be reset."""
    sinks = [(item.name, item.sink) for item in pipeline.sinks if item.sink]
    check_apart(sinks, run_dir, taken=own_places(run_dir))
    log = SliceLog(run_dir)
    for operator in pipeline.sinks:
        carriers = log.carriers(operator.name)
        unit = carriers[0].unit if carriers else str(UnitId(segment=operator.name))
        known = None if operator.name in fresh else log.known_life(unit)
        resumed = operator.name not in fresh and log.newest_batch(unit) >= 0
        life = Life(sink=operator.name, id=known)
        match operator.sink:
            case Parquet(path=path):
                check_folder(run_dir / path, life, resumed=resumed)
            case Sqlite(path=path, table=table) if (run_dir / path).is_file():
                try:
                    with closing(_read_only(run_dir / path)) as base:
                        table_owner(base, table, life)
                except sqlite3.DatabaseError as error:
                    raise BadInputError(
                        f"{path} cannot be used: {error}", where=operator.name
                    ) from error


def check_folder(folder: Path, life: Life, *, resumed: bool) -> bool:
    """Whether a directory is marked as this life's; raises if it holds rows of another.

    A sink that has delivered before may take a directory without a mark for its own.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is not a directory", where=life.sink)
    owner = _marked(folder)
    if owner is not None and owner == life.id:
        return True
    if not (owner is None and resumed) and _has_parts(folder):
        raise life.refuse(str(folder))
    return False


def take_folder(folder: Path, life: Life, *, resumed: bool) -> None:
    """Mark a directory as this life's."""
    folder.mkdir(parents=True, exist_ok=True)
    if check_folder(folder, life, resumed=resumed):
        return
    if _marked(folder) is not None:
        (folder / MARKER).unlink(missing_ok=True)  # of a life that left nothing behind
    mark = json.dumps({"sink": life.sink, "run": life.id}).encode()
    LocalStorage(folder).put_if_absent(MARKER, mark)
    need_folder(folder, life)


def need_folder(folder: Path, life: Life) -> None:
    """Raise if another life has taken the directory."""
    if _marked(folder) != life.id:
        raise life.refuse(str(folder))


def need_table(base: sqlite3.Connection, table: str, life: Life) -> int:
    """The last batch that a table holds, -1: none; raises if another life has taken it."""
    found = base.execute(
        f"SELECT run, batch FROM {PROGRESS_TABLE} WHERE table_name = ?",  # noqa: S608 - a constant
        (table,),
    ).fetchone()
    if found is None or found[0] != life.id:
        raise life.refuse(f"table {table!r}")
    return int(found[1])


def table_owner(base: sqlite3.Connection, table: str, life: Life) -> str | None:
    """The life a table is marked with, None if it is free; raises if it has rows of another."""
    columns = [row[1] for row in base.execute(f"PRAGMA table_info({PROGRESS_TABLE})")]
    if not columns:
        return None
    if "run" not in columns:
        raise BadInputError(
            f"its {PROGRESS_TABLE} does not say of which run its rows are",
            where=life.sink,
            hint="it was written by an earlier version: give the sink another path",
        )
    row = base.execute(
        f"SELECT run FROM {PROGRESS_TABLE} WHERE table_name = ?",  # noqa: S608 - a constant
        (table,),
    ).fetchone()
    if row is None or row[0] == life.id:
        return life.id if row else None
    if _has_rows(base, table):
        raise life.refuse(f"table {table!r}")
    return None


def take_table(base: sqlite3.Connection, table: str, life: Life) -> None:
    """Mark a table as this life's; the caller holds the write lock."""
    base.execute(
        f"CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} "
        "(table_name TEXT PRIMARY KEY COLLATE NOCASE, sink TEXT, run TEXT, batch INTEGER)"
    )
    if table_owner(base, table, life) is None:
        base.execute(
            f"INSERT OR REPLACE INTO {PROGRESS_TABLE} VALUES (?, ?, ?, -1)",  # noqa: S608
            (table, life.sink, life.id),
        )


def _marked(folder: Path) -> str | None:
    stored = LocalStorage(folder).get(MARKER)
    if stored is None:
        return None
    try:
        return str(json.loads(stored)["run"])
    except (ValueError, KeyError, TypeError):
        return ""


def _has_parts(folder: Path) -> bool:
    return folder.is_dir() and any(PART.fullmatch(path.name) for path in folder.iterdir())


def _has_rows(base: sqlite3.Connection, table: str) -> bool:
    known = base.execute(
        "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE",
        (table,),
    ).fetchone()
    if known is None:
        return False
    return base.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is not None  # noqa: S608


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
