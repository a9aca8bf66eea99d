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
from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError

TIMELINE_LENGTH = 400
"""Facts kept for people to read; older ones are gone after the next compaction."""
RECOVERIES_LENGTH = 400
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
    operator: str | None = None
    error: str | None = None
    """Of the last failure with an exception; kept for people after a successful retry."""
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
    recoveries: list[Recovery] = field(default_factory=list)
    next_recovery: int = 1
    last_at: float = 0.0
    timeline: list[Fact] = field(default_factory=list)

    @classmethod
    def new(cls, pipeline: str, units: tuple[UnitId, ...]) -> State:
        return cls(pipeline=pipeline, units={str(unit): UnitRecord(unit=unit) for unit in units})

    def unit(self, unit: UnitId) -> UnitRecord | None:
        return self.units.get(str(unit))

    def on_node(self, node: str) -> list[UnitRecord]:
        return [record for record in self.units.values() if record.node == node]

    def open_recovery(self, unit: UnitId) -> Recovery | None:
        return next((r for r in self.recoveries if r.unit == unit and r.outcome == "open"), None)

    def story(self, unit: UnitId | None = None, length: int = 20) -> tuple[Fact, ...]:
        """The latest facts, of one unit if given."""
        chosen = [
            fact for fact in self.timeline if unit is None or getattr(fact, "unit", unit) == unit
        ]
        return tuple(chosen[-length:])

    def apply(self, fact: Fact) -> None:
        """Change the state by one fact."""
        match fact:
            case f.Opened() | f.Deployed() | f.StopBegan() | f.DomainLost() | f.LaunchTrouble():
                self._apply_run(fact)
            case f.NodeJoined() | f.NodeLost():
                self._apply_node(fact)
            case f.RecoveryBegan() | f.RecoveryRestored() | f.RecoveryCaughtUp():
                self._apply_recovery(fact)
            case (
                f.UnitPlaced()
                | f.UnitRunning()
                | f.UnitDown()
                | f.UnitWaiting()
                | f.UnitHeld()
                | f.UnitReleased()
                | f.UnitParked()
            ):
                self._apply_unit(fact)
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
                    record.errors, record.crashes, record.shortages = (), (), ()
                    record.retry_at = 0.0
                    if record.phase == "held":
                        # Whoever launches again has had the chance to repair the cause.
                        record.phase, record.down = "waiting", None
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
                if self.on_node(fact.node):
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
                record.phase = "waiting"
                record.errors, record.crashes, record.shortages = (), (), ()
                record.down, record.retry_at = None, 0.0
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
            case _:
                record.errors = (*record.errors, fact.at)[-HISTORY_LENGTH:]
                record.operator, record.error = fact.operator, fact.error

    def _apply_recovery(self, fact: RecoveryFact) -> None:
        match fact:
            case f.RecoveryBegan():
                if fact.recovery != self.next_recovery:
                    raise IllegalTransitionError(fact, "recovery id is not the next", self.story())
                # The unit failed again before the last recovery was done: this one goes on for it.
                self._close(fact.unit, "superseded", fact.at)
                self.next_recovery += 1
                self.recoveries.append(
                    Recovery(
                        id=fact.recovery,
                        unit=fact.unit,
                        reason=fact.reason,
                        cause=fact.cause,
                        from_node=fact.node,
                        failed_at=fact.failed_at,
                        detected_at=fact.at,
                        epoch=fact.epoch,
                    )
                )
                del self.recoveries[:-RECOVERIES_LENGTH]
            case f.RecoveryRestored():
                found = self._open(fact)
                self._swap(
                    replace(
                        found,
                        restored_at=fact.at,
                        to_node=fact.node,
                        generation=fact.generation,
                        epoch=max(found.epoch, fact.epoch),
                    )
                )
            case f.RecoveryCaughtUp():
                found = self._open(fact)
                if found.restored_at is None:
                    raise IllegalTransitionError(fact, "caught up before restored", self.story())
                self._swap(
                    replace(found, caught_up_at=fact.at, closed_at=fact.at, outcome="caught up")
                )
            case _:
                assert_never(fact)

    def _open(self, fact: f.RecoveryRestored | f.RecoveryCaughtUp) -> Recovery:
        for recovery in self.recoveries:
            if recovery.id == fact.recovery and recovery.outcome == "open":
                return recovery
        raise IllegalTransitionError(fact, "no such open recovery", self.story())

    def _swap(self, recovery: Recovery) -> None:
        index = next(i for i, old in enumerate(self.recoveries) if old.id == recovery.id)
        self.recoveries[index] = recovery

    def _close(self, unit: UnitId, outcome: Outcome, at: float) -> None:
        found = self.open_recovery(unit)
        if found is not None:
            self._swap(replace(found, outcome=outcome, closed_at=at))


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
