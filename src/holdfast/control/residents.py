"""What a node runs: exact units and those of a fork, each told to who takes care of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from holdfast.control.events import UnitReport
from holdfast.control.outlet import Moment
from holdfast.control.units import Overdue, UnitLife


class Forks(Protocol):
    """Who takes care of the units of a fork."""

    def connected(
        self, moment: Moment, node: str, incarnation: str, reports: Iterable[UnitReport]
    ) -> None: ...

    def heard(
        self, moment: Moment, node: str, incarnation: str, reports: Iterable[UnitReport]
    ) -> None: ...

    def node_gone(self, moment: Moment, node: str) -> None: ...


class Residents:
    """Decides nothing: every report goes to the machine that it concerns."""

    def __init__(self, *, units: UnitLife, forks: Forks) -> None:
        self._units, self._forks = units, forks

    def load(self, node: str) -> int:
        """Units that take up room; one of a fork stands in for an exact one that waits."""
        return self._units.load(node)

    def connected(
        self, moment: Moment, node: str, incarnation: str, reports: tuple[UnitReport, ...]
    ) -> None:
        exact, forked = _split(reports)
        self._units.connected(moment, node, incarnation, exact)
        self._forks.connected(moment, node, incarnation, forked)

    def heard(
        self, moment: Moment, node: str, incarnation: str, reports: tuple[UnitReport, ...]
    ) -> None:
        exact, forked = _split(reports)
        self._units.heard(moment, node, incarnation, exact)
        if forked:
            self._forks.heard(moment, node, incarnation, forked)

    def node_left(self, moment: Moment, node: str) -> None:
        self._forks.node_gone(moment, node)
        self._units.node_left(moment, node)

    def node_lost(
        self, moment: Moment, node: str, *, failed_at: float, culprits: Mapping[str, Overdue]
    ) -> None:
        self._forks.node_gone(moment, node)
        self._units.node_lost(moment, node, failed_at=failed_at, culprits=culprits)

    def overdue(self, moment: Moment, most: int) -> list[Overdue]:
        return self._units.overdue(moment, most)


def _split(
    reports: tuple[UnitReport, ...],
) -> tuple[tuple[UnitReport, ...], tuple[UnitReport, ...]]:
    """Exact ones and those of forks; mostly there is no fork, and nothing is copied."""
    forked = tuple(report for report in reports if report.unit.fork is not None)
    if not forked:
        return reports, ()
    return tuple(report for report in reports if report.unit.fork is None), forked
