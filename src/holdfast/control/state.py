"""The coordinator's durable state and the one way it changes: `State.apply(fact)`.

Everything here is a function of the journal alone. What is known only for the moment (heartbeats,
progress, connections) is in `vitals`. An illegal transition raises with the story of what led to
it: it means that a decider is wrong, and going on would be guessing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, assert_never

from holdfast.control import facts as f
from holdfast.control.events import Unit
from holdfast.control.facts import DownReason, Fact
from holdfast.control.index import Index
from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError

TIMELINE_LENGTH = 400
"""Facts kept for people to read; older ones are gone after the next compaction."""
RECOVERIES_LENGTH = 400
"""Recoveries kept after they are over; those under way are kept in any case."""
FENCED_LENGTH = 400
"""Lost incarnations remembered. One that returns after more losses than this joins as new and is
told to stop its stale units; records keep that safe."""
HISTORY_LENGTH = 64
"""Failure times kept per unit; budgets must be smaller."""

UnitPhase = Literal["waiting", "placed", "running", "held"]
Outcome = Literal["open", "caught up", "superseded", "held", "abandoned"]


class IllegalTransitionError(HoldfastError):
    """A fact that cannot follow from the state: a fault in a decider."""

    def __init__(self, fact: Fact, why: str, story: tuple[Fact, ...]) -> None:
        self.fact = fact
        self.story = story
        lines = "".join(f"\n  {entry}" for entry in story)
        super().__init__(f"{why}: {fact}; what led to it:{lines}")


@dataclass(slots=True, kw_only=True)
class NodeRecord:
    """A node that has joined and is not lost."""

    node: str
    incarnation: str
    launch: str
    domain: str
    pid: int
    spare: bool
    """True until it gets its first unit."""
    joined_at: float


@dataclass(slots=True, kw_only=True)
class UnitRecord:
    """Where a unit is, under which generation, and what it has suffered."""

    unit: Unit
    phase: UnitPhase = "waiting"
    generation: int = 0
    """The last one handed out; 0: none."""
    node: str | None = None
    """Set in the phases placed and running only."""
    incarnation: str | None = None
    placed_at: float = 0.0
    retry_at: float = 0.0
    home: str | None = None
    """The node it was on last."""
    home_domain: str = ""
    down: DownReason | None = None
    """Why it is not running; None before the first start, after a clean stop, and when running."""
    errors: tuple[float, ...] = ()
    crashes: tuple[float, ...] = ()
    shortages: tuple[float, ...] = ()
    """When it found no room to write."""
    stalls: int = 0
    """How often it was killed for doing nothing since it last made progress."""
    operator: str | None = None
    error: str | None = None
    """Of the last failure that had a reason to tell; kept for people after a successful retry."""
    announced: bool = False
    """Its waiting for room is on the timeline already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One failure of one unit and the phases of its repair, all times in seconds."""

    id: int
    unit: Unit
    reason: DownReason
    cause: str
    from_node: str
    failed_at: float
    detected_at: float
    epoch: int
    """Progress to come back to."""
    restored_at: float | None = None
    to_node: str | None = None
    generation: int | None = None
    caught_up_at: float | None = None
    outcome: Outcome = "open"
    closed_at: float | None = None


@dataclass(slots=True, kw_only=True)
class State:
    """All that the journal says."""

    pipeline: str
    launch: str = ""
    opened_at: float = 0.0
    begun: bool = False
    """Units were placed in this launch."""
    stopping: bool = False
    trouble: str = ""
    """What the launcher cannot do at present; empty: nothing."""
    units: dict[str, UnitRecord] = field(default_factory=dict)
    """By text of the unit id, upstream first."""
    retired: dict[str, int] = field(default_factory=dict)
    """Last generation of units that no longer run: should one come back, it goes on from there."""
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    fenced: list[str] = field(default_factory=list)
    open_recoveries: dict[str, Recovery] = field(default_factory=dict)
    """By text of the unit id."""
    closed_recoveries: list[Recovery] = field(default_factory=list)
    """In the order in which they ended."""
    next_recovery: int = 1
    last_at: float = 0.0
    timeline: list[Fact] = field(default_factory=list)
    index: Index = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.index = Index(self.units, self.last_at)

    @classmethod
    def new(cls, pipeline: str, units: tuple[UnitId, ...]) -> State:
        return cls(pipeline=pipeline, units={str(unit): UnitRecord(unit=unit) for unit in units})

    def unit(self, unit: UnitId) -> UnitRecord | None:
        return self.units.get(str(unit))

    def on_node(self, node: str) -> list[UnitRecord]:
        """The units of a node, upstream first."""
        names = self.index.by_node.get(node, ())
        return [self.units[name] for name in self.index.in_order(names)]

    @property
    def recoveries(self) -> list[Recovery]:
        """Those under way and the last ones that ended, oldest first."""
        known = [*self.closed_recoveries, *self.open_recoveries.values()]
        return sorted(known, key=lambda recovery: recovery.id)

    def open_recovery(self, unit: UnitId) -> Recovery | None:
        return self.open_recoveries.get(str(unit))

    def story(self, unit: UnitId | None = None, length: int = 20) -> tuple[Fact, ...]:
        """The latest facts, of one unit if given."""
        chosen = [
            fact for fact in self.timeline if unit is None or getattr(fact, "unit", unit) == unit
        ]
        return tuple(chosen[-length:])

    def apply(self, fact: Fact) -> None:
        """Change the state by one fact."""
        match fact:
            # The frequent ones first: each case is a question.
            case f.UnitPlaced() | f.UnitRunning() | f.UnitDown() | f.UnitWaiting():
                self._apply_unit(fact)
            case f.RecoveryBegan() | f.RecoveryRestored() | f.RecoveryCaughtUp():
                self._apply_recovery(fact)
            case f.NodeJoined() | f.NodeLost():
                self._apply_node(fact)
            case f.UnitHeld() | f.UnitReleased() | f.UnitParked():
                self._apply_unit(fact)
            case f.Opened() | f.Deployed() | f.StopBegan() | f.DomainLost() | f.LaunchTrouble():
                self._apply_run(fact)
            case _:
                assert_never(fact)
        self.last_at = max(self.last_at, fact.at)
        self.timeline.append(fact)
        del self.timeline[:-TIMELINE_LENGTH]

    def _apply_run(self, fact: RunFact) -> None:
        match fact:
            case f.Opened():
                self.launch = fact.launch
                self.opened_at = fact.at
                self.begun = False
                self.stopping = False
                self.trouble = ""
                for record in self.units.values():
                    _forget_failures(record)
                    if record.phase == "held":
                        # Whoever launches again has had the chance to repair the cause.
                        record.phase, record.down = "waiting", None
                self.index = Index(self.units, fact.at)
            case f.Deployed():
                self._deploy(fact)
            case f.StopBegan():
                self.stopping = True
            case f.LaunchTrouble():
                self.trouble = fact.trouble
            case f.DomainLost():
                pass
            case _:
                assert_never(fact)

    def _deploy(self, fact: f.Deployed) -> None:
        if any(record.node is not None for record in self.units.values()):
            raise IllegalTransitionError(fact, "units are still on nodes", self.story())
        known = self.units
        wanted = {str(unit): unit for unit in fact.units}
        self.retired.update(
            {name: old.generation for name, old in known.items() if name not in wanted}
        )
        self.units = {
            name: known.get(name) or UnitRecord(unit=unit, generation=self.retired.pop(name, 0))
            for name, unit in wanted.items()
        }
        self.index = Index(self.units, fact.at)

    def _apply_node(self, fact: f.NodeJoined | f.NodeLost) -> None:
        match fact:
            case f.NodeJoined():
                if fact.node in self.nodes or fact.incarnation in self.fenced:
                    raise IllegalTransitionError(fact, "node cannot join", self.story())
                self.nodes[fact.node] = NodeRecord(
                    node=fact.node,
                    incarnation=fact.incarnation,
                    launch=fact.launch,
                    domain=fact.domain,
                    pid=fact.pid,
                    spare=fact.spare,
                    joined_at=fact.at,
                )
            case f.NodeLost():
                record = self.nodes.get(fact.node)
                if record is None or record.incarnation != fact.incarnation:
                    raise IllegalTransitionError(fact, "node is not here to lose", self.story())
                if self.index.load(fact.node):
                    raise IllegalTransitionError(fact, "node still has units", self.story())
                del self.nodes[fact.node]
                self.fenced.append(fact.incarnation)
                del self.fenced[:-FENCED_LENGTH]
            case _:
                assert_never(fact)

    def _apply_unit(self, fact: UnitFact) -> None:
        record = self.unit(fact.unit)
        if record is None:
            raise IllegalTransitionError(fact, "unknown unit", self.story())
        before = record.node
        self._change_unit(record, fact)
        self.index.moved(str(fact.unit), record, before, fact.at)

    def _change_unit(self, record: UnitRecord, fact: UnitFact) -> None:
        match fact:
            case f.UnitPlaced():
                self._place(record, fact)
            case f.UnitRunning():
                self._expect(record, fact, record.phase == "placed", "unit was not placed")
                self._expect(record, fact, record.generation == fact.generation, "old generation")
                record.phase, record.down = "running", None
            case f.UnitDown():
                self._take_down(record, fact)
            case f.UnitWaiting():
                self._expect(record, fact, record.phase == "waiting", "unit does not wait")
                record.announced = True
            case f.UnitHeld():
                self._expect(record, fact, record.phase == "waiting", "unit is not down")
                record.phase = "held"
                self._close(fact.unit, "held", fact.at)
            case f.UnitReleased():
                self._expect(record, fact, record.phase == "held", "unit is not held")
                record.phase, record.down = "waiting", None
                _forget_failures(record)
            case f.UnitParked():
                if record.node is not None:
                    record.home, record.home_domain = record.node, ""
                if record.phase != "held":
                    record.phase = "waiting"
                record.node = record.incarnation = record.down = None
                record.announced = False
                self._close(fact.unit, "abandoned", fact.at)
            case _:
                assert_never(fact)

    def _expect(self, record: UnitRecord, fact: Fact, holds: bool, why: str) -> None:
        if not holds:
            raise IllegalTransitionError(fact, f"{why} ({record.phase})", self.story(record.unit))

    def _place(self, record: UnitRecord, fact: f.UnitPlaced) -> None:
        node = self.nodes.get(fact.node)
        self._expect(record, fact, record.phase == "waiting", "unit does not wait")
        self._expect(
            record, fact, fact.generation == record.generation + 1, "generation is not the next"
        )
        if node is None or node.incarnation != fact.incarnation:
            raise IllegalTransitionError(fact, "node is not live", self.story(record.unit))
        record.phase, record.generation = "placed", fact.generation
        record.node, record.incarnation = fact.node, fact.incarnation
        record.placed_at, record.announced = fact.at, False
        node.spare = False
        self.begun = True

    def _take_down(self, record: UnitRecord, fact: f.UnitDown) -> None:
        self._expect(record, fact, record.phase in ("placed", "running"), "unit is not up")
        self._expect(record, fact, record.generation == fact.generation, "old generation")
        node = self.nodes.get(fact.node)
        record.phase, record.node, record.incarnation = "waiting", None, None
        record.home, record.home_domain = fact.node, node.domain if node is not None else ""
        record.down, record.retry_at = fact.reason, fact.retry_at
        match fact.reason:
            case "node lost":
                record.crashes = (*record.crashes, fact.at)[-HISTORY_LENGTH:]
            case "no space":
                record.shortages = (*record.shortages, fact.at)[-HISTORY_LENGTH:]
                record.operator, record.error = fact.operator, fact.error
            case "stalled" | "never started":
                record.stalls += 1
                record.errors = (*record.errors, fact.at)[-HISTORY_LENGTH:]
                record.operator, record.error = fact.operator, fact.error
            case "error" | "stopped by itself":
                record.errors = (*record.errors, fact.at)[-HISTORY_LENGTH:]
                record.operator, record.error = fact.operator, fact.error
            case _:
                assert_never(fact.reason)

    def _apply_recovery(self, fact: RecoveryFact) -> None:
        match fact:
            case f.RecoveryBegan():
                if fact.recovery != self.next_recovery:
                    raise IllegalTransitionError(fact, "recovery id is not the next", self.story())
                # The unit failed again before the last recovery was done: this one goes on for it.
                self._close(fact.unit, "superseded", fact.at)
                self.next_recovery += 1
                self.open_recoveries[str(fact.unit)] = Recovery(
                    id=fact.recovery,
                    unit=fact.unit,
                    reason=fact.reason,
                    cause=fact.cause,
                    from_node=fact.node,
                    failed_at=fact.failed_at,
                    detected_at=fact.at,
                    epoch=fact.epoch,
                )
            case f.RecoveryRestored():
                found = self._open(fact)
                self.open_recoveries[str(fact.unit)] = replace(
                    found,
                    restored_at=fact.at,
                    to_node=fact.node,
                    generation=fact.generation,
                    epoch=max(found.epoch, fact.epoch),
                )
            case f.RecoveryCaughtUp():
                found = self._open(fact)
                if found.restored_at is None:
                    raise IllegalTransitionError(fact, "caught up before restored", self.story())
                self.units[str(fact.unit)].stalls = 0
                self._close(fact.unit, "caught up", fact.at)
            case _:
                assert_never(fact)

    def _open(self, fact: f.RecoveryRestored | f.RecoveryCaughtUp) -> Recovery:
        found = self.open_recovery(fact.unit)
        if found is None or found.id != fact.recovery:
            raise IllegalTransitionError(fact, "no such open recovery", self.story(fact.unit))
        return found

    def _close(self, unit: UnitId, outcome: Outcome, at: float) -> None:
        found = self.open_recoveries.pop(str(unit), None)
        if found is None:
            return
        caught_up_at = at if outcome == "caught up" else None
        self.closed_recoveries.append(
            replace(found, outcome=outcome, closed_at=at, caught_up_at=caught_up_at)
        )
        del self.closed_recoveries[:-RECOVERIES_LENGTH]


def _forget_failures(record: UnitRecord) -> None:
    record.errors, record.crashes, record.shortages = (), (), ()
    record.stalls, record.retry_at = 0, 0.0


RunFact: TypeAlias = f.Opened | f.Deployed | f.StopBegan | f.DomainLost | f.LaunchTrouble
UnitFact: TypeAlias = (
    f.UnitPlaced
    | f.UnitRunning
    | f.UnitDown
    | f.UnitWaiting
    | f.UnitHeld
    | f.UnitReleased
    | f.UnitParked
)
RecoveryFact: TypeAlias = f.RecoveryBegan | f.RecoveryRestored | f.RecoveryCaughtUp
