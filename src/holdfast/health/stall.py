"""Decides when a unit that still answers has stopped working.

A unit is stalled when epochs wait for it and no batch has ended for longer than its patience. An
idle unit (nothing waits) is never stalled, however long it is quiet. Batches differ in length, so
the patience is the larger of a fixed time and a multiple of the longest batch seen lately; a unit
that has not finished its first batch yet gets `first_batch_s`, because a cold session compiles.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StallPolicy:
    """How long a unit may go without a batch while epochs wait."""

    stall_s: float = 30.0
    """Patience with a unit whose batches are short."""
    batches: float = 10.0
    """Patience as a multiple of the longest batch seen lately."""
    first_batch_s: float = 90.0
    """Patience until the first batch of a generation has ended."""

    def __post_init__(self) -> None:
        if min(self.stall_s, self.batches, self.first_batch_s) <= 0:
            raise ValueError("a stall policy's times must be positive")


class StallDetector:
    """Follows one generation of one unit."""

    FADE = 0.9
    """The longest batch is forgotten by a tenth with every batch that ends."""

    def __init__(self, *, policy: StallPolicy, now: float) -> None:
        self._policy = policy
        self._batch: int | None = None
        self._since = now
        self._ended = False
        self._longest_s = 0.0
        self._waiting = False

    def observe(self, *, batch: int, batch_s: float, waiting: int, now: float) -> None:
        """The unit reported: its last batch, how long that took, how many epochs wait."""
        if self._batch is None:
            # The number found at the start is the log's end, not work of this generation.
            self._batch = batch
        elif batch > self._batch:
            self._batch = batch
            self._ended = True
            self._longest_s = max(self._longest_s * self.FADE, batch_s)
            self._since = now
        if waiting <= 0 or not self._waiting:
            # Patience starts when work arrives, not when the unit fell idle.
            self._since = now
        self._waiting = waiting > 0

    def forgive(self, now: float) -> None:
        """Count from now: the observer was absent."""
        self._since = max(self._since, now)

    @property
    def since(self) -> float:
        """Since when nothing has been done, though asked for."""
        return self._since

    def patience_s(self) -> float:
        if not self._ended:
            return self._policy.first_batch_s
        return max(self._policy.stall_s, self._policy.batches * self._longest_s)

    def stalled(self, now: float) -> bool:
        return self._waiting and now - self._since >= self.patience_s()
