"""From observations to numbers with their certainty; nothing here reads a clock or a file.

Observations are few and noisy: other programs share the machine, the garbage collector strikes
where it likes, and a window gives out its rows in bursts. So slopes and durations are medians, and
ratios are taken over whole bursts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.deployment import key_group_range
from holdfast.predict.statistics import Measure

FloatArray = NDArray[np.float64]

FEW = 20
"""Below so many observations the largest one stands for the 95th percentile."""
KEPT = 32
"""So many observations are kept of a duration."""
_MAD_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_MEDIAN_LOSS = 1.25
"""Standard error of a median over that of a mean, for a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """y = fixed + per_unit * x."""

    fixed: Measure
    per_unit: Measure


def duration(values: Sequence[float], how: str) -> Measure:
    """Median and 95th percentile of durations that vary from one to the next."""
    if not values:
        raise ValueError("no observations")
    found = np.asarray(values, float)
    middle = float(np.median(found))
    high = float(found.max() if len(found) < FEW else np.quantile(found, 0.95))
    return Measure(
        value=middle,
        p95=max(high, middle),
        samples=len(found),
        how=how,
        values=tuple(found[-KEPT:].tolist()),
    )


def mean(values: Sequence[float], how: str) -> Measure:
    """Mean and its standard error."""
    if not values:
        raise ValueError("no observations")
    found = np.asarray(values, float)
    spread = float(found.std(ddof=1)) if len(found) > 1 else 0.0
    return Measure(
        value=float(found.mean()),
        error=spread / math.sqrt(len(found)),
        samples=len(found),
        how=how,
    )


def ratio(tops: Sequence[float], bottoms: Sequence[float], how: str) -> Measure | None:
    """Sum over sum, with the standard error of the ratio estimator; None if nothing was below.

    The error is that of independent pairs; one pair has none that could be known.
    """
    top, bottom = np.asarray(tops, float), np.asarray(bottoms, float)
    whole = float(bottom.sum())
    if whole <= 0:
        return None
    value, n = float(top.sum()) / whole, len(top)
    rest = float(((top - value * bottom) ** 2).sum())
    error = math.sqrt(n / (n - 1) * rest) / whole if n > 1 else 0.0
    return Measure(value=value, error=error, samples=n, how=how)


def bursts(marks: Sequence[float], *series: Sequence[float]) -> tuple[list[float], ...]:
    """Sums of `marks` and of other series, from behind one burst up to and including the next.

    A window gives out nothing for a while and then many rows. What came in before the first burst
    was given out in part, and what came in after the last one not at all, so both are left out:
    over whole bursts a ratio has no bias. A series without gaps only loses its first entry.
    """
    every = (marks, *series)
    at = [index for index, mark in enumerate(marks) if mark > 0]
    spans = [(low + 1, high + 1) for low, high in itertools.pairwise(at)]
    return tuple([float(sum(one[low:high])) for low, high in spans] for one in every)


def line(xs: Sequence[float], ys: Sequence[float], how: str) -> Line:
    """Theil-Sen: the median of all slopes between two points, and what is left at x = 0.

    Three in ten points may be arbitrarily wrong. O(n^2) pairs. Needs two different x.
    """
    x, y = np.asarray(xs, float), np.asarray(ys, float)
    low, high = np.nonzero(x[:, None] < x[None, :])
    if not len(low):
        raise ValueError("a line needs two different x")
    slope = float(np.median((y[high] - y[low]) / (x[high] - x[low])))
    rest = y - slope * x
    fixed = float(np.median(rest))
    sigma = _sigma(rest - fixed, fitted=2)
    leverage = float(((x - x.mean()) ** 2).sum())
    error = _MEDIAN_LOSS * sigma / math.sqrt(leverage)
    fixed_error = _MEDIAN_LOSS * sigma * math.sqrt(1 / len(x) + float(x.mean()) ** 2 / leverage)
    if len(x) == 2:
        # A line through two points fits, which says nothing: as uncertain as it is large.
        error, fixed_error = abs(slope), abs(fixed)
    return Line(
        fixed=Measure(value=fixed, error=fixed_error, samples=len(x), how=how),
        per_unit=Measure(value=slope, error=error, samples=len(x), how=how),
    )


def _sigma(residuals: FloatArray, *, fitted: int) -> float:
    """Robust standard deviation of residuals; few of them look better than they are."""
    n = len(residuals)
    if n <= fitted:
        return 0.0
    robust = _MAD_SIGMA * float(np.median(np.abs(residuals - np.median(residuals))))
    plain = float(residuals.std())
    # With few points the deviation of the middle ones says little: the larger of both counts.
    found = max(robust, plain) if n < FEW else robust
    return found * math.sqrt(n / (n - fitted))


def at_least_zero(measure: Measure) -> Measure:
    """A cost that noise has made negative is nothing, with the same uncertainty."""
    if measure.value >= 0:
        return measure
    return replace(measure, value=0.0, p95=None)


def times(a: Measure, b: Measure, how: str) -> Measure:
    """A product of independent measures; relative errors add as squares."""
    value = a.value * b.value
    return Measure(
        value=value,
        error=math.hypot(a.error * b.value, b.error * a.value),
        samples=min(a.samples, b.samples),
        how=how,
    )


def total(parts: Sequence[Measure], how: str) -> Measure:
    """A sum of independent measures."""
    return Measure(
        value=math.fsum(part.value for part in parts),
        error=math.hypot(*(part.error for part in parts)),
        samples=sum(part.samples for part in parts),
        how=how,
    )


def growing(times_s: Sequence[float], sizes: Sequence[float], how: str) -> Measure | None:
    """How fast a size grows per second, None with fewer than three observations.

    A size that does not grow beyond its own noise grows by nothing.
    """
    if len(set(times_s)) < 3:
        return None
    slope = line(times_s, sizes, how).per_unit
    if slope.value <= 2 * slope.error:
        return replace(slope, value=0.0)
    return slope


def settled(sizes: Sequence[float], growth: Measure | None, how: str) -> Measure:
    """The size to plan with: the last one while it grows, else the mean of the later half."""
    grows = growth is not None and growth.value > 0
    return mean(sizes[-1:] if grows else sizes[len(sizes) // 2 :], how)


def skew(rows: Mapping[int, float], shards: int, how: str) -> Measure:
    """Load of the busiest of `shards` shards over the mean, from the rows per key group."""
    loads = np.zeros(shards)
    for shard in range(shards):
        loads[shard] = sum(rows.get(group, 0.0) for group in key_group_range(shard, shards))
    whole = float(loads.sum())
    if whole <= 0:
        return Measure(value=1.0, how=f"{how}; no rows")
    value = float(loads.max()) * shards / whole
    # Rows fall on shards as in a draw: its standard deviation, relative to the mean load.
    error = 0.0 if shards == 1 else math.sqrt(max(value, 0.0) * shards / whole)
    return Measure(value=max(1.0, value), error=error, samples=round(whole), how=how)
