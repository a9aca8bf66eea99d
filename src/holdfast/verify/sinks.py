"""What a sink holds, read with nothing but pyarrow and sqlite3."""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from holdfast.errors import BadInputError
from holdfast.verify.claims import ParquetFolder, Row, SqliteTable

_PART = re.compile(r"part-(\d+)\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContent:
    """Rows as they were delivered, oldest first."""

    rows: tuple[Row, ...]
    batch: int | None
    """The last batch that certainly was delivered; None: the sink does not say."""


def read_sink(
    run_dir: Path, name: str, place: ParquetFolder | SqliteTable | None, like: Sequence[Row] = ()
) -> SinkContent:
    """The content of a sink; values are read as the types of the rows in `like`."""
    match place:
        case ParquetFolder(path=path):
            _check_owner(run_dir, name, run_dir / path, _parquet_owner(run_dir / path))
            return _read_parquet(run_dir / path)
        case SqliteTable(path=path, table=table):
            content, owner = _read_sqlite(run_dir / path, table, like)
            _check_owner(run_dir, name, run_dir / path, owner)
            return content
    raise BadInputError(
        "keeps nothing to compare",
        where=name,
        hint="verify sinks of the kinds Parquet and Sqlite",
    )


def _check_owner(run_dir: Path, name: str, place: Path, owner: str | None) -> None:
    """Rows of another run would be taken for wrong ones of this."""
    life = run_dir / "units" / f"{name}.0#0" / "life"
    if owner is not None and life.is_file() and life.read_text(encoding="utf-8") != owner:
        raise BadInputError("holds the results of another run", where=str(place))


def _parquet_owner(folder: Path) -> str | None:
    path = folder / "_holdfast.json"
    return str(json.loads(path.read_bytes())["run"]) if path.is_file() else None


def _read_parquet(folder: Path) -> SinkContent:
    parts = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _PART.fullmatch(path.name)
        if match:
            parts[int(match[1])] = path
    rows = [row for number in sorted(parts) for row in pq.read_table(parts[number]).to_pylist()]
    return SinkContent(rows=tuple(rows), batch=max(parts, default=None))


def _read_sqlite(path: Path, table: str, like: Sequence[Row]) -> tuple[SinkContent, str | None]:
    """What a table holds, and the life of the sink that delivered it."""
    if not path.is_file():
        return SinkContent(rows=(), batch=None), None
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as base:
        base.row_factory = sqlite3.Row
        try:
            rows = [dict(row) for row in base.execute(f'SELECT * FROM "{table}"')]  # noqa: S608
            done = base.execute(
                "SELECT batch, run FROM holdfast_progress WHERE table_name = ?", (table,)
            ).fetchone()
        except sqlite3.OperationalError as error:
            raise BadInputError(f"{error}", where=str(path)) from error
    times = {column for row in like[:1] for column, value in row.items() if _is_time(value)}
    floats = {column for row in like for column, value in row.items() if isinstance(value, float)}
    parsed = [
        {
            column: _time(value) if column in times else _number(value, column in floats)
            for column, value in row.items()
        }
        for row in rows
    ]
    batch, owner = done or (None, None)
    return SinkContent(rows=tuple(parsed), batch=batch), owner


def _number(value: Any, is_float: bool) -> Any:
    """A key that is no number is a text in Sqlite, which would take it for NULL."""
    return float(value) if is_float and value == "NaN" else value


def _is_time(value: Any) -> bool:
    return isinstance(value, dt.datetime)


def _time(value: Any) -> Any:
    return dt.datetime.fromisoformat(value) if isinstance(value, str) else value
