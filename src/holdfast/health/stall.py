"""Decides when a unit that still answers has stopped working.

A unit is stalled when something waits that it could take, and neither a batch has ended nor any
work been seen for longer than its limit. An idle unit (nothing it could take) is never stalled,
however long it is quiet: what is not due does not wait.

The limit follows what is known of the unit: it is the largest of a fixed time, a multiple of the
longest batch seen lately and a multiple of its batch interval. Until the first batch of a
generation has ended the fixed time is `first_batch_s`, because a cold session compiles and loads
state. Work seen within a batch (`work` grows: processor time, tasks done) starts the limit anew, so
a long batch is not taken for a dead one; a process that is suspended or deadlocked shows none. A
batch that works and never ends, a loop without end, is given up at `most_s`.

Killing costs a start, so a limit that is too short would be met again and again. Each stall of the
same unit without progress in between doubles both limits, the first up to `most_s`.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_DOUBLINGS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class StallPolicy:
    """How long a unit may go without a batch while it could take one."""

    stall_s: float = 30.0
    """Least limit, for a unit whose batches are short."""
    batches: float = 10.0
    """Limit as a multiple of the longest batch seen lately."""
    intervals: float = 3.0
    """Limit as a multiple of the unit's batch interval."""
    first_batch_s: float = 90.0
    """Least limit until the first batch of a generation has ended."""
    most_s: float = 1800.0
    """How long a batch may last that shows work all the time. Doubled limits end here too."""

    def __post_init__(self) -> None:
        times = (self.stall_s, self.batches, self.intervals, self.first_batch_s, self.most_s)
        if min(times) <= 0:
            raise ValueError("a stall policy's times must be positive")


class StallDetector:
    """Follows one generation of one unit."""

    FADE = 0.9
    """The longest batch is forgotten by a tenth with every batch that ends."""

    def __init__(
        self, *, policy: StallPolicy, now: float, interval_s: float = 0.0, longest_s: float = 0.0
    ) -> None:
        self._policy = policy
        self._interval_s = interval_s
        self._batch: int | None = None
        self._work: int | None = None
        self._since = now
        self._worked = now
        self._ended = False
        self._longest_s = longest_s
        self._waiting = 0

    def observe(
        self, *, batch: int, batch_s: float, waiting: int, now: float, work: int = 0
    ) -> None:
        """The unit reported: last batch, its length, epochs it could take, a measure of work."""
        if self._batch is None:
            # The number found at the start is the log's end, not work of this generation.
            self._batch = batch
        elif batch > self._batch:
            self._batch = batch
            self._ended = True
            self._longest_s = max(self._longest_s * self.FADE, batch_s)
            self._since = now
        if waiting <= 0 or self._waiting <= 0:
            # The limit counts from when work arrives, not from when the unit fell idle.
            self._since = now
        if work != self._work:
            self._work = work
            self._worked = now
        self._waiting = waiting

    def forgive(self, now: float) -> None:
        """Count from now: the observer was absent."""
        self._since = max(self._since, now)

    @property
    def since(self) -> float:
        """Since when nothing has been done, though it could have been."""
        return max(self._since, self._worked)

    @property
    def longest_s(self) -> float:
        """The longest batch seen lately, for the generation that follows."""
        return self._longest_s

    def limit_s(self, stalls: int = 0) -> float:
        """How long it may show no work, after so many stalls without progress in between."""
        return self._limit_s(stalls, ended=self._ended)

    def _limit_s(self, stalls: int, *, ended: bool) -> float:
        policy = self._policy
        base = max(
            policy.stall_s if ended else policy.first_batch_s,
            policy.batches * self._longest_s,
            policy.intervals * self._interval_s,
        )
        return min(base * _doubled(stalls), max(base, policy.most_s))

    def deadline(self, stalls: int = 0) -> float | None:
        """When it is stalled unless it does something; None: nothing waits."""
        if self._waiting <= 0:
            return None
        limit = self.limit_s(stalls)
        most = max(limit, self._policy.most_s * _doubled(stalls))
        return min(self.since + limit, self._since + most)

    def describe(self, now: float, stalls: int = 0) -> str:
        """Why it is stalled, in one sentence, and how long the next generation gets."""
        epochs = "1 epoch" if self._waiting == 1 else f"{self._waiting} epochs"
        quiet, limit = now - self.since, self.limit_s(stalls)
        if quiet >= limit:
            what = f"no work seen for {quiet:.0f} s (limit {limit:.0f} s)"
        else:
            what = "it works, but ends no batch"
        following = self._limit_s(stalls + 1, ended=False)
        return (
            f"{epochs} could be taken and no batch has ended for {now - self._since:.0f} s: {what};"
            f" the next limit is {following:.0f} s"
        )


def _doubled(stalls: int) -> float:
    return 2.0 ** min(max(stalls, 0), MAX_DOUBLINGS)
