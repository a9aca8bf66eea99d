"""Where results go.

A sink is a frozen description; an exporter unit delivers to it. Parquet and Sqlite get every slice
exactly once; a function gets an id by which it can tell a repeated delivery.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.errors import BadInputError

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Parquet:
    """A directory of Parquet files, one per delivered slice, named by its number."""

    path: str
    """Relative paths are taken from the run directory."""


@dataclass(frozen=True, slots=True)
class Sqlite:
    """A table of an SQLite database; upserts replace the row with the same key."""

    path: str
    """Relative paths are taken from the run directory."""
    table: str = "results"

    def __post_init__(self) -> None:
        if not _TABLE.fullmatch(self.table):
            raise BadInputError(f"{self.table!r} cannot be a table name", where="Sqlite")


@dataclass(frozen=True, slots=True)
class Console:
    """Prints the rows of every slice; meant for trying things out."""

    limit: int = 20
    """How many rows of one slice are shown."""


@dataclass(frozen=True, slots=True)
class ForeachBatch:
    """Calls `function(dataframe, delivery_id)` for every slice, at least once.

    After a failure the last slice may be delivered again, with the same id and the same rows.
    """

    function: Callable[[Any, str], None]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadInputError(
                "needs a function(dataframe, delivery_id)",
                where="ForeachBatch",
            )


Sink: TypeAlias = Parquet | Sqlite | Console | ForeachBatch
