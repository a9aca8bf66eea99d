"""The part of the state that concerns units: where each is, and what it has suffered.

Two machines share it. `units` decides how a unit fails, recovers and ends; `placement` sees those
that wait, and decides where they go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, assert_never

from holdfast.control.events import Unit
from holdfast.control.facts import (
    DownReason,
    HandoverBegan,
    PlacementFact,
    UnitDown,
    UnitEnded,
    UnitFact,
    UnitHeld,
    UnitParked,
    UnitPlaced,
    UnitPromoted,
    UnitReleased,
    UnitRunning,
    UnitWaiting,
)
from holdfast.control.state.illegal import Illegal, expect
from holdfast.control.state.index import Index
from holdfast.deployment import UnitId

WHOLE_NODE = 1_000_000
"""Load of a node that runs a unit which is to be alone."""
HISTORY_LENGTH = 64
"""Failure times kept per unit; budgets must be smaller."""

UnitPhase = Literal["waiting", "placed", "running", "held"]


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
    """The node it was on last; before its first start, the one that it had better be on."""
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
    leads: bool = False
    """Of one of several replicas: it was the last to take the lead."""

    def forget_failures(self) -> None:
        self.errors, self.crashes, self.shortages = (), (), ()
        self.stalls, self.retry_at = 0, 0.0


@dataclass(slots=True, kw_only=True)
class UnitState:
    """Units by the text of their ids, upstream first."""

    units: dict[str, UnitRecord] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    """Last generation of units that no longer run: should one come back, it goes on from there."""
    deployed: list[str] = field(default_factory=list)
    """The units that were asked for; heirs may be in their places."""
    heirs: dict[str, tuple[Unit, ...]] = field(default_factory=dict)
    """Units that have ended, and who took their places."""
    alone: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Segments whose units have a node to themselves, as the policy says."""
    at: float = field(default=0.0, repr=False, compare=False)
    """When this was the state; decides which units of a snapshot may be tried again."""
    index: Index = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.index = Index(self.units, self.at)

    def of(self, unit: UnitId) -> UnitRecord | None:
        return self.units.get(str(unit))

    def knows(self, unit: UnitId) -> bool:
        """Whether a unit runs, or has ended."""
        return str(unit) in self.units or str(unit) in self.heirs

    def partners(self, unit: UnitId) -> list[UnitRecord]:
        """The other replicas of a unit."""
        names = (str(other) for other in unit.replicas if other.replica != unit.replica)
        records = (self.units.get(name) for name in names)
        return [record for record in records if record is not None]

    def promote(self, fact: UnitPromoted) -> None:
        """A replica leads; the others do not any more."""
        record = self.units.get(str(fact.unit))
        if record is None:
            raise Illegal("unknown unit")
        _expect(record, record.generation == fact.generation, "old generation")
        for partner in self.partners(fact.unit):
            partner.leads = False
        record.leads = True

    def on_node(self, node: str) -> list[UnitRecord]:
        """The units of a node, upstream first."""
        return self.in_order(self.index.by_node.get(node, ()))

    def in_order(self, names: Iterable[str]) -> list[UnitRecord]:
        """Records by name, upstream first."""
        return [self.units[name] for name in self.index.in_order(names)]

    def load(self, node: str) -> int:
        """How many units a node has; more than any node may have if it is taken as a whole."""
        if self.alone and any(
            self.units[name].unit.segment in self.alone for name in self.index.by_node.get(node, ())
        ):
            return WHOLE_NODE
        return self.index.load(node)

    def of_segment(self, segment: str) -> list[UnitRecord]:
        """All units of a segment."""
        return [record for record in self.units.values() if record.unit.segment == segment]

    def node_of(self, unit: str) -> str | None:
        """The node that a unit is on; None: it is on none, or there is no such unit."""
        record = self.units.get(unit)
        return None if record is None else record.node

    # Waiting units, for placement

    def ripen(self, now: float) -> None:
        """Units whose time for another try has come are ready."""
        self.index.ripen(now)

    @property
    def ready(self) -> set[str]:
        """Wait for a node and may be given one."""
        return self.index.ready

    @property
    def stuck(self) -> set[str]:
        """Wait, and were told to have found no room."""
        return self.index.stuck

    # Facts

    def open(self, at: float) -> None:
        """A launch begins; whoever launches has had the chance to repair what held a unit."""
        for record in self.units.values():
            record.forget_failures()
            if record.phase == "held":
                record.phase, record.down = "waiting", None
        self.index = Index(self.units, at)

    def deploy(self, units: tuple[UnitId, ...], at: float) -> None:
        expect(
            all(record.node is None for record in self.units.values()), "units are still on nodes"
        )
        known = self.units
        self.heirs.clear()
        wanted = {str(unit): unit for unit in units}
        self.deployed = list(wanted)
        self.retired.update(
            {name: old.generation for name, old in known.items() if name not in wanted}
        )
        self.units = {
            name: known.get(name) or UnitRecord(unit=unit, generation=self.retired.pop(name, 0))
            for name, unit in wanted.items()
        }
        self.index = Index(self.units, at)

    def hand_over(self, fact: HandoverBegan) -> None:
        """Children are to run from now on; one that many become goes where most others are.

        So what is merged leaves nodes empty that are not needed any more. Followers go elsewhere.
        """
        leaders = [unit for unit in fact.children if not unit.replica]
        nodes = [node for one in fact.parents if (node := self.node_of(str(one))) is not None]
        merged = len(leaders) == 1 and len(fact.parents) > 1 and nodes
        home = fact.node or (max(nodes, key=self.load) if merged else None)
        self.add(leaders, fact.at, home=home)
        self.add((unit for unit in fact.children if unit.replica), fact.at)

    def add(self, units: Iterable[UnitId], at: float, home: str | None = None) -> None:
        """Units that are to run from now on: each behind those of its segment."""
        for unit in units:
            if self.knows(unit):
                continue
            order = list(self.units.values())
            before = [n for n, other in enumerate(order) if other.unit.segment == unit.segment]
            generation = self.retired.pop(str(unit), 0)
            record = UnitRecord(unit=unit, generation=generation, home=home)
            order.insert(before[-1] + 1 if before else len(order), record)
            self.units = {str(other.unit): other for other in order}
        self.index = Index(self.units, at)

    def end(self, fact: UnitEnded) -> None:
        """A unit is over; its heirs are to run, if they do not yet."""
        name = str(fact.unit)
        record = self.units.get(name)
        if record is None:
            raise Illegal("unknown unit")
        _expect(record, record.node is not None, "unit is not up")
        _expect(record, record.generation == fact.generation, "old generation")
        self.heirs[name] = fact.heirs
        self.add(fact.heirs, fact.at)
        del self.units[name]
        self.index = Index(self.units, fact.at)

    def leave(self, units: Iterable[UnitId], at: float) -> None:
        """Units that are not to run any more, whatever phase they are in."""
        for unit in units:
            record = self.units.pop(str(unit), None)
            if record is None:
                raise Illegal(f"unknown unit {unit}")
            self.retired[str(unit)] = record.generation
        self.index = Index(self.units, at)

    def change(self, fact: UnitFact | PlacementFact, domain: str = "") -> None:
        """Apply a fact about one unit; `domain`, of a unit that goes down: of its node."""
        name = str(fact.unit)
        record = self.units.get(name)
        if record is None:
            raise Illegal("unknown unit")
        before = record.node
        match fact:
            case UnitPlaced():
                _place(record, fact)
            case UnitRunning():
                _expect(record, record.phase == "placed", "unit was not placed")
                _expect(record, record.generation == fact.generation, "old generation")
                record.phase, record.down = "running", None
            case UnitDown():
                _take_down(record, fact, domain)
            case UnitWaiting():
                _expect(record, record.phase == "waiting", "unit does not wait")
                record.announced = True
            case UnitHeld():
                _expect(record, record.phase == "waiting", "unit is not down")
                record.phase = "held"
            case UnitReleased():
                _expect(record, record.phase == "held", "unit is not held")
                record.phase, record.down = "waiting", None
                record.forget_failures()
            case UnitParked():
                _park(record)
            case _:
                assert_never(fact)
        self.index.moved(name, record, before, fact.at)


