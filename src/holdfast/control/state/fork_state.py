"""The part of the state that concerns forks: the one that lives, and those that have ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from holdfast.control.events import Unit
from holdfast.control.facts import (
    ForkBegan,
    ForkDown,
    ForkEnded,
    ForkFact,
    ForkPlaced,
    ForkRunning,
)
from holdfast.control.state.illegal import Illegal, expect

FORKS_LENGTH = 64
"""Forks remembered after they have ended."""


@dataclass(slots=True, kw_only=True)
class ForkUnit:
    """One unit of a fork."""

    unit: Unit
    generation: int = 0
    """The last one handed out; 0: none."""
    node: str | None = None
    """None: it is to be placed."""
    incarnation: str | None = None
    running: bool = False
    failures: int = 0
    """How often it has failed by itself."""
    error: str | None = None

    @property
    def was_down(self) -> bool:
        """It was placed, and not for good."""
        return self.generation > (self.node is not None)


@dataclass(slots=True, kw_only=True)
class ForkRecord:
    """One fork."""

    number: int
    began_at: float
    units: dict[str, ForkUnit]
    silent: tuple[Unit, ...]
    reason: str
    fidelity: tuple[tuple[str, float], ...] = ()
    ended_at: float | None = None
    why: str = ""
    """Why it has ended."""


@dataclass(slots=True, kw_only=True)
class ForkState:
    """At most one fork lives at a time: all that goes on tentatively belongs to it."""

    forks: list[ForkRecord] = field(default_factory=list)
    """Oldest first; the last one lives unless it has ended."""
    hopeless: bool = False
    """The last one ended though its input was gone: no other begins because of the same loss."""

    @property
    def live(self) -> ForkRecord | None:
        if self.forks and self.forks[-1].ended_at is None:
            return self.forks[-1]
        return None

    @property
    def next_number(self) -> int:
        """Numbers are never used again: names in a fork belong to one content."""
        return self.forks[-1].number + 1 if self.forks else 1

    def unit(self, unit: Unit) -> ForkUnit | None:
        """A unit of the fork that lives."""
        live = self.live
        return live.units.get(str(unit)) if live is not None else None

    def on_node(self, node: str) -> list[ForkUnit]:
        live = self.live
        return [] if live is None else [unit for unit in live.units.values() if unit.node == node]

    def apply(self, fact: ForkFact) -> None:
        match fact:
            case ForkBegan():
                expect(self.live is None, "a fork lives")
                expect(fact.fork == self.next_number, "fork number is not the next")
                self.hopeless = False
                self.forks.append(
                    ForkRecord(
                        number=fact.fork,
                        began_at=fact.at,
                        units={str(unit): ForkUnit(unit=unit) for unit in fact.units},
                        silent=fact.silent,
                        reason=fact.reason,
                        fidelity=fact.fidelity,
                    )
                )
                del self.forks[:-FORKS_LENGTH]
            case ForkPlaced():
                record = self._known(fact.unit)
                expect(record.node is None, "it is on a node")
                expect(fact.generation == record.generation + 1, "generation is not the next")
                record.generation, record.running = fact.generation, False
                record.node, record.incarnation = fact.node, fact.incarnation
            case ForkRunning():
                record = self._current(fact.unit, fact.generation)
                record.running = True
            case ForkDown():
                record = self._current(fact.unit, fact.generation)
                record.node = record.incarnation = None
                record.running = False
                record.failures += fact.failed
                record.error = fact.error or record.error
            case ForkEnded():
                live = self.live
                if live is None or live.number != fact.fork:
                    raise Illegal("no such fork lives")
                live.ended_at, live.why = fact.at, fact.reason
                self.hopeless = fact.hopeless
            case _:
                assert_never(fact)

    def _known(self, unit: Unit) -> ForkUnit:
        record = self.unit(unit)
        if record is None:
            raise Illegal("no such unit in the fork that lives")
        return record

    def _current(self, unit: Unit, generation: int) -> ForkUnit:
        record = self._known(unit)
        expect(record.node is not None and record.generation == generation, "old generation")
        return record
