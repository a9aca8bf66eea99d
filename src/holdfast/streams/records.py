"""The records of the second edition: what is created once, never changed, and decides everything.

A unit has one sequence of *ranges*, in which a *turn* may take a number, and one of *slices*, in
which a *seal* may take one: so either the batch is there or the end of the unit, never both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

How: TypeAlias = Literal["run", "halt"]
"""`run`: parents go on to a common epoch and hand over. `halt`: they are stopped where they are."""


def unit_name(stream: str, change: int, shard: int) -> str:
    """Units are named by the change that made them, so that no name is ever used twice."""
    return f"{stream}.{change}#{shard}"


def stream_of(unit: str) -> str:
    """The stream that a unit carries."""
    return unit.rpartition("#")[0].rpartition(".")[0]


def change_of(unit: str) -> int:
    """The change that made a unit."""
    return int(unit.rpartition("#")[0].rpartition(".")[2])


def least_known(watermarks: Sequence[int | None]) -> int | None:
    """The smallest of several watermarks; None: one of them is not known, so none is promised."""
    known = [item for item in watermarks if item is not None]
    return min(known) if known and len(known) == len(watermarks) else None


MOST_SKIPS = 64
"""Versions of a batch's skip record: one per search, which ends after a while with what it has
found by then. A batch that needs more is not saved."""


def skip_place(batch: int, version: int = 1) -> int:
    """Skips of all batches share one sequence of numbers, so that they need one folder a unit."""
    return batch * MOST_SKIPS + version - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A unit that carries the stream after a change."""

    unit: str
    segment: str
    """What it runs: a stream may be carried by segments of different paths."""
    groups: tuple[int, int]
    """Key groups it owns, by their rank: first, and one past the last."""
    of: int | None = None
    """State partitions of all children together, by which ranks are counted: the operator's
    `max_shards` from this change on. None, in records of earlier versions: that of its segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who carries a stream on. Numbered, so that two coordinators cannot disagree."""

    kind: ClassVar[str] = "change"

    stream: str
    number: int
    how: How
    children: tuple[Child, ...]
    parents: tuple[str, ...] = ()
    """Units of a `run` that hand over; a `halt` stops whatever carries the stream."""
    start: int | None = None
    """Children carry the stream after this epoch, with empty state: a new stream, a late sink, a
    reset, whose stream goes on from there with whatever reads it begun anew as well. None: where
    those before them have ended."""
    shared: bool = False
    """Of a `halt`: children take over the state of the logs before, at the closing's end."""
    since: int | None = None
    """Of a restart that lets others carry the stream on as it is: the epoch after which the
    children read. They run on to where the stream was left; what they publish up to there was
    published before them."""
    state: tuple[tuple[str, int], ...] = ()
    """Units whose state they take over, of whatever stream, each with the batch that has committed
    it: it stands at `since`."""
    ends: tuple[int, ...] = ()
    """Epochs at which a batch of theirs must end: their readers have to stop there."""
    watermark_us: int | None = None
    """Of the inputs where that state stands."""
    restart: int | None = None
    """The restart that it is part of, if it is: none of its units is born before all of that is
    carried out."""
    reason: str = ""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Changes of several streams that are decided at once, while nothing runs.

    Whoever starts the run next carries out all of them, so one who is killed in between leaves
    nothing by halves.
    """

    kind: ClassVar[str] = "restart"

    number: int
    changes: tuple[Change, ...]
    """Readers before what they read: nobody may read on in what is begun anew."""
    deployment: Mapping[str, Any] | None = None
    """What runs from then on, as in run.json."""
    reason: str = ""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What one batch of a unit reads: everything of its inputs in (after, upto]."""

    kind: ClassVar[str] = "range"

    unit: str
    number: int
    after: int
    upto: int
    turn: int | None = None
    """Number of the unit's turn if it has turned before this batch."""
    watermark_us: int | None = None
    """Smallest watermark of the inputs at its end; None: not yet known. A source's is known only
    after reading, and stands in its slice."""
    source: Any = None
    """A source's own position after the batch."""
    left_out: tuple[str, ...] = ()
    """Of a fork: logs of its inputs taken for empty, so that a redo leaves out the same."""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A parent of a `run` stands here: what it had recorded before is all it chose freely."""

    kind: ClassVar[str] = "turn"

    unit: str
    number: int
    change: int
    end: int | None
    """End of the range before; None: there is none, so where the unit was born."""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What one batch published, on all boundaries of its unit at once."""

    kind: ClassVar[str] = "slice"

    unit: str
    number: int
    after: int
    upto: int
    files: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Boundary to the files that hold its rows."""
    rows: int = 0
    """How many there are; the same on every boundary."""
    digest: str = ""
    """Of the rows on all boundaries, whatever their order and files."""
    watermark_us: int | None = None
    """No later slice of this log holds rows older than this, microseconds since 1970."""
    late_rows: int = 0
    """Rows put aside as late while this slice was made; only sources decide lateness."""
    dead_rows: int = 0
    """Rows quarantined while this slice was made."""
    skip: str = ""
    """Version of the batch's skip record that it was made with; empty: nothing was left out. The
    one that is stored counts: who left out other rows runs the batch again with these."""
    generation: int = 0
    """Who made it, for people and for measuring; nothing depends on it."""
    spark_batch: int = -1
    missing: tuple[str, ...] = ()
    """Of a fork: units without whose output these rows, or the state they come from, were made."""
    fidelity: float | None = None
    """Of a fork: the predicted share of the input that its rows reflect; None: not known."""
    writer: str = ""

    def same_content(self, other: Slice) -> bool:
        return (self.after, self.upto, self.digest) == (other.after, other.upto, other.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """New files of a slice whose old ones were lost: the same rows elsewhere."""

    kind: ClassVar[str] = "repair"

    unit: str
    number: int
    """Among the repairs of the unit: that of the slice times the most repairs there may be, and
    which one of the slice it is."""
    slice: int
    files: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    digest: str = ""
    """That of the slice."""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Ends a log: it takes the number that the next slice would have."""

    kind: ClassVar[str] = "seal"

    unit: str
    number: int
    change: int
    how: How
    end: int | None = None
    """Of a `run`: the handover epoch, which is the end of the log's last slice or its birth."""
    batch: int | None = None
    """Of a `run`: the batch whose committed state is handed over; -1: the state of its birth."""
    watermark_us: int | None = None
    """Of a `run`: that of the last range. A stateful segment's promise lags one batch, so the heirs
    need it for their first. Of a source that of its last slice, by which they tell what is late."""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Where a stream left the logs of one change, and the `halt` that goes on from there.

    Its number is that of the change which had brought these logs. What one of them published beyond
    the end is void; nobody can have read it.
    """

    kind: ClassVar[str] = "closing"

    stream: str
    number: int
    end: int
    next: int
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Rows that a batch leaves out because an operator fails on them.

    Where the batch fails again, on other rows, a further version leaves out those as well.
    """

    kind: ClassVar[str] = "skip"

    unit: str
    number: int
    """Among the skips of the unit: see `skip_place`."""
    batch: int = 0
    version: int = 1
    """From 1, without gaps; each holds the rows of the one before."""
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Boundary to the positions of the rows in reading order."""
    reason: str = ""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A generation of a replica: it counts only for the writer whose id is stored."""

    kind: ClassVar[str] = "claim"

    unit: str
    replica: int
    number: int
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Who leads, from this number on until the next."""

    kind: ClassVar[str] = "term"

    number: int
    holder: str
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Units that go on without some of their input, beside the exact ones that wait for it."""

    kind: ClassVar[str] = "fork"

    number: int
    units: tuple[str, ...]
    """Its units (`count+3.0#1`), upstream first; who reads a stream of theirs reads it of them."""
    silent: tuple[str, ...]
    """Exact units that were down when it began; nobody waits for what they make."""
    patience_s: float = 0.0
    """How long an input that falls silent later is waited for."""
    reason: str = ""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkEnd:
    """Ends a fork: none of its units goes on past it."""

    kind: ClassVar[str] = "fork-end"

    number: int
    reason: str = ""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Where a unit of a fork leaves its exact unit: with the state of which commit."""

    kind: ClassVar[str] = "branch"

    unit: str
    number: int = 0
    batch: int
    """The first batch that it runs itself; all below are committed in the state it begins with."""
    epoch: int
    """End of the batch before; what the exact unit published up to there is the fork's as well."""
    decided: int
    """The first batch that it may end as it likes: up to there the exact unit has recorded ranges,
    which others may have read."""
    watermark_us: int | None = None
    generation: int = 0
    """Whose clone of the exact unit's checkpoint it begins with."""
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What of a sequence is trimmed: all numbers below `number`, all slices up to `epoch`."""

    kind: ClassVar[str] = "floor"

    number: int = 0
    epoch: int = -1


Record: TypeAlias = (
    Change
    | Restart
    | Range
    | Turn
    | Slice
    | Repair
    | Seal
    | Closing
    | Skip
    | Claim
    | Term
    | Fork
    | ForkEnd
    | Branch
    | Floor
)