def _expect(record: UnitRecord, holds: bool, why: str) -> None:
    if not holds:
        raise Illegal(f"{why} ({record.phase})")


def _place(record: UnitRecord, fact: UnitPlaced) -> None:
    _expect(record, record.phase == "waiting", "unit does not wait")
    _expect(record, fact.generation == record.generation + 1, "generation is not the next")
    record.phase, record.generation = "placed", fact.generation
    record.node, record.incarnation = fact.node, fact.incarnation
    record.placed_at, record.announced = fact.at, False


def _park(record: UnitRecord) -> None:
    if record.node is not None:
        record.home, record.home_domain = record.node, ""
    if record.phase != "held":
        record.phase = "waiting"
    record.node = record.incarnation = record.down = None
    record.announced = False


def _take_down(record: UnitRecord, fact: UnitDown, domain: str) -> None:
    _expect(record, record.phase in ("placed", "running"), "unit is not up")
    _expect(record, record.generation == fact.generation, "old generation")
    record.phase, record.node, record.incarnation = "waiting", None, None
    record.home, record.home_domain = fact.node, domain
    record.down, record.retry_at = fact.reason, fact.retry_at
    match fact.reason:
        case "node lost" | "left behind":
            record.crashes = (*record.crashes, fact.at)[-HISTORY_LENGTH:]
            return
        case "no space":
            record.shortages = (*record.shortages, fact.at)[-HISTORY_LENGTH:]
        case "stalled" | "never started":
            record.stalls += 1
            record.errors = (*record.errors, fact.at)[-HISTORY_LENGTH:]
        case "error" | "stopped by itself":
            record.errors = (*record.errors, fact.at)[-HISTORY_LENGTH:]
        case _:
            assert_never(fact.reason)
    record.operator, record.error = fact.operator, fact.error
