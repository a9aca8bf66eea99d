"""What readers saw of the loss of a leader whose follower went on.

Nothing is detected, restored or replayed there, so there is no recovery to measure. What counts is
by how much a slice was later than usual, up to the first one in time: that is what a plan promises
of a unit with a hot follower. How long after the kill the next slice came, due or not, is told
beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.prove.judge import Failure, Normal, Pace, Recovered, SeenSlice, percentile


def measure_failover(
    fault: int, failure: Failure, pace: Pace, normal: Normal, slices: Sequence[SeenSlice]
) -> Recovered:
    """How late slices were after the loss of a leader, from those of its unit, in order."""
    fresh = [item for item in slices if item.put_at > failure.killed_at]
    last = next(
        (n for n, item in enumerate(fresh) if pace.lag(item) <= pace.interval_s + normal.median),
        None,
    )
    seen = fresh if last is None else fresh[: last + 1]
    later = max((pace.delay(item) - normal.median for item in seen), default=0.0)
    return Recovered(
        fault=fault,
        unit=failure.unit,
        killed_at=failure.killed_at,
        seconds=None if last is None else max(0.0, later),
        settled=None if last is None else seen[-1].put_at - failure.killed_at,
        late_slices=sum(pace.delay(item) > normal.limit for item in seen),
        hot=True,
        next_slice=fresh[0].put_at - failure.killed_at if fresh else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failovers:
    """All losses of leaders whose followers went on."""

    recoveries: tuple[Recovered, ...]

    @classmethod
    def of(cls, recoveries: Iterable[Recovered]) -> Failovers | None:
        """None: no unit that was hit had a follower."""
        hot = tuple(item for item in recoveries if item.hot)
        return cls(recoveries=hot) if hot else None

    @property
    def next_slice(self) -> list[float]:
        return [item.next_slice for item in self.recoveries if item.next_slice is not None]

    @property
    def in_time(self) -> int:
        """Those after which no slice was late."""
        return sum(item.seconds is not None and not item.late_slices for item in self.recoveries)

    def words(self) -> str:
        """What the loss of leaders did to their streams, in a line."""
        told = self.to_json()
        later, after = told["later_than_usual"], told["next_slice"]
        return (
            f"failovers: {self.in_time} of {told['n']} without a late slice; later than usual by "
            f"{_seconds(later['median'])} (p95 {_seconds(later['p95'])}), next slice after "
            f"{_seconds(after['median'])} (p95 {_seconds(after['p95'])})"
        )

    def to_json(self) -> dict[str, Any]:
        later = [item.seconds for item in self.recoveries if item.seconds is not None]
        return {
            "n": len(self.recoveries),
            "in_time": self.in_time,
            "later_than_usual": _both(later),
            "next_slice": _both(self.next_slice),
        }


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _both(values: Sequence[float]) -> dict[str, float | None]:
    return {
        "median": percentile(values, 50) if values else None,
        "p95": percentile(values, 95) if values else None,
    }
