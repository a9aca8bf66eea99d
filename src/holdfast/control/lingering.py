"""Units of paths that were left: told to end, and remembered until they have.

One that hangs or leaks goes on using its node after another path has been taken. So its node is the
last to get other units, and is killed when the unit takes too long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId

LINGER_S = 10.0
"""How long a unit of a path that was left may take to end before its node is killed."""
FORGET_S = 120.0
"""How long it is remembered that a unit was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """A unit that is not to run any more, and was told to end."""

    at: float
    node: str


class LeftUnits:
    """Generations of units that are not to run any more, as far as they may not have ended."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Left] = {}

    @property
    def nodes(self) -> frozenset[str]:
        """Where they are."""
        return frozenset(one.node for one in self._known.values())

    def leave(self, unit: UnitId, generation: int, node: str, now: float) -> None:
        """One is told to end now."""
        self._known[str(unit), generation] = _Left(at=now, node=node)

    def found(self, told: UnitReport, node: str, now: float) -> None:
        """One runs that somebody else has left, at the latest now."""
        self._known.setdefault(_key(told), _Left(at=now, node=node))

    def ended(self, told: UnitReport) -> None:
        """One does not run any more."""
        self._known.pop(_key(told), None)

    def heard(self, node: str, reports: Iterable[UnitReport]) -> None:
        """A node has said all that it runs: what it does not name has ended."""
        there = {_key(told) for told in reports}
        for key in [key for key, one in self._known.items() if one.node == node]:
            if key not in there:
                del self._known[key]

    def lingers(self, told: UnitReport, now: float) -> bool:
        """Whether one has taken too long to end; that is said once."""
        left = self._known.get(_key(told))
        if left is None or now - left.at < LINGER_S:
            return False
        del self._known[_key(told)]
        return True

    def forget(self, before: float) -> None:
        """Those that were left before have ended without another word."""
        for key in [key for key, one in self._known.items() if one.at < before]:
            del self._known[key]


def _key(told: UnitReport) -> tuple[str, int]:
    return str(told.unit), told.generation
