"""Tentative rows that exact ones have replaced, and that are there all the same.

A tentative batch of epochs (after, upto] goes when exact results go beyond `after`. So whatever
begins before the end of what was certainly delivered is left over.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from holdfast.verify.claims import ParquetFolder, SqliteTable

_PART = re.compile(r"part-\d+-\d+-(-?\d+)-\d+\.parquet")


def left_over(run_dir: Path, place: ParquetFolder | SqliteTable | None, upto: int) -> list[str]:
    """Tentative rows of a sink that begin before an epoch, in words."""
    match place:
        case ParquetFolder(path=path):
            return _in_files(run_dir / path / "_tentative", upto)
        case SqliteTable(path=path, table=table):
            return _in_table(run_dir / path, f"{table}_tentative", upto)
        case None:
            return []


def _in_files(folder: Path, upto: int) -> list[str]:
    found: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _PART.fullmatch(path.name)
        if match and int(match[1]) < upto:
            rows = pq.read_metadata(path).num_rows
            found += [f"tentative row of {path.name}"] * rows
    return found


def _in_table(path: Path, table: str, upto: int) -> list[str]:
    if not path.is_file():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as base:
        known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        if base.execute(known, (table,)).fetchone() is None:
            return []
        rows = base.execute(
            f'SELECT _fork, _batch FROM "{table}" WHERE _after < ?',  # noqa: S608 - a checked name
            (upto,),
        ).fetchall()
    return [f"tentative row of fork {fork}, batch {batch}, in {table}" for fork, batch in rows]
