"""Where time comes from: the only module that reads the wall or monotonic clock for deciders.

Pure code takes `now` (seconds, float) as an argument; shells get it from a `Clock`. Tests and the
simulator use `ManualClock`.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of seconds that never runs backwards."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()


class WallClock:
    """Seconds since 1970, for stamps people read; may jump."""

    def now(self) -> float:
        return time.time()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("a clock cannot run backwards")
        self._now += seconds
