"""How benchmarks that take long say how far they are, and whether a figure keeps its bar."""

from __future__ import annotations

import time
from collections.abc import Callable


class Progress:
    """So many pieces of work that take about as long as each other."""

    def __init__(self, pieces: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._pieces, self._clock = pieces, clock
        self._done, self._began = 0, clock()

    def step(self) -> str:
        """One more is done: which, and how long the others will take by what these have taken."""
        self._done += 1
        took = self._clock() - self._began
        left = took / self._done * (self._pieces - self._done)
        return f"{self._done}/{self._pieces}, {_minutes(left)} left"


def verdict(
    what: str, value: float | None, *, most: float | None = None, least: float | None = None
) -> str:
    """A figure, the bar it is held against, and whether it keeps it."""
    bound = f"at most {most:g}" if most is not None else f"at least {least:g}"
    if value is None:
        return f"bar  {what}: not measured ({bound})"
    kept = value <= most if most is not None else least is not None and value >= least
    return f"bar  {what}: {value:.3g}, {bound}: {'kept' if kept else 'MISSED'}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
