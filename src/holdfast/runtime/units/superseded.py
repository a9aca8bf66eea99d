"""What was delivered tentatively, and goes as the exact results come.

A tentative batch holds the rows of epochs (after, upto]. It is superseded once exact results go
beyond `after`: a batch that lies across goes as a whole, so rows are never there twice.

Sqlite checks and removes in the transaction that holds the exact rows. Files and functions have
none; there the order does it. A fork's exporter puts its file or mark first and then looks how far
exact ranges are recorded; the exact exporter records its range first and then looks for files and
marks. Whoever comes second sees the other.
"""

from __future__ import annotations

import inspect
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.pipeline.sinks import tentative_table
from holdfast.rundir.layout import unit_folder
from holdfast.storage import Storage
from holdfast.storage.local import sync_folder

FOLDER = "_tentative"
"""Among a sink's Parquet files; readers of such directories leave out names that begin so."""
_PART = re.compile(r"part-(\d+)-(\d+)-(-?\d+)-(\d+)\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A batch of a fork as a sink has it."""

    fork: int
    number: int
    after: int
    upto: int

    @property
    def file(self) -> str:
        return f"part-{self.fork:06d}-{self.number:010d}-{self.after}-{self.upto}.parquet"

    @property
    def mark(self) -> str:
        return self.file.removesuffix(".parquet")


def parts_in(folder: Path) -> Iterator[tuple[Part, Path]]:
    """The tentative files of a sink's directory."""
    tentative = folder / FOLDER
    if tentative.is_dir():
        for path in tentative.iterdir():
            part = _part(path.name)
            if part is not None:
                yield part, path


def sweep_files(folder: Path, upto: int) -> None:
    """Remove the tentative files that exact results up to an epoch supersede."""
    removed = [path for part, path in parts_in(folder) if part.after < upto]
    for path in removed:
        path.unlink(missing_ok=True)
    if removed:
        sync_folder(folder / FOLDER)


def sweep_rows(base: sqlite3.Connection, table: str, upto: int) -> None:
    """Remove the tentative rows that exact ones up to an epoch supersede; in the same transaction
    as these.
    """
    name = tentative_table(table)
    known = base.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", (name,)
    ).fetchone()
    if known is not None:
        base.execute(f'DELETE FROM "{name}" WHERE _after < ?', (upto,))  # noqa: S608 - checked


class Marks:
    """Which tentative batches a function may have been called with; kept with the exact sink."""

    def __init__(self, store: Storage, exact: str) -> None:
        """Args:
        store: the run's.
        exact: the exact exporter.
        """
        self._store, self._folder = store, f"{unit_folder(exact)}/tentative"

    def put(self, part: Part, delivery: str) -> None:
        self._store.put_if_absent(f"{self._folder}/{part.mark}", delivery.encode())

    def before(self, upto: int, fork: int | None = None) -> dict[str, str]:
        """Marks of batches that begin before an epoch, or that are of forks before one, each with
        its delivery id.
        """
        found: dict[str, str] = {}
        for name in self._store.names(self._folder):
            part = _part(f"{name}.parquet")
            if part is None or not (part.after < upto or (fork is not None and part.fork < fork)):
                continue
            stored = self._store.get(f"{self._folder}/{name}")
            if stored is not None:
                found[name] = stored.decode()
        return found

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._store.delete(f"{self._folder}/{name}")


def accepts(function: Callable[..., None], name: str) -> bool:
    """Whether a function can be called with a keyword."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if name in found and found[name].kind in by_name:
        return True
    return any(item.kind is inspect.Parameter.VAR_KEYWORD for item in found.values())


def _part(name: str) -> Part | None:
    found = _PART.fullmatch(name)
    if found is None:
        return None
    fork, number, after, upto = map(int, found.groups())
    return Part(fork=fork, number=number, after=after, upto=upto)
