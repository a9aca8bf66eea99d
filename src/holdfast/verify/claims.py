"""What a run is held to, in the checker's own words.

The checker knows no pipeline: whoever asks for a check says what the sources make, where the sinks
are and what they must hold. `holdfast.pipeline.claims` says it of an application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = dict[str, Any]
ExpectedRows: TypeAlias = Callable[[Mapping[str, list[Row]]], Sequence[Row]]
"""Rows by source -> the rows a sink must hold once everything has closed."""


class MadeRows(Protocol):
    """The rows that one shard of a source makes in one epoch, whenever it is asked."""

    def __call__(self, epoch: int, *, epoch_s: float, shard: int, shards: int) -> Sequence[Row]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceClaim:
    """One source."""

    name: str
    made: MadeRows | None = None
    """None: its rows cannot be made again, so what it published is taken as its input."""
    parts: int | None = None
    """Of one whose shards may change: the parts over which its rows are dealt out, whatever the
    number of shards; a unit reads those that its change says. None: every shard is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFolder:
    """Files `part-NUMBER.parquet`, one per batch with rows; relative to the run directory."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteTable:
    """A table beside `holdfast_progress`; relative to the run directory."""

    path: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkClaim:
    """One sink that is to be compared."""

    name: str
    place: ParquetFolder | SqliteTable | None
    """None: it keeps nothing that could be compared."""
    expected: ExpectedRows
    closes: str | None = None
    """Column of the result that the watermark must have passed before a row is due; None: every row
    is due as soon as its input is delivered."""
    key: tuple[str, ...] = ()
    """Columns that identify a row of which newer versions replace older ones; empty: rows are only
    ever added."""
    reads: str = ""
    """The operator whose output it delivers."""
    upstream: frozenset[str] = frozenset()
    """Every operator whose output it reads, directly or not, and itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """All that one run is held to."""

    pipeline: str
    epoch_s: float
    """Length of an epoch, seconds, unless the run says otherwise."""
    sources: tuple[SourceClaim, ...]
    sinks: tuple[SinkClaim, ...]
    """Those with an expected content."""
