"""Everything the coordinator can be told. Each event carries the cause id its effects will bear.

Reports are levels, not edges: a node repeats the full state of its units with every heartbeat, so
a lost message costs a moment and never a fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from holdfast.deployment import UnitId


def _parse_unit(value: object) -> object:
    return UnitId.parse(value) if isinstance(value, str) else value


Unit: TypeAlias = Annotated[UnitId, BeforeValidator(_parse_unit), PlainSerializer(str)]
"""A unit id that is written as `count.0#0` wherever it leaves the process."""

ReportState = Literal["starting", "running", "stopped", "failed", "ended"]
"""`ended`: its log is sealed, and others carry its stream on. It is not to be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitReport:
    """One generation of one unit, as its host sees it: the one record of it from there to here."""

    unit: Unit
    generation: int
    state: ReportState
    batch: int = -1
    """Number of the last batch in the log, whoever published or delivered it; -1: none."""
    epoch: int = -1
    """End epoch of that batch; -1: none."""
    rows_in: int = 0
    """Rows read since this generation started."""
    rows_out: int = 0
    """Rows published or delivered since this generation started."""
    batch_ms: float = 0.0
    """Duration of the last batch, milliseconds."""
    waiting: int = 0
    """Epochs that could be taken in a batch now, or are being taken: up to an end that all inputs
    have published and the batch interval allows, or that is due by the clock for a source."""
    work: int = 0
    """Grows while the batch in hand is worked on, in steps that a process which only waits does not
    reach; tells a long batch from a dead one."""
    state_bytes: int = 0
    """What a restore of its state would read."""
    operator: str | None = None
    """The operator that failed, if known."""
    error: str | None = None
    """The Python traceback of a failed unit, or why one stopped."""
    leads: bool = False
    """Of one of several replicas: the newest slice is its own, so it publishes the next at once."""
    heirs: tuple[str, ...] = ()
    """Of one that has ended: who goes on, as the change on record says."""
    doing: str | None = None
    """What takes a unit long that makes no batch meanwhile, and how far it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What a node uses, its Java and Python children included."""

    cpu: float = 0.0
    """Share of one core."""
    memory_bytes: int = 0
    processes: int = 0
    worker_bytes: int = 0
    """Memory of the largest Python worker: what the functions of a path use grows there."""
    suspended: int = 0
    """Processes that are stopped (SIGSTOP)."""


ProbeState = Literal["running", "good", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """How a probe of a path does, as the node that runs it sees it."""

    split: str
    path: str
    probe: int
    state: ProbeState
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """What all of them say."""

    kind: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOpened(_Event):
    """A coordinator leads in this launch; nodes of earlier launches cannot come back."""

    kind: Literal["launch_opened"] = "launch_opened"
    launch: str
    term: int = -1
    """Of the coordinator; -1: it leads without terms, as in tests of the machine alone."""
    coordinator: str = ""
    """Its name among those of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHello(_Event):
    """A node connected: for the first time, or again with units running."""

    kind: Literal["node_hello"] = "node_hello"
    node: str
    incarnation: str
    """Names the process: drawn anew whenever a node program starts."""
    launch: str = ""
    domain: str = ""
    spare: bool = False
    pid: int = 0
    reports: tuple[UnitReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(_Event):
    """A node is alive, with the state of each of its units."""

    kind: Literal["heartbeat"] = "heartbeat"
    node: str
    incarnation: str
    ready: bool = True
    """The session is warm."""
    reports: tuple[UnitReport, ...] = ()
    gauges: Gauges = field(default_factory=Gauges)
    probes: tuple[ProbeReport, ...] = ()
    """Until they are told to be forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDisconnected(_Event):
    """The connection to a node broke."""

    kind: Literal["node_disconnected"] = "node_disconnected"
    node: str
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExited(_Event):
    """The launcher saw the process of a node end."""

    kind: Literal["node_exited"] = "node_exited"
    node: str
    pid: int
    retired: bool = False
    """It was not needed any more, and was told to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherTroubled(_Event):
    """The launcher cannot start processes as it should, or can again."""

    kind: Literal["launcher_troubled"] = "launcher_troubled"
    trouble: str
    """One line; empty: it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSaid(_Event):
    """The autoscaler says what it decided, cannot do or failed at."""

    kind: Literal["scaling_said"] = "scaling_said"
    text: str
    """One line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequested(_Event):
    """Someone asks for a node to be killed."""

    kind: Literal["kill_requested"] = "kill_requested"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested(_Event):
    """Someone asks for a held unit to be tried again with a fresh budget."""

    kind: Literal["retry_requested"] = "retry_requested"
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRequested(_Event):
    """A change of who carries a stream is on record: its children are to be started.

    They wait until their parents have handed over. Nothing depends on this but how soon: whoever
    ends names its heirs.
    """

    kind: Literal["handover_requested"] = "handover_requested"
    stream: str
    change: int
    parents: tuple[Unit, ...]
    children: tuple[Unit, ...]
    reason: str = ""
    node: str = ""
    """Where they had better be; empty: wherever there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCarried(_Event):
    """The answer to `TakePath`: which path carries a split's stream, as the records say."""

    kind: Literal["path_carried"] = "path_carried"
    split: str
    path: str
    change: int
    units: tuple[Unit, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathKept(_Event):
    """The answer to `KeepPath`: who runs a hot path, as the records say."""

    kind: Literal["path_kept"] = "path_kept"
    segment: str
    runs: bool
    units: tuple[Unit, ...]
    """Empty: it is shut down, or has not begun yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathAsked(_Event):
    """Someone asks for a path to be left alone, to be trusted again, or to be preferred."""

    kind: Literal["path_asked"] = "path_asked"
    what: Literal["open", "close", "prefer"]
    split: str
    path: str
    """Of `prefer`: empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(_Event):
    """Someone asks for the run to end."""

    kind: Literal["stop_requested"] = "stop_requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(_Event):
    """Time has passed."""

    kind: Literal["tick"] = "tick"


Event: TypeAlias = (
    LaunchOpened
    | NodeHello
    | Heartbeat
    | NodeDisconnected
    | NodeExited
    | LauncherTroubled
    | ScalingSaid
    | KillRequested
    | RetryRequested
    | HandoverRequested
    | PathCarried
    | PathKept
    | PathAsked
    | StopRequested
    | Tick
)
