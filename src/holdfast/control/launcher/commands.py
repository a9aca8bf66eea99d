"""Everything the launcher's machine can ask its shell to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCoordinator:
    """Answered by an event only if it fails."""

    coordinator: str
    rank: int
    """Those of higher rank take over later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateCoordinator:
    """Ask a coordinator's process to end."""

    coordinator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """Answered by `NodeStarted` or `NodeNotStarted`."""

    node: str
    domain: str
    spare: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateNode:
    """Ask a node's process to end."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KillNode:
    """Kill a node's process and everything it started."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellExited:
    """Tell the coordinator, if it is connected, that a node's process ended."""

    node: str
    pid: int
    retired: bool = False
    """It was not needed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTrouble:
    """Tell the coordinator, if it is connected, what cannot be done; empty: nothing any more."""

    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetLogs:
    """Remove the logs of a node that ended long ago."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Write a line to the launcher's own log."""

    level: Literal["info", "error"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is over: the coordinator ended it, or the launcher gave it up."""


LaunchCommand: TypeAlias = (
    StartCoordinator
    | TerminateCoordinator
    | StartNode
    | TerminateNode
    | KillNode
    | TellExited
    | TellTrouble
    | ForgetLogs
    | Log
    | Finish
)
