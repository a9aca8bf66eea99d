"""Streams that change hands: heirs are started before their parents end, and take their places.

What counts is on record (`holdfast.streams`); here is decided only who runs. A change is announced
when it was put, so that its children are placed, warm and waiting when their parents have come to
the handover epoch. Should the announcement be lost, a unit that has ended names its heirs itself.
Where units have hot followers their heirs have, too.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Never, Protocol

from holdfast.control.events import HandoverRequested, UnitReport
from holdfast.control.facts import HandoverBegan, HandoverFact, UnitEnded
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.state.unit_state import UnitRecord, UnitState
from holdfast.deployment import UnitId


class Signs(Protocol):
    """What it sees of signs of life."""

    def gone(self, unit: UnitId) -> None: ...


class Loads(Protocol):
    """Whom it tells that a node has room again."""

    def give_back(self, node: str, load: int) -> None: ...


class HandoverLife:
    """Sees units; decides who takes the place of whom, and gives no command."""

    def __init__(
        self,
        *,
        state: UnitState,
        signs: Signs,
        loads: Loads,
        replicated: Container[str],
        out: Outlet[HandoverFact, Never],
    ) -> None:
        """Args as the types say; `replicated`: segments whose heirs have followers."""
        self._replicated = replicated
        self._state = state
        self._signs = signs
        self._loads = loads
        self._out = out

    def begin(self, moment: Moment, event: HandoverRequested) -> None:
        """A change was put on record; telling it twice has no further effect."""
        children = self._with_followers(event.children)
        fresh = [unit for unit in children if not self._state.knows(unit)]
        if fresh:
            self._out.record(
                HandoverBegan(
                    at=moment.now,
                    cause=moment.cause,
                    stream=event.stream,
                    change=event.change,
                    parents=event.parents,
                    children=children,
                    reason=event.reason,
                    node=event.node,
                )
            )

    def ended(self, moment: Moment, record: UnitRecord, told: UnitReport) -> None:
        """A unit's current generation found that its log is sealed."""
        node = record.node
        self._signs.gone(record.unit)
        self._out.record(
            UnitEnded(
                at=moment.now,
                cause=moment.cause,
                unit=record.unit,
                generation=record.generation,
                heirs=self._with_followers([UnitId.parse(name) for name in told.heirs]),
            )
        )
        if node is not None:
            self._loads.give_back(node, self._state.load(node))

    def _with_followers(self, units: Sequence[UnitId]) -> tuple[UnitId, ...]:
        """Leaders first: their followers are put where they are not."""
        followers = [replace(one, replica=1) for one in units if one.segment in self._replicated]
        return (*units, *followers)
