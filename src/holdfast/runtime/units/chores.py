"""What a unit does besides its batches, and when: not while it makes up for a loss.

Trimming, removing what dead generations left and counting the bytes of state are due every so many
batches, and after a takeover that may well be in its first ones, when every unit of the lost node
wants the same cores. So they wait until the unit has made up for what it missed, or for a few
batches: a unit that never catches up must not fill the disk. What came due meanwhile is done once.
"""

from __future__ import annotations

MOST_BATCHES = 8
"""Batches of a generation after which chores wait no longer."""


class Chores:
    """Of one generation of a unit; its batches are made by one thread."""

    def __init__(self, most_batches: int = MOST_BATCHES) -> None:
        self._left = most_batches
        self._calm = False
        self._owed: set[str] = set()

    def made_batch(self, *, behind: bool) -> None:
        """A batch was made; `behind`: there is input for another one already."""
        self._left -= 1
        self._calm = self._calm or not behind or self._left <= 0

    def take(self, name: str, *, due: bool) -> bool:
        """Whether to do a chore now: it is due, or was due while it had to wait."""
        if due:
            self._owed.add(name)
        if not self._calm or name not in self._owed:
            return False
        self._owed.remove(name)
        return True
