"""Where results go.

A sink is a frozen description; an exporter unit delivers to it. Parquet and Sqlite get every slice
exactly once; a function gets an id by which it can tell a repeated delivery.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.errors import BadInputError

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PROGRESS_TABLE = "holdfast_progress"
"""Holds, per table of an Sqlite file, whose rows it has and the last batch of them."""


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
        name = self.table.lower()
        if name == PROGRESS_TABLE or name.startswith("sqlite_"):
            raise BadInputError(f"the table name {self.table!r} is taken", where="Sqlite")


@dataclass(frozen=True, slots=True)
class Console:
    """Prints the rows of every slice; meant for trying things out."""

    limit: int = 20
    """How many rows of one slice are shown."""


@dataclass(frozen=True, slots=True)
class ForeachBatch:
    """Calls `function(dataframe, delivery_id)` for every slice, at least once.

    After a failure the last slice may be delivered again, with the same id and the same rows.
    The id names the sink, its life (another run or a reset sink has another) and the batch.
    """

    function: Callable[[Any, str], None]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadInputError(
                "needs a function(dataframe, delivery_id)",
                where="ForeachBatch",
            )


Sink: TypeAlias = Parquet | Sqlite | Console | ForeachBatch


def check_apart(
    sinks: Iterable[tuple[str, Sink]], root: str | Path, *, taken: Iterable[Path] = ()
) -> None:
    """Refuse two sinks that write into one place; `root` is where relative paths begin.

    `taken` are places of the run itself.
    """
    for problem in overlaps(sinks, root, taken=taken):
        raise problem


def overlaps(
    sinks: Iterable[tuple[str, Sink]], root: str | Path, *, taken: Iterable[Path] = ()
) -> Iterator[BadInputError]:
    """Every sink that writes where another one, or the run, does.

    Two tables of one Sqlite file are two places. A directory of Parquet files is read as a whole,
    so nothing else may be delivered below it.
    """
    places = [
        (name, sink, Path(root, sink.path).resolve())
        for name, sink in sinks
        if isinstance(sink, Parquet | Sqlite)
    ]
    for own in [path.resolve() for path in taken]:
        for name, sink, place in places:
            if own == place or own in place.parents or _below(sink, place, own):
                yield BadInputError(
                    f"its path {sink.path!r} and the run's own {own.name!r} overlap",
                    where=name,
                    hint="give it a directory of its own, such as 'out'",
                )
    for (one, first, here), (other, second, there) in combinations(places, 2):
        if isinstance(first, Sqlite) and isinstance(second, Sqlite):
            if here == there and not _tables(first.table).isdisjoint(_tables(second.table)):
                same = first.table.lower() == second.table.lower()
                yield BadInputError(
                    f"writes to the same table as {one!r}"
                    if same
                    else f"its table {second.table!r} and {first.table!r} of {one!r} get in each "
                    "other's way, as tentative results have tables of their own",
                    where=other,
                    hint="give one of them another table or file",
                )
        elif here == there or _below(first, here, there) or _below(second, there, here):
            yield BadInputError(
                f"its path {second.path!r} and that of {one!r}, {first.path!r}, overlap",
                where=other,
                hint="give each sink a directory of its own",
            )


def tentative_table(table: str) -> str:
    """Where the tentative results are, if there are any."""
    return f"{table}_tentative"


def newest_view(table: str) -> str:
    """What shows these and the exact ones."""
    return f"{table}_newest"


def _tables(table: str) -> set[str]:
    """All names that a sink may use in its file, which knows no case."""
    return {name.lower() for name in (table, tentative_table(table), newest_view(table))}


def _below(sink: Parquet | Sqlite, place: Path, other: Path) -> bool:
    return isinstance(sink, Parquet) and place in other.parents
