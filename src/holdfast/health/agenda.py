"""When to look at what, so that passing time costs only what is due.

A thousand nodes and ten thousand units each have a moment before which nothing can be wrong with
them. Looking at all of them at every tick costs their number; an agenda costs what is due. Moments
mostly move into the future (with every heartbeat), so that is free: an entry is looked at when its
old moment comes, and whoever looks sets the new one. O(log n) to set an earlier moment, O(1) to set
a later one, O(log n) per entry that is due.
"""

from __future__ import annotations

import heapq

SLACK = 64
"""Entries out of date that may always lie around."""


class Agenda:
    """Names, each with the moment at which to look at it."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def set(self, name: str, at: float) -> None:
        """Look at `name` no later than `at`; an earlier moment set before stays."""
        known = self._at.get(name)
        if known is not None and known <= at:
            return
        self._at[name] = at
        heapq.heappush(self._heap, (at, name))
        if len(self._heap) > 2 * len(self._at) + SLACK:
            self._heap = [(moment, key) for key, moment in self._at.items()]
            heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        self._at.pop(name, None)

    def due(self, now: float, most: int = 1 << 30) -> list[str]:
        """What is to be looked at now, taken off the agenda: set it again if it is to stay.

        At most so many, the most overdue first; the others are given next time.
        """
        found: list[str] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            at, name = heapq.heappop(self._heap)
            if self._at.get(name) == at:
                del self._at[name]
                found.append(name)
        return found
