"""What a node knows of its units, shared by its threads.

One thread asks the host, another one sends heartbeats; the board stands between them, so that a
stuck host never keeps a heartbeat back. It also refuses commands that are out of date.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId

STUCK_S = 5.0
"""A host that has not answered for this long is reported as having work it does not do."""
MAX_ERROR = 6000
"""Characters of a traceback that are sent; its end tells most."""


class Board:
    """Generations a node was told to run and the last status of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[UnitId, int] = {}
        self._reports: dict[UnitId, UnitReport] = {}
        self._polled_at: float | None = None

    def want(self, unit: UnitId, generation: int) -> bool:
        """A start was commanded; False if that generation or a later one is here already."""
        with self._lock:
            if self._wanted.get(unit, 0) >= generation:
                return False
            self._wanted[unit] = generation
            self._reports[unit] = UnitReport(unit=unit, generation=generation, state="starting")
            return True

    def unwant(self, unit: UnitId, generation: int) -> bool:
        """A stop was commanded; False if it concerns another generation than the present one."""
        with self._lock:
            if self._wanted.get(unit) != generation or unit not in self._reports:
                return False
            # `_wanted` stays: a late repetition of the start must not bring it back.
            del self._reports[unit]
            return True

    def failed(self, unit: UnitId, generation: int, error: str, operator: str) -> None:
        """The host refused to start a unit."""
        with self._lock:
            known = self._reports.get(unit)
            if known is not None and known.generation == generation:
                self._reports[unit] = replace(
                    known, state="failed", error=error[-MAX_ERROR:], operator=operator
                )

    def update(self, told: list[UnitReport], now: float) -> list[UnitReport]:
        """Take what the host says; gives the reports that changed in more than counters."""
        changed: list[UnitReport] = []
        with self._lock:
            self._polled_at = now
            for status in told:
                known = self._reports.get(status.unit)
                if known is None or known.generation != status.generation:
                    continue
                report = clipped(status)
                if known.state in ("failed", "stopped", "ended") and (
                    known.error or not report.error
                ):
                    continue  # it has ended; only a reason that comes late is news
                self._reports[status.unit] = report
                if (report.state, report.batch, report.error) != (
                    known.state,
                    known.batch,
                    known.error,
                ):
                    changed.append(report)
        return changed

    def reports(self, now: float) -> tuple[UnitReport, ...]:
        """The state of all units, for a heartbeat."""
        with self._lock:
            stuck = self._polled_at is not None and now - self._polled_at > STUCK_S
            return tuple(
                replace(report, waiting=max(1, report.waiting))
                if stuck and report.state == "running"
                else report
                for report in self._reports.values()
            )


def clipped(report: UnitReport) -> UnitReport:
    """A report with no more of its error than is sent."""
    if report.error is None or len(report.error) <= MAX_ERROR:
        return report
    return replace(report, error=report.error[-MAX_ERROR:])
