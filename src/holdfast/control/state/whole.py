"""The coordinator's durable state as a whole, and the one way it changes: `State.apply(fact)`.

Everything here is a function of the journal alone. What is known only for the moment (heartbeats,
progress, connections) is in `vitals`. Each machine has its part of it; here stands only what a
fact of one machine means for the part of another. An illegal transition raises with the story of
what led to it: it means that a decider is wrong, and going on would be guessing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from holdfast.control import facts as f
from holdfast.control.facts import Fact
from holdfast.control.state.fork_state import ForkState
from holdfast.control.state.illegal import Illegal, expect
from holdfast.control.state.node_state import NodeRecord, NodeState
from holdfast.control.state.path_state import PathState
from holdfast.control.state.recovery_state import Recovery, RecoveryState
from holdfast.control.state.run_state import RunState
from holdfast.control.state.unit_state import UnitRecord, UnitState
from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError

TIMELINE_LENGTH = 400
"""Facts kept for people to read; older ones are gone after the next compaction."""


class IllegalTransitionError(HoldfastError):
    """A fact that cannot follow from the state: a fault in a decider."""

    def __init__(self, fact: Fact, why: str, story: tuple[Fact, ...]) -> None:
        self.fact = fact
        self.story = story
        lines = "".join(f"\n  {entry}" for entry in story)
        super().__init__(f"{why}: {fact}; what led to it:{lines}")


@dataclass(slots=True, kw_only=True)
class State:
    """All that the journal says."""

    run: RunState
    node_state: NodeState = field(default_factory=NodeState)
    unit_state: UnitState = field(default_factory=UnitState)
    recovery_state: RecoveryState = field(default_factory=RecoveryState)
    path_state: PathState = field(default_factory=PathState)
    fork_state: ForkState = field(default_factory=ForkState)
    last_at: float = 0.0
    timeline: list[Fact] = field(default_factory=list)

    @classmethod
    def new(cls, pipeline: str, units: tuple[UnitId, ...] = ()) -> State:
        records = {str(unit): UnitRecord(unit=unit) for unit in units}
        return cls(run=RunState(pipeline=pipeline), unit_state=UnitState(units=records))

    # For those who look at the whole: the view, the invariants, the shell.

    @property
    def units(self) -> dict[str, UnitRecord]:
        """By text of the unit id, upstream first."""
        return self.unit_state.units

    @property
    def nodes(self) -> dict[str, NodeRecord]:
        return self.node_state.nodes

    @property
    def recoveries(self) -> list[Recovery]:
        """Those under way and the last ones that ended, oldest first."""
        known = [*self.recovery_state.closed, *self.recovery_state.under_way.values()]
        return sorted(known, key=lambda recovery: recovery.id)

    def unit(self, unit: UnitId) -> UnitRecord | None:
        return self.unit_state.of(unit)

    def story(self, unit: UnitId | None = None, length: int = 20) -> tuple[Fact, ...]:
        """The latest facts, of one unit if given."""
        chosen = [
            fact for fact in self.timeline if unit is None or getattr(fact, "unit", unit) == unit
        ]
        return tuple(chosen[-length:])

    def apply(self, fact: Fact) -> None:
        """Change the state by one fact."""
        try:
            self._apply(fact)
        except Illegal as error:
            story = self.story(getattr(fact, "unit", None))
            raise IllegalTransitionError(fact, str(error), story) from None
        self.last_at = max(self.last_at, fact.at)
        self.timeline.append(fact)
        del self.timeline[:-TIMELINE_LENGTH]

    def _apply(self, fact: Fact) -> None:
        match fact:
            # The frequent ones first: each case is a question.
            case f.UnitPlaced():
                node = self.node_state.live(fact.node, fact.incarnation)
                self.unit_state.change(fact)
                node.spare = False
                self.run.begun = True
            case f.UnitRunning() | f.UnitWaiting() | f.UnitReleased():
                self.unit_state.change(fact)
            case f.UnitDown():
                left = self.nodes.get(fact.node)
                self.unit_state.change(fact, left.domain if left is not None else "")
            case f.UnitPromoted():
                self.unit_state.promote(fact)
            case f.RecoveryBegan():
                self.recovery_state.begin(fact)
            case f.RecoveryRestored():
                self.recovery_state.restore(fact)
            case f.RecoveryCaughtUp():
                self.recovery_state.catch_up(fact)
                self.units[str(fact.unit)].stalls = 0
            case f.UnitHeld():
                self.unit_state.change(fact)
                self.recovery_state.close(fact.unit, "held", fact.at)
            case f.UnitParked():
                self.unit_state.change(fact)
                self.recovery_state.close(fact.unit, "abandoned", fact.at)
            case f.NodeJoined():
                self.node_state.join(fact)
            case f.NodeLost():
                expect(not self.unit_state.load(fact.node), "node still has units")
                expect(not self.fork_state.on_node(fact.node), "node still has units of a fork")
                self.node_state.lose(fact)
            case f.Opened():
                self.run.open(fact.launch, fact.at)
                self.unit_state.open(fact.at)
            case f.TermBegan():
                expect(fact.term > self.run.term, f"term {self.run.term} has begun before")
                self.run.term, self.run.coordinator = fact.term, fact.coordinator
            case f.Deployed():
                self.unit_state.deploy(fact.units, fact.at)
            case f.HandoverBegan():
                self.unit_state.hand_over(fact)
            case f.UnitEnded():
                self.unit_state.end(fact)
                self.recovery_state.close(fact.unit, "superseded", fact.at)
            case f.SplitOpened() | f.BreakerChanged() | f.PathPreferred() | f.PathTaken():
                self.path_state.change(fact)
            case f.PathLeft():
                for unit in fact.units:
                    self.recovery_state.close(unit, "superseded", fact.at)
                self.unit_state.leave(fact.units, fact.at)
            case f.ForkPlaced():
                self.node_state.live(fact.node, fact.incarnation)
                self.fork_state.apply(fact)
            case f.ForkBegan() | f.ForkRunning() | f.ForkDown() | f.ForkEnded():
                self.fork_state.apply(fact)
            case f.StopBegan():
                self.run.stopping = True
            case f.LaunchTrouble():
                self.run.trouble = fact.trouble
            case f.DomainLost() | f.ScalingNoted():
                pass
            case _:
                assert_never(fact)
