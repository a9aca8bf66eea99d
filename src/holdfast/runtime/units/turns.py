"""So many at once, in the order in which they asked.

When a node takes over many units, more queries that are built at once than there are cores only
delay each other: the first would run no sooner than the last. So they take turns, upstream first.
"""

from __future__ import annotations

import threading


class Turns:
    """Hands out places; thread-safe."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._next = 0
        self._waiting: set[int] = set()
        self._changed = threading.Condition()

    def ask(self) -> int:
        """Get in line; whoever asked must enter or withdraw."""
        with self._changed:
            ticket, self._next = self._next, self._next + 1
            self._waiting.add(ticket)
            return ticket

    def enter(self, ticket: int) -> None:
        """Wait until it is one's turn and a place is free, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 and ticket == min(self._waiting))
            self._waiting.remove(ticket)
            self._free -= 1
            self._changed.notify_all()

    def withdraw(self, ticket: int) -> None:
        """Leave the line without having had a place."""
        with self._changed:
            self._waiting.discard(ticket)
            self._changed.notify_all()

    def leave(self) -> None:
        """Give a place back."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()
