"""The part of the state that is recovery's: the phases of every repair."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from holdfast.control.events import Unit
from holdfast.control.facts import DownReason, RecoveryBegan, RecoveryCaughtUp, RecoveryRestored
from holdfast.control.state.illegal import Illegal, expect
from holdfast.deployment import UnitId

RECOVERIES_LENGTH = 400
"""Recoveries kept after they are over; those under way are kept in any case."""

Outcome = Literal["open", "caught up", "superseded", "held", "abandoned"]


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
class RecoveryState:
    """Those under way and the last ones that ended."""

    under_way: dict[str, Recovery] = field(default_factory=dict)
    """By text of the unit id."""
    closed: list[Recovery] = field(default_factory=list)
    """In the order in which they ended."""
    next_id: int = 1

    def of(self, unit: UnitId) -> Recovery | None:
        """The one under way for a unit."""
        return self.under_way.get(str(unit))

    def begin(self, fact: RecoveryBegan) -> None:
        expect(fact.recovery == self.next_id, "recovery id is not the next")
        # The unit failed again before the last recovery was done: this one goes on for it.
        self.close(fact.unit, "superseded", fact.at)
        self.next_id += 1
        self.under_way[str(fact.unit)] = Recovery(
            id=fact.recovery,
            unit=fact.unit,
            reason=fact.reason,
            cause=fact.cause,
            from_node=fact.node,
            failed_at=fact.failed_at,
            detected_at=fact.at,
            epoch=fact.epoch,
        )

    def restore(self, fact: RecoveryRestored) -> None:
        found = self._open(fact)
        self.under_way[str(fact.unit)] = replace(
            found,
            restored_at=fact.at,
            to_node=fact.node,
            generation=fact.generation,
            epoch=max(found.epoch, fact.epoch),
        )

    def catch_up(self, fact: RecoveryCaughtUp) -> None:
        expect(self._open(fact).restored_at is not None, "caught up before restored")
        self.close(fact.unit, "caught up", fact.at)

    def close(self, unit: UnitId, outcome: Outcome, at: float) -> None:
        """A recovery is over, if the unit has one."""
        found = self.under_way.pop(str(unit), None)
        if found is None:
            return
        caught_up_at = at if outcome == "caught up" else None
        self.closed.append(replace(found, outcome=outcome, closed_at=at, caught_up_at=caught_up_at))
        del self.closed[:-RECOVERIES_LENGTH]

    def _open(self, fact: RecoveryRestored | RecoveryCaughtUp) -> Recovery:
        found = self.of(fact.unit)
        if found is None or found.id != fact.recovery:
            raise Illegal("no such open recovery")
        return found
