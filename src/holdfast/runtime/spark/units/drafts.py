"""Queries planned before they are wanted: those of forks, and those that a spare may take over.

To plan a query is the largest part of what the start of a unit costs, and it comes when every core
is wanted: nodes were just lost, and others are started in their places. What is planned depends on
the operators and on the shard alone, neither on the generation nor on the fork. So a spare plans
the query of each unit that it may take over; and where units may be forked, each one that runs
without haste has the query of its next fork planned beside it. That costs a fraction of a second
once and hardly any memory; who takes a query only has to say which records it reads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from py4j.protocol import Py4JError

from holdfast.runtime.spark.units.query import PlannedQuery

log = logging.getLogger("holdfast.spark")


class Drafts:
    """Of one node: at most one for each of its units; thread-safe."""

    def __init__(self, *, wanted: bool) -> None:
        """`wanted`: there may be somebody to take them."""
        self._wanted = wanted
        self._lock = threading.Lock()
        self._one = threading.Lock()
        """One is planned at a time: nobody waits for them."""
        self._ready: dict[str, PlannedQuery] = {}
        self._tried: set[str] = set()
        """Those that are being planned, are there, or could not be planned."""

    def ask(self, unit: str, plan: Callable[[], PlannedQuery]) -> None:
        """Have a unit's query planned, on a thread of its own, unless there is one."""
        if self._begin(unit):
            threading.Thread(
                target=self._make, args=(unit, plan), name=f"draft-{unit}", daemon=True
            ).start()

    def make(self, unit: str, plan: Callable[[], PlannedQuery]) -> None:
        """Plan a unit's query here and now, unless there is one."""
        if self._begin(unit):
            self._make(unit, plan)

    def _begin(self, unit: str) -> bool:
        with self._lock:
            begins = self._wanted and unit not in self._tried
            if begins:
                self._tried.add(unit)
            return begins

    def _make(self, unit: str, plan: Callable[[], PlannedQuery]) -> None:
        with self._one:
            try:
                query = plan()
            except Exception as error:  # noqa: BLE001 - who needs it plans it and says what is wrong
                log.warning("%s cannot be planned beforehand: %s", unit, error)
                return
        with self._lock:
            kept = self._wanted and unit in self._tried
            if kept:
                self._ready[unit] = query
        if not kept:
            _forget(query)

    def take(self, unit: str) -> PlannedQuery | None:
        """The query for a unit, if it is planned; another one may be asked for."""
        with self._lock:
            found = self._ready.pop(unit, None)
            if found is not None:
                self._tried.discard(unit)
            return found

    def drop(self, unit: str) -> None:
        """A unit runs here no longer."""
        with self._lock:
            self._tried.discard(unit)
            found = self._ready.pop(unit, None)
        if found is not None:
            _forget(found)

    def close(self) -> None:
        """None is wanted any more."""
        with self._lock:
            self._wanted = False
            units = list(self._ready)
        for unit in units:
            self.drop(unit)


def _forget(query: PlannedQuery) -> None:
    """Nobody waits for it, and Java may have gone with all it knew of it."""
    try:
        query.close()
    except (Py4JError, OSError) as error:
        log.debug("a query that was not needed: %s", error)
