"""Everything the launcher can be told: what became of its processes, and what others ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBegan:
    """Start everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareRequested:
    """Someone wants one more spare."""

    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRequested:
    """Someone wants one more node that is no spare."""

    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireRequested:
    """A node is not needed any more; nothing, if it has ended."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    """A process runs for a node."""

    node: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNotStarted:
    """No process could be started: no memory, no process number, a full disk."""

    node: str
    error: str
    """One line, the same for each attempt that fails alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUp:
    """A node can run units."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnded:
    """The process of a node ended."""

    node: str
    code: int
    """0: it was told to leave; negative: the signal that killed it."""
    words: tuple[str, ...] = ()
    """The end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorNotStarted:
    """No process could be started for a coordinator."""

    coordinator: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorEnded:
    """A coordinator's process ended."""

    coordinator: str
    code: int
    """0: the run is over; negative: the signal that killed it."""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReached:
    """There is a connection to the one that leads; what was told to an earlier one may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceOrdered:
    """The coordinator has given a node up."""

    node: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartsEnded:
    """From now on processes that end stay ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveriesSeen:
    """How the run's recoveries stand, looked at because a node is due to be replaced."""

    under_way: bool
    """Units are being brought back, and each has a node to come back on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed."""


LaunchEvent: TypeAlias = (
    LaunchBegan
    | SpareRequested
    | WorkerRequested
    | RetireRequested
    | NodeStarted
    | NodeNotStarted
    | NodeUp
    | NodeEnded
    | CoordinatorNotStarted
    | CoordinatorEnded
    | CoordinatorReached
    | FenceOrdered
    | RestartsEnded
    | RecoveriesSeen
    | Tick
)
