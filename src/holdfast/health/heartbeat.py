"""Decides when a silent node is to be taken for dead.

Two detectors with one interface. `FixedTimeout` suspects after a set silence. `PhiAccrual` follows
Hayashibara, Defago, Yared and Katayama, "The phi accrual failure detector" (SRDS 2004): it learns
the distribution of the gaps between heartbeats and suspects once a gap as long as the present
silence has become improbable.

Our reading: gaps are taken as normally distributed with the mean and deviation of the last
`window` ones, phi(t) = -log10 P(gap > t), and a node is suspected when phi reaches a threshold
(8: one false alarm in 10^8 gaps, were the model exact). The model is never exact (a Java virtual
machine that starts next door stretches gaps tenfold), so silence is always forgiven below
`floor_s` and never above `ceiling_s`. Both detectors are cheap: O(window) memory, O(1) a beat
(running sums), O(1) a question.

Suspecting too early costs a needless recovery, never a wrong result: fencing rests on records.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, Protocol


class HeartbeatDetector(Protocol):
    """Hears beats and answers whether the silence since the last one means death."""

    def beat(self, now: float) -> None:
        """A heartbeat arrived."""
        ...

    def forgive(self, now: float) -> None:
        """Count the silence from now, without learning from the gap (we were absent, not it)."""
        ...

    def silence_s(self, now: float) -> float: ...

    def suspects(self, now: float) -> bool: ...

    def trusts_until(self) -> float:
        """Before this moment it suspects nothing, whatever happens: no need to ask."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatPolicy:
    """How silence is judged."""

    kind: Literal["fixed", "adaptive"] = "adaptive"
    timeout_s: float = 3.0
    """Silence a fixed detector allows."""
    phi: float = 8.0
    """Threshold of an adaptive detector."""
    floor_s: float = 1.5
    """An adaptive detector never suspects below this silence."""
    ceiling_s: float = 6.0
    """An adaptive detector always suspects at this silence."""
    window: int = 100
    """Gaps an adaptive detector remembers."""

    def __post_init__(self) -> None:
        if not 0 < self.floor_s <= self.ceiling_s:
            raise ValueError("0 < floor_s <= ceiling_s must hold")
        if self.timeout_s <= 0 or self.window < 2 or self.phi <= 0:
            raise ValueError("timeout_s and phi must be positive, window at least 2")


def detector(policy: HeartbeatPolicy, now: float) -> HeartbeatDetector:
    """A detector for a node heard of just now."""
    if policy.kind == "fixed":
        return FixedTimeout(timeout_s=policy.timeout_s, now=now)
    return PhiAccrual(policy=policy, now=now)


class FixedTimeout:
    """Suspects after `timeout_s` of silence."""

    def __init__(self, *, timeout_s: float, now: float) -> None:
        self._timeout_s = timeout_s
        self._last = now

    def beat(self, now: float) -> None:
        self._last = max(self._last, now)

    def forgive(self, now: float) -> None:
        self.beat(now)

    def silence_s(self, now: float) -> float:
        return max(0.0, now - self._last)

    def suspects(self, now: float) -> bool:
        return self.silence_s(now) >= self._timeout_s

    def trusts_until(self) -> float:
        return self._last + self._timeout_s


class PhiAccrual:
    """Suspects once a gap as long as the present silence is improbable."""

    MIN_GAPS = 8
    """Below this many gaps nothing has been learnt and only the ceiling counts."""
    MIN_DEVIATION = 0.1
    """Least deviation, as a share of the mean gap: a regular clock must not make it nervous."""

    def __init__(self, *, policy: HeartbeatPolicy, now: float) -> None:
        self._policy = policy
        self._last = now
        self._gaps: deque[float] = deque(maxlen=policy.window)
        self._sum = 0.0
        self._squares = 0.0

    def beat(self, now: float) -> None:
        gap = now - self._last
        if gap < 0:
            return
        self._last = now
        if len(self._gaps) == self._gaps.maxlen:
            oldest = self._gaps[0]
            self._sum -= oldest
            self._squares -= oldest * oldest
        self._gaps.append(gap)
        self._sum += gap
        self._squares += gap * gap

    def forgive(self, now: float) -> None:
        self._last = max(self._last, now)

    def silence_s(self, now: float) -> float:
        return max(0.0, now - self._last)

    def phi(self, now: float) -> float:
        """How surprising the present silence is: -log10 of the chance of one as long."""
        count = len(self._gaps)
        if count < self.MIN_GAPS:
            return 0.0
        mean = self._sum / count
        variance = max(0.0, self._squares / count - mean * mean)
        deviation = max(math.sqrt(variance), self.MIN_DEVIATION * mean, 1e-6)
        score = (self.silence_s(now) - mean) / deviation
        chance = 0.5 * math.erfc(score / math.sqrt(2.0))
        # erfc underflows near a score of 38; beyond it surprise is as good as certain.
        return -math.log10(chance) if chance > 0.0 else math.inf

    def suspects(self, now: float) -> bool:
        silence = self.silence_s(now)
        if silence < self._policy.floor_s:
            return False
        return silence >= self._policy.ceiling_s or self.phi(now) >= self._policy.phi

    def trusts_until(self) -> float:
        return self._last + self._policy.floor_s
