"""What a unit tells its host."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId


class Progress:
    """The report of one generation of a unit, from its start on.

    It is replaced as a whole: several threads write, and nobody who reads sees half of a change.
    """

    def __init__(self, unit: UnitId, generation: int) -> None:
        self._lock = threading.Lock()
        self._report = UnitReport(unit=unit, generation=generation, state="starting")

    @property
    def report(self) -> UnitReport:
        return self._report

    def tell(self, **changes: Any) -> UnitReport:
        """Change fields of the report; gives it as it is then."""
        with self._lock:
            self._report = replace(self._report, **changes)
            return self._report

    def add(self, *, rows_in: int = 0, rows_out: int = 0) -> None:
        """Count rows."""
        with self._lock:
            known = self._report
            self._report = replace(
                known, rows_in=known.rows_in + rows_in, rows_out=known.rows_out + rows_out
            )
