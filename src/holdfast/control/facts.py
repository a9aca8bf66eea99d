"""What the coordinator has decided or learnt for good: the lines of its journal.

State changes only by applying a fact, and a fact is journaled before any command that follows from
it is sent. So replaying the journal gives the state back, and a generation number can never be
handed out twice. The same facts, newest last, are the timeline people look at: each says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.control.events import Unit
from holdfast.health.breaker import Breaker, SplitState

LossReason = Literal[
    "exited",  # its process ended
    "disconnected",  # its connection broke and it did not come back in time
    "silent",  # connected, but heartbeats stopped
    "stalled",  # one of its units stopped working and only a kill helps
    "killed",  # on request
    "replaced",  # another process joined under its name
    "relaunched",  # it belonged to an earlier launch
    "left",  # it was dismissed at the end of the run, or was not needed any more
]
DownReason = Literal[
    "node lost",
    "error",  # an exception
    "no space",  # an exception that a full disk or quota explains: nobody's code is to blame
    "stalled",
    "never started",
    "stopped by itself",
    "left behind",  # a follower too far behind its leader to be of use
]
PlaceReason = Literal["first start", "recovery", "retry", "resume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """What all of them say."""

    kind: str
    at: float
    cause: str
    """Of the event that it follows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(_Fact):
    """A launch of the run began."""

    kind: Literal["opened"] = "opened"
    launch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermBegan(_Fact):
    """Another coordinator process leads from now on."""

    kind: Literal["term_began"] = "term_began"
    term: int
    coordinator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed(_Fact):
    """These units are to run, upstream first; generations of units known before go on."""

    kind: Literal["deployed"] = "deployed"
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined(_Fact):
    """A node may be given units."""

    kind: Literal["node_joined"] = "node_joined"
    node: str
    incarnation: str
    launch: str
    domain: str
    pid: int
    spare: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(_Fact):
    """A node is given up for good: this incarnation never gets a unit again."""

    kind: Literal["node_lost"] = "node_lost"
    node: str
    incarnation: str
    reason: LossReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainLost(_Fact):
    """The last of several nodes of one failure domain is lost."""

    kind: Literal["domain_lost"] = "domain_lost"
    domain: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTrouble(_Fact):
    """Processes cannot be started as they should."""

    kind: Literal["launch_trouble"] = "launch_trouble"
    trouble: str
    """One line; empty: it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingNoted(_Fact):
    """What the autoscaler decided, could not do or failed at; it changes nothing by itself."""

    kind: Literal["scaling_noted"] = "scaling_noted"
    text: str
    """One line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlaced(_Fact):
    """A new generation of a unit belongs to a node."""

    kind: Literal["unit_placed"] = "unit_placed"
    unit: Unit
    generation: int
    node: str
    incarnation: str
    reason: PlaceReason


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRunning(_Fact):
    """A generation was seen to run."""

    kind: Literal["unit_running"] = "unit_running"
    unit: Unit
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitDown(_Fact):
    """A generation ended against our will."""

    kind: Literal["unit_down"] = "unit_down"
    unit: Unit
    generation: int
    node: str
    reason: DownReason
    retry_at: float
    """Not to be placed before."""
    operator: str | None = None
    error: str | None = None
    """Why, as far as anyone has said: a traceback, or one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWaiting(_Fact):
    """No node has room for a unit that needs one."""

    kind: Literal["unit_waiting"] = "unit_waiting"
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitHeld(_Fact):
    """A unit has used up its budget: it stays down until someone asks for a retry."""

    kind: Literal["unit_held"] = "unit_held"
    unit: Unit
    generation: int
    failures: int
    operator: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitReleased(_Fact):
    """A held unit may be placed again, with a fresh budget."""

    kind: Literal["unit_released"] = "unit_released"
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitParked(_Fact):
    """A unit was taken off its node because the run ends."""

    kind: Literal["unit_parked"] = "unit_parked"
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverBegan(_Fact):
    """Other units are to carry a stream on: they are started before their parents end."""

    kind: Literal["handover_began"] = "handover_began"
    stream: str
    change: int
    parents: tuple[Unit, ...]
    children: tuple[Unit, ...]
    reason: str
    node: str = ""
    """Where the children had better be, if whoever asked has said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEnded(_Fact):
    """A unit has handed over what it carried: it never runs again, its heirs do."""

    kind: Literal["unit_ended"] = "unit_ended"
    unit: Unit
    generation: int
    heirs: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPromoted(_Fact):
    """A replica leads from now on: it has published a slice that its leader did not.

    It did so by itself; this only tells.
    """

    kind: Literal["unit_promoted"] = "unit_promoted"
    unit: Unit
    generation: int
    node: str
    epoch: int
    """End of the newest slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryBegan(_Fact):
    """A failure was detected: phases `failed` and `detected`."""

    kind: Literal["recovery_began"] = "recovery_began"
    recovery: int
    unit: Unit
    reason: DownReason
    node: str
    """The one it was on."""
    failed_at: float
    """Best estimate: when the connection broke, or the last sign of life."""
    epoch: int
    """Progress at the failure as last reported; -1: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRestored(_Fact):
    """The new generation runs: phase `restored`."""

    kind: Literal["recovery_restored"] = "recovery_restored"
    recovery: int
    unit: Unit
    generation: int
    node: str
    epoch: int
    """The log's end as the new generation found it. A slice may have been published after the last
    heartbeat before the failure, so this is the better estimate of where the unit was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryCaughtUp(_Fact):
    """Progress has passed the point of failure: phase `caught up`."""

    kind: Literal["recovery_caught_up"] = "recovery_caught_up"
    recovery: int
    unit: Unit
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOpened(_Fact):
    """The breakers of a split as a coordinator begins with them, if not as they were before."""

    kind: Literal["split_opened"] = "split_opened"
    split: str
    state: SplitState


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerChanged(_Fact):
    """A path's breaker has opened, closed, begun or ended a probe, or given up."""

    kind: Literal["breaker_changed"] = "breaker_changed"
    split: str
    breaker: Breaker


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPreferred(_Fact):
    """A person wants a path to be active whenever it may."""

    kind: Literal["path_preferred"] = "path_preferred"
    split: str
    path: str
    """Empty: by order again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTaken(_Fact):
    """Another path is to carry a split's stream."""

    kind: Literal["path_taken"] = "path_taken"
    split: str
    path: str
    """Empty: none may, and the input waits in the log."""
    before: str
    """Empty: none did."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLeft(_Fact):
    """Units of a path that carries its split's stream no more: they do not run from now on."""

    kind: Literal["path_left"] = "path_left"
    split: str
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBegan(_Fact):
    """The run is to end."""

    kind: Literal["stop_began"] = "stop_began"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkBegan(_Fact):
    """Units go on without an input that is gone, beside the exact ones that wait for it."""

    kind: Literal["fork_began"] = "fork_began"
    fork: int
    units: tuple[Unit, ...]
    """Of the fork, upstream first."""
    silent: tuple[Unit, ...]
    """Exact units that are down."""
    reason: str
    fidelity: tuple[tuple[str, float], ...] = ()
    """Sinks, each with the predicted share of the input that its tentative rows reflect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlaced(_Fact):
    """A generation of a fork's unit belongs to the node of its exact unit."""

    kind: Literal["fork_placed"] = "fork_placed"
    unit: Unit
    generation: int
    node: str
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRunning(_Fact):
    """A generation of a fork's unit was seen to run."""

    kind: Literal["fork_running"] = "fork_running"
    unit: Unit
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkDown(_Fact):
    """A generation of a fork's unit ended, and the fork has not."""

    kind: Literal["fork_down"] = "fork_down"
    unit: Unit
    generation: int
    failed: bool
    """By itself; else with its node."""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkEnded(_Fact):
    """A fork is over: what it delivered is replaced as exact results come."""

    kind: Literal["fork_ended"] = "fork_ended"
    fork: int
    reason: str
    hopeless: bool = False
    """It ended though its input is still gone: no other one begins before that is back."""


# Each kind of fact is decided by one machine.
RunFact: TypeAlias = Opened | TermBegan | Deployed | StopBegan | LaunchTrouble | ScalingNoted
NodeFact: TypeAlias = NodeJoined | NodeLost | DomainLost
UnitFact: TypeAlias = UnitRunning | UnitDown | UnitHeld | UnitReleased | UnitParked
PlacementFact: TypeAlias = UnitPlaced | UnitWaiting
ReplicaFact: TypeAlias = UnitPromoted
RecoveryFact: TypeAlias = RecoveryBegan | RecoveryRestored | RecoveryCaughtUp
HandoverFact: TypeAlias = HandoverBegan | UnitEnded
PathFact: TypeAlias = SplitOpened | BreakerChanged | PathPreferred | PathTaken | PathLeft
ForkFact: TypeAlias = ForkBegan | ForkPlaced | ForkRunning | ForkDown | ForkEnded
Fact: TypeAlias = (
    RunFact
    | NodeFact
    | UnitFact
    | PlacementFact
    | ReplicaFact
    | RecoveryFact
    | HandoverFact
    | PathFact
    | ForkFact
)
