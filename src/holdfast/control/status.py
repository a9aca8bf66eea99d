"""The status of a run: one typed, versioned document, written once and parsed once.

The coordinator makes it (`view`), the wire and `holdfast status --json` carry its JSON form, and
everyone who looks at a run reads these values. The reference is docs/reference/status.md. Times are
seconds since 1970, durations seconds; None: not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from holdfast.control.facts import DownReason, Fact
from holdfast.control.state import Outcome, UnitPhase
from holdfast.errors import BadInputError
from holdfast.health.breaker import BreakerState

FORMAT = "holdfast-status/1"

RunStatus = Literal["gathering", "starting", "running", "recovering", "failed", "stopping"]

_EXCEPTION = re.compile(r"(?:: )?[A-Za-z_][\w.$]*(Error|Exception|Interrupt|Exit)\b")
"""A line that names an exception; Java's, told through Python, begins with a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitView:
    """One unit; what its node reports is None until it has reported."""

    unit: str
    """`segment#shard`."""
    phase: UnitPhase
    generation: int
    """The last one handed out; 0: none."""
    node: str | None
    down: DownReason | None
    """Why it does not run; None: it runs, or has not been started."""
    operator: str | None
    """The operator of its last failure, if known."""
    error: str | None
    """The traceback of its last failure."""
    failures: int
    """Those that its restart budgets still count."""
    batch: int | None
    """Number of the last batch in the log; -1: none."""
    epoch: int | None
    """End epoch of that batch; -1: none."""
    waiting: int | None
    """Epochs that could be processed and are not."""
    rows_in: int | None
    rows_out: int | None
    """Rows read and published since this generation started."""
    rate_in: float | None
    rate_out: float | None
    """The same per second, of late."""
    batch_ms: float | None
    """Duration of the last batch, milliseconds."""
    state_bytes: int | None
    age_s: float | None
    """Since its last report."""
    doing: str | None = None
    """What takes it long while it makes no batch, and how far it has come."""
    leads: bool | None = None
    """Whether it is the replica that publishes; None: it is the only one."""
    path: str | None = None
    """Of a hot path: which one of which split, `score:model`. Held, it is tried again when its
    breaker says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node that has joined and is not lost."""

    node: str
    incarnation: str
    """Names its process: another one with the same name is another node."""
    domain: str
    """Failure domain; nodes of one are lost together."""
    pid: int
    spare: bool
    """It has had no unit yet."""
    connected: bool
    ready: bool
    """Its session is warm."""
    silence_s: float | None
    """Since it was last heard of."""
    cpu: float | None
    """Share of one core that all its processes use."""
    memory_bytes: int | None
    processes: int | None
    units: tuple[str, ...]
    """The units it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryView:
    """One failure of one unit and the phases of its repair."""

    id: int
    unit: str
    reason: DownReason
    cause: str
    """Units that failed by the same event have the same cause."""
    outcome: Outcome
    from_node: Annotated[str, Field(alias="from")]
    to_node: Annotated[str | None, Field(alias="to")]
    generation: int | None
    epoch: int
    """Progress to come back to."""
    failed_at: float
    detected_at: float
    restored_at: float | None
    caught_up_at: float | None
    detect_s: float | None
    restore_s: float | None
    catch_up_s: float | None
    total_s: float | None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _RECOVERY.dump_python(self, mode="json", by_alias=True)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PathView:
    """One path of a split and its circuit breaker."""

    path: str
    state: BreakerState
    for_s: float
    """How long it has been in that state."""
    why: str
    by_hand: bool
    """A person has opened it: no probe closes it."""
    on_probation: bool
    """A probe has closed it, not long ago."""
    bad_probes: int
    probe_in_s: float | None
    """Until the next probe is due; None: none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitView:
    """A split and its paths, in their order."""

    split: str
    active: str | None
    """The path that is to carry its stream; None: none may, and the input waits in the log."""
    carried: str
    """The one that does, as the records said last; empty: not known yet."""
    preferred: str
    paths: tuple[PathView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkUnitView:
    """One unit of a fork, on the node of its exact unit."""

    unit: str
    node: str | None
    """None: its exact unit is on none, or it is about to be started again."""
    generation: int
    running: bool
    epoch: int | None
    """End epoch of its last batch; None until it has reported, and when the fork is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkView:
    """Units that go on without an input that is gone; their results are tentative."""

    fork: int
    began_at: float
    ended_at: float | None
    """None: it lives."""
    reason: str
    """Why it began."""
    why: str
    """Why it ended; empty: it lives."""
    silent: tuple[str, ...]
    """Exact units that were down when it began."""
    fidelity: Mapping[str, float]
    """Sinks, each with the predicted share of the input that its tentative rows reflect."""
    units: tuple[ForkUnitView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """Everything about a run at one moment."""

    pipeline: str
    launch: str
    """Drawn anew whenever the run is started or resumed."""
    status: RunStatus
    now: float
    opened_at: float
    """When this launch began."""
    trouble: str | None
    """What the launcher cannot do at present."""
    units: tuple[UnitView, ...]
    """Upstream first."""
    nodes: tuple[NodeView, ...]
    recoveries: tuple[RecoveryView, ...]
    """Oldest first."""
    timeline: tuple[Annotated[Fact, Field(discriminator="kind")], ...]
    """The newest facts of the journal, oldest first."""
    term: int = -1
    """Of the coordinator that leads; every change of the leader is a new one."""
    coordinators: tuple[str, ...] = ()
    """The one that leads, and those that are ready to take over."""
    splits: tuple[SplitView, ...] = ()
    forks: tuple[ForkView, ...] = ()
    """Oldest first; at most the last one lives."""
    warnings: tuple[str, ...] = ()
    """What `holdfast status` and `web` add: that the run's plan does not keep its promise."""

    @property
    def given_up(self) -> tuple[UnitView, ...]:
        """Units that nobody tries again unless asked to: of a hot path, its breaker does."""
        return tuple(unit for unit in self.units if unit.phase == "held" and unit.path is None)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **_RUN.dump_python(self, mode="json", by_alias=True)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        if data.get("format") != FORMAT:
            raise BadInputError(
                f"unknown format {data.get('format')!r}",
                where="status of the run",
                hint="the run was started by another version of holdfast: use that one",
            )
        try:
            found: Self = _RUN.validate_python(data)
        except ValidationError as error:
            raise BadInputError(f"is not as {FORMAT} says: {error}", where="status") from error
        return found


_RECOVERY: TypeAdapter[RecoveryView] = TypeAdapter(RecoveryView)
_RUN: TypeAdapter[Any] = TypeAdapter(RunView)


def summary(error: str) -> str:
    """The line of a traceback that says most: the last that names an exception, else the last."""
    lines = [line for line in error.splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION.match(line)]
    return (named or lines or [""])[-1].strip().removeprefix(": ")
