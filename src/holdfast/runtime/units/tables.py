"""Rows in Sqlite: names, types, values, and the one way to write."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

NOT_A_NUMBER = "NaN"
"""What an upsert's key is in Sqlite if it is a float that is no number."""


def begin_writing(path: Path) -> sqlite3.Connection:
    """A connection that holds the write lock; closed without a commit it changes nothing."""
    base = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        base.execute("BEGIN IMMEDIATE")
    except BaseException:
        base.close()
        raise
    return base


def sqlite_rows(rows: Any, key: Collection[int]) -> list[tuple[Any, ...]]:
    """Rows as Sqlite takes them; `key` are the columns of an upsert's key."""
    columns = [
        [_sqlite_value(item, key=index in key) for item in column.to_pylist()]
        for index, column in enumerate(rows.columns)
    ]
    return list(zip(*columns, strict=True))


def quoted(names: Iterable[str]) -> str:
    return ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)


def sqlite_type(kind: Any) -> str:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) else "TEXT"


def _sqlite_value(value: Any, *, key: bool) -> Any:
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and math.isnan(value):
        # Sqlite knows no NaN and would store NULL. That is another key, so there it is a text.
        return NOT_A_NUMBER if key else None
    return value
