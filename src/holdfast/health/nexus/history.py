"""What was heard of one operator: samples of its heartbeats, bounded in number and in age."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WINDOW_S = 120.0
MOST = 2048
"""Samples kept: sixteen a second for longer than the window. A node that is judged tells of itself
eight times a second, and of each batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One heartbeat's worth of one operator. What is not measured is None."""

    at: float
    """Seconds, of any clock that runs evenly."""
    waiting: int = 0
    """Items (rows or epochs, always the same) that could be processed and are not."""
    arrived: int | None = None
    """Items that have ever come to it."""
    taken: int = 0
    """Items it has ever taken in."""
    given: int = 0
    """Items it has ever given out, or batches if it may rightly give out none."""
    rows: int | None = None
    """Rows it has ever taken in, if items are something else: its load."""
    errors: int = 0
    """Errors ever."""
    cpu: float | None = None
    """Share of one core that its process uses."""
    memory_bytes: int | None = None
    """Of its process."""
    batch_ms: float | None = None
    """Duration of its last batch, milliseconds."""
    suspended: int = 0
    """Processes of it that are stopped."""


class History:
    """Samples, oldest first."""

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[Sample] = deque(maxlen=MOST)
        self._errors: deque[tuple[float, int]] = deque(maxlen=MOST)
        """When there were how many ever, each time they became more: an error ends a process, so
        these are of all processes."""

    def add(self, sample: Sample) -> None:
        """Drops a sample that is not newer than the last one; counters that fell begin anew."""
        last = self.last
        if last is not None:
            if sample.at <= last.at:
                return
            if sample.taken < last.taken or sample.given < last.given:
                # Another process counts from 0: what was before says nothing about it.
                self._samples.clear()
        self._samples.append(sample)
        self._count_errors(sample)
        while self._samples[0].at < sample.at - self._window_s:
            self._samples.popleft()

    def _count_errors(self, sample: Sample) -> None:
        if self._errors and sample.errors < self._errors[-1][1]:
            self._errors.clear()
        if not self._errors or sample.errors > self._errors[-1][1]:
            self._errors.append((sample.at, sample.errors))

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def last(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    @property
    def span_s(self) -> float:
        """From the first sample to the last."""
        return self._samples[-1].at - self._samples[0].at if self._samples else 0.0

    def recent(self, span_s: float) -> list[Sample]:
        """The samples of the last `span_s` seconds, and the one before, oldest first."""
        found: list[Sample] = []
        for sample in reversed(self._samples):
            found.append(sample)
            if sample.at <= self._samples[-1].at - span_s:
                break
        return found[::-1]

    def covers(self, span_s: float) -> bool:
        """Whether there are samples of all of the last `span_s` seconds."""
        return len(self) > 1 and self.span_s >= span_s

    def held(self, span_s: float, condition: Callable[[Sample], bool]) -> bool:
        """Whether something was so in every sample of the last `span_s` seconds."""
        return self.covers(span_s) and all(condition(sample) for sample in self.recent(span_s))

    def gained(self, span_s: float, count: Callable[[Sample], int]) -> int:
        """By how much a counter has grown in the last `span_s` seconds."""
        samples = self.recent(span_s)
        return count(samples[-1]) - count(samples[0]) if samples else 0

    def errors(self, span_s: float) -> int:
        """How many errors there were in the last `span_s` seconds, whatever process made them."""
        if self.last is None:
            return 0
        counts = [count for at, count in self._errors if at <= self.last.at - span_s]
        return self._errors[-1][1] - (counts[-1] if counts else self._errors[0][1])

    def slope(self, span_s: float, value: Callable[[Sample], float]) -> float:
        """Least-squares trend of a value over the last `span_s` seconds, per second."""
        return slope([(sample.at, value(sample)) for sample in self.recent(span_s)])


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of points; 0 for fewer than two moments."""
    if not points:
        return 0.0
    x0 = sum(x for x, _ in points) / len(points)
    y0 = sum(y for _, y in points) / len(points)
    spread = sum((x - x0) ** 2 for x, _ in points)
    return sum((x - x0) * (y - y0) for x, y in points) / spread if spread > 0 else 0.0
