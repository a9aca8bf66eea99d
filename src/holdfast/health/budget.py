"""Bounds how often something is tried again.

A unit that fails at once each time it is started must not be restarted for ever: it would hide its
error and wear out its node. A budget allows `limit` restarts within any `window_s` seconds and
spaces them: the first at once, then `delay_s`, doubled each time up to `max_delay_s`. It is a
value; the history of failures is the caller's (and the journal's), so that a restarted coordinator
forgets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBudget:
    """At most `limit` restarts in any `window_s` seconds."""

    limit: int
    window_s: float
    delay_s: float = 0.5
    max_delay_s: float = 10.0

    def __post_init__(self) -> None:
        if self.limit < 0 or self.window_s <= 0 or self.delay_s < 0 or self.max_delay_s < 0:
            raise ValueError("a budget's limit and times must not be negative")

    def recent(self, failures: Sequence[float], now: float) -> tuple[float, ...]:
        """The failures that still count; never more than decide anything."""
        kept = tuple(at for at in failures if now - at < self.window_s)
        return kept[-(self.limit + 1) :]

    def allows(self, failures: Sequence[float], now: float) -> bool:
        """Whether to restart after the given failures, the present one included."""
        return len(self.recent(failures, now)) <= self.limit

    def delay(self, failures: Sequence[float], now: float) -> float:
        """Seconds to wait before the restart that answers the last of the given failures."""
        earlier = len(self.recent(failures, now)) - 1
        if earlier <= 0:
            return 0.0
        # The exponent is bounded by the limit's own size, but a float overflows at 1024.
        return min(self.max_delay_s, self.delay_s * 2.0 ** min(earlier - 1, 64))
