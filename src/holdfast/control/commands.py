"""Everything the coordinator can ask its shell to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.control.events import Unit
from holdfast.control.facts import Fact

Role = Literal["leader", "follower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Make a fact durable before any later command of the same list is carried out."""

    fact: Fact
    kind: Literal["record"] = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Act:
    """What all others say."""

    kind: str
    cause: str
    """Of the event that it follows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUnit(_Act):
    """Run a generation of a unit. Repeating the command has no further effect."""

    kind: Literal["start_unit"] = "start_unit"
    node: str
    unit: Unit
    generation: int
    clone_from: int | None
    """The generation before: the host clones the newest complete checkpoint at or below it, since
    that one may never have got as far as having one. None: start from nothing."""
    role: Role = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopUnit(_Act):
    """Stop this generation of a unit, and no other."""

    kind: Literal["stop_unit"] = "stop_unit"
    node: str
    unit: Unit
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakePath(_Act):
    """See that a path carries a split's stream, on the records; answered by `PathCarried`.

    Repeating the command has no further effect.
    """

    kind: Literal["take_path"] = "take_path"
    split: str
    path: str
    """Empty: leave it as it is, and only say how it is."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPath(_Act):
    """See that a hot path runs along, or that it is shut down, on the records; answered by
    `PathKept`.

    Repeating the command has no further effect.
    """

    kind: Literal["keep_path"] = "keep_path"
    segment: str
    """The one that is the path."""
    runs: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProbe(_Act):
    """Run a path on a share of its input for nobody to read; heartbeats say how it does."""

    kind: Literal["start_probe"] = "start_probe"
    node: str
    split: str
    path: str
    probe: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StopProbe(_Act):
    """End a probe, or forget one that has ended."""

    kind: Literal["stop_probe"] = "stop_probe"
    node: str
    split: str
    path: str
    probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss(_Act):
    """Ask a node process to stop its units and exit."""

    kind: Literal["dismiss"] = "dismiss"
    node: str
    incarnation: str
    reason: Literal["stop", "fenced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence(_Act):
    """Ask the launcher to kill a node's processes. Nothing waits for it: safety rests on records,
    this only frees memory and processor time.
    """

    kind: Literal["fence"] = "fence"
    node: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutFork(_Act):
    """Put a fork on record, for its units to find. Repeating the command has no further effect."""

    kind: Literal["put_fork"] = "put_fork"
    fork: int
    units: tuple[Unit, ...]
    silent: tuple[Unit, ...]
    patience_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFork(_Act):
    """Put the end of a fork on record. Repeating the command has no further effect."""

    kind: Literal["end_fork"] = "end_fork"
    fork: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(_Act):
    """All nodes are gone and the run was to end: exit."""

    kind: Literal["finish"] = "finish"


Command: TypeAlias = (
    Record
    | StartUnit
    | StopUnit
    | TakePath
    | KeepPath
    | StartProbe
    | StopProbe
    | Dismiss
    | Fence
    | PutFork
    | EndFork
    | Finish
)
NodeCommand: TypeAlias = StartUnit | StopUnit | StartProbe | StopProbe | Dismiss
"""Those that go to a node."""
