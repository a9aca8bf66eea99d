"""The default policy: the smallest shape that will hold what arrives and what has piled up.

Problem: given the rates at which rows arrive for every state partition, the work per row and what
waits, choose blocks so that no shard is overloaded, with few changes. Reading: a shard's load is
the share of its time that its rows take, plus what catching up within `drain_s` takes,

    floor + row_s * (rate + backlog / drain_s).

If a shard of the present shape is above `high`, the smallest shape whose shards are all below
`target` is taken; blocks are halved where the load is, so a hot key group gets a shard for itself.
If the rates of the last `calm_s` at their highest, partition by partition, would leave a smaller
shape below `low`, that is taken. As `low` < `target` < `high`, a shape that was just chosen is left
alone until the load has changed by the distance between them; and a shape is kept for `settle_s`
in any case, in which its backlog is worked off. A step is bounded.
O(shards * partitions) per shape that is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.control.elastic.load import Decision, Limits, LoadReport, Reason, Rescale, Stuck
from holdfast.deployment.blocks import Block, reshape

_HOT = 0.5
"""A partition with more than this share of its shard's rows stands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictPolicy:
    """Implements `ScalingPolicy`."""

    high: float = 0.85
    """Load above which a shard is too busy."""
    target: float = 0.7
    """Load of the busiest shard that a larger shape may have."""
    low: float = 0.5
    """Load of the busiest shard that a smaller shape may have."""
    drain_s: float = 60.0
    """How soon a backlog is to be worked off, seconds."""
    settle_s: float = 15.0
    """How long a shape is kept before a larger one is taken, seconds."""
    calm_s: float = 90.0
    """How long a smaller shape must have been enough, and how long one is kept before it."""
    most_step: int = 4
    """How many times as many shards, or as few, one change may bring: predictions err, too."""
    reports: int = 2
    """Reports whose mean counts as what arrives now: one alone may be a moment's."""

    def __post_init__(self) -> None:
        if not 0 < self.low < self.target < self.high:
            raise ValueError("a policy needs low < target < high, or it swings")

    @property
    def memory_s(self) -> float:
        return self.calm_s

    def decide(
        self, reports: Sequence[LoadReport], limits: Limits, *, changed_at: float | None
    ) -> Decision:
        if len(reports) < self.reports:
            return None
        now = reports[-1]
        age = now.at - (reports[0].at if changed_at is None else changed_at)
        most = min(limits.most, now.shape[0].of)
        rates = _mean([one.rates for one in reports[-self.reports :]])
        load = _load(now, rates, drain_s=self.drain_s)
        busiest = max(now.shape, key=load)
        if load(busiest) > self.high:
            # Before anything is known of a new shape, its own backlog is its parents'.
            early = changed_at is not None and age < self.settle_s
            return None if early else self._larger(now, load, busiest, rates, most)
        if age < self.calm_s or len(now.shape) <= limits.least:
            return None
        recent = [one.rates for one in reports if now.at - one.at <= self.calm_s]
        return self._smaller(now, _peak(recent), limits)

    def _larger(
        self,
        now: LoadReport,
        load: Callable[[Block], float],
        busiest: Block,
        rates: Sequence[float],
        most: int,
    ) -> Decision:
        shards = len(now.shape)
        reason = _why(now, load, busiest, rates, self.high)
        tried = range(shards + 1, min(self.most_step * shards, most) + 1)
        # A shape that lowers nothing costs a shard for nothing: blocks may be too hot to halve.
        better = [
            shape
            for shape in (reshape(now.shape, number, load) for number in tried)
            if max(map(load, shape)) < load(busiest)
        ]
        enough = [shape for shape in better if max(map(load, shape)) <= self.target]
        if enough:
            return Rescale(operator=now.operator, shape=enough[0], reason=reason)
        if better:
            best = min(better, key=lambda shape: (max(map(load, shape)), len(shape)))
            return Rescale(operator=now.operator, shape=best, reason=reason)
        return Stuck(operator=now.operator, reason=reason)

    def _smaller(self, now: LoadReport, peak: Sequence[float], limits: Limits) -> Decision:
        load = _load(now, peak, drain_s=self.drain_s)
        shards = len(now.shape)
        for number in range(max(limits.least, -(-shards // self.most_step)), shards):
            shape = reshape(now.shape, number, load)
            highest = max(map(load, shape))
            if highest <= self.low:
                text = f"{number} shards at {highest:.0%} hold what came in {self.calm_s:.0f} s"
                reason = Reason(kind="underused", text=text)
                return Rescale(operator=now.operator, shape=shape, reason=reason)
        return None


def _load(
    report: LoadReport, rates: Sequence[float], *, drain_s: float
) -> Callable[[Block], float]:
    """The load of a block, there or not: rows by partition, and what waits for their owners."""
    waiting = [0.0] * len(rates)
    for shard in report.shards:
        owned = range(shard.block.first, shard.block.stop)
        arrived = sum(rates[p] for p in owned)
        for p in owned:
            # What waits was what arrived: it is shared out as the rates are.
            share = rates[p] / arrived if arrived else 1 / shard.block.count
            waiting[p] = shard.backlog_rows * share

    def load(block: Block) -> float:
        owned = range(block.first, block.stop)
        rows = sum(rates[p] + waiting[p] / drain_s for p in owned)
        return report.floor + report.row_s * rows

    return load


def _why(
    now: LoadReport,
    load: Callable[[Block], float],
    busiest: Block,
    rates: Sequence[float],
    high: float,
) -> Reason:
    arrived = now.floor + now.row_s * sum(rates[busiest.first : busiest.stop])
    hot = max(range(busiest.first, busiest.stop), key=lambda p: rates[p])
    total = sum(rates[busiest.first : busiest.stop])
    stands_out = busiest.count == 1 or (total > 0 and rates[hot] / total > _HOT)
    where = f"; partition {hot} takes most of it" if stands_out else ""
    if arrived > high:
        text = f"a shard would work {arrived:.0%} of its time for what arrives{where}"
        return Reason(kind="overloaded", text=text, hot=hot if stands_out else None)
    text = (
        f"{now.backlog_rows:.0f} rows wait; to catch up in time takes {load(busiest):.0%} of a "
        f"shard{where}"
    )
    return Reason(kind="behind", text=text, hot=hot if stands_out else None)


def _mean(rates: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rates) for column in zip(*rates, strict=True)]


def _peak(rates: Sequence[Sequence[float]]) -> list[float]:
    return [max(column) for column in zip(*rates, strict=True)]
