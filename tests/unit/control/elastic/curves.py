"""An operator under a load that changes, as far as a policy can see it; and the best that could be.

Rows arrive per state partition; a shard works off what comes to its block and keeps the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.control.elastic.load import Limits, LoadReport, Rescale, ShardLoad, Stuck
from holdfast.control.elastic.scaler import Autoscaler
from holdfast.deployment.blocks import even_blocks, reshape

MOST = 16
ROW_S = 1e-3
FLOOR = 0.1
REPORT_S = 5.0
PAUSE_S = 2.0
"""How long a rescaled shard stands still."""

WASTE = 2
"""How many times as many shards as would hold the load are too many, if that lasts."""

Curve = Callable[[float], float]


@dataclass
class Outcome:
    """What came of it."""

    changes: list[Rescale] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)
    """Per second: how long the shard furthest behind would need for what waits."""
    shards: list[int] = field(default_factory=list)


def even(rate: float) -> list[float]:
    return [rate / MOST] * MOST


def skewed(rate: float) -> list[float]:
    """Half of all rows are of one partition, as far as one shard can hold them."""
    hot = min(rate / 2, 650.0)
    return [hot if p == 5 else (rate - hot) / (MOST - 1) for p in range(MOST)]


def too_hot(rate: float) -> list[float]:
    """Half of all rows are of one partition."""
    return [rate / 2 if p == 5 else rate / 2 / (MOST - 1) for p in range(MOST)]


def simulate(policy, curve: Curve, *, length_s: int, spread=even, most: int = MOST) -> Outcome:
    """Second by second; a change stops the shards that it concerns for a moment."""
    scaler = Autoscaler(policy, {"count": Limits(most=most)}, most_in_all=most)
    shape = even_blocks(1, MOST)
    backlog, busy, paused = [0.0] * MOST, dict.fromkeys(shape, 0.0), dict.fromkeys(shape, 0.0)
    found = Outcome()
    for second in range(length_s):
        rates = spread(curve(second))
        lags = []
        for block in shape:
            owned = range(block.first, block.stop)
            for p in owned:
                backlog[p] += rates[p]
            able = 0.0 if paused[block] > second else (1 - FLOOR) / ROW_S
            waiting = sum(backlog[p] for p in owned)
            done = min(1.0, able / waiting) if waiting else 1.0
            busy[block] += FLOOR + done * waiting * ROW_S
            for p in owned:
                backlog[p] *= 1 - done
            lags.append((1 - done) * waiting * ROW_S)
        found.lag_s.append(max(lags))
        found.shards.append(len(shape))
        if second % REPORT_S:
            continue
        shards = tuple(
            ShardLoad(
                block=block,
                cpu=min(1.0, busy[block] / REPORT_S),
                backlog_rows=sum(backlog[block.first : block.stop]),
            )
            for block in shape
        )
        report = LoadReport(
            operator="count",
            at=float(second),
            shards=shards,
            rates=tuple(rates),
            row_s=ROW_S,
            floor=FLOOR,
        )
        busy = dict.fromkeys(shape, 0.0)
        for decision in scaler.report([report]):
            if isinstance(decision, Stuck):
                found.stuck.append(decision)
                continue
            found.changes.append(decision)
            born = set(decision.shape) - set(shape)
            shape = decision.shape
            busy = dict.fromkeys(shape, 0.0)
            paused = {block: second + PAUSE_S if block in born else 0.0 for block in shape}
            scaler.changed("count", float(second))
    return found


def least_changes(curve: Curve, *, length_s: int, spread=even, window_s: int = 90) -> int:
    """The fewest changes, from one shard on, of one who knows the whole curve beforehand.

    No shard may be asked for more than all its time, and there may not be `WASTE` times as many
    shards as the last `window_s` took at their highest. Nothing of it is a setting of a policy.
    Greedy over the numbers of shards that will do at each moment: one is kept for as long as it
    may, which is the fewest, as every number that is given up has become impossible.
    """
    allowed = {1}
    changes = 0
    for second in range(0, length_s, int(REPORT_S)):
        wanted = _sizes(curve, second, spread, window_s)
        if not allowed & wanted:
            changes += 1
            allowed = wanted
        allowed &= wanted
    return changes


def _sizes(curve: Curve, second: int, spread, window_s: int) -> set[int]:
    """Numbers of shards that hold the load now and are not far too many for the last minutes."""
    peak = max(curve(max(0, second - back)) for back in range(0, window_s + 1, 5))
    return set(range(_needed(spread(curve(second))), WASTE * _needed(spread(peak)) + 1))


def _needed(rates: list[float]) -> int:
    """The smallest number of shards of which none is asked for more than all its time."""

    def load(block):
        return FLOOR + ROW_S * sum(rates[block.first : block.stop])

    for number in range(1, MOST + 1):
        shape = reshape(even_blocks(1, MOST), number, load)
        if max(map(load, shape)) <= 1.0:
            return number
    return MOST


def step(second: float) -> float:
    return 400.0 if not 600 <= second < 1800 else 2600.0


def spike(second: float) -> float:
    """Ten seconds of five times as much, now and then."""
    return 2500.0 if second % 600 < 10 and second > 100 else 500.0


def sine(second: float) -> float:
    return 1500.0 + 1100.0 * math.sin(2 * math.pi * second / 1200)


def drift(second: float) -> float:
    return 400.0 + 4600.0 * min(1.0, second / 3000)


def swings(second: float) -> float:
    """Around the place where one shape is too small and the next one twice as large."""
    return 800.0 + 150.0 * math.sin(2 * math.pi * second / 45)


CURVES: dict[str, tuple[Curve, int]] = {
    "step": (step, 2600),
    "spike": (spike, 3000),
    "sine": (sine, 6000),
    "slow drift": (drift, 4000),
    "swings": (swings, 2000),
}
