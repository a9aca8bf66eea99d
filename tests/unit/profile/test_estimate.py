"""Estimators against numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment import KEY_GROUPS
from holdfast.predict.statistics import Measure
from holdfast.profile import estimate

pytestmark = pytest.mark.unit

rates = st.floats(1e-6, 1e3)


@given(slope=rates, fixed=rates, sizes=st.lists(st.integers(1, 10**5), min_size=2, unique=True))
def test_a_line_without_noise_is_found(slope, fixed, sizes):
    """Theil-Sen gives back the line that points lie on."""
    found = estimate.line(sizes, [fixed + slope * x for x in sizes], "test")
    assert found.per_unit.value == pytest.approx(slope, rel=1e-6)
    assert found.fixed.value == pytest.approx(fixed, rel=1e-3, abs=1e-6 * slope * max(sizes))


def test_a_line_survives_outliers():
    """Two stalls among ten batches do not move the slope by a tenth."""
    x = np.array([1000.0, 4000.0] * 5)
    y = 0.1 + 2e-5 * x
    y[3] += 5.0
    y[6] += 3.0
    found = estimate.line(list(x), list(y), "test").per_unit
    assert found.value == pytest.approx(2e-5, rel=0.1)
    assert found.error > 0


def test_the_error_of_a_slope_covers_the_truth():
    """Of 200 noisy lines at least 170 lie within two standard errors of the truth."""
    rng = np.random.default_rng(1)
    x = [1.0, 4.0] * 4
    good = 0
    for _ in range(200):
        y = [0.3 + 0.2 * one + rng.normal(0, 0.05) for one in x]
        slope = estimate.line(x, y, "test").per_unit
        good += abs(slope.value - 0.2) <= 2 * slope.error
    assert good >= 170


def test_two_points_are_no_certainty():
    """A line through two points says that it may be all wrong."""
    found = estimate.line([1.0, 2.0], [3.0, 5.0], "test")
    assert found.per_unit.value == found.per_unit.error == 2.0


def test_a_line_needs_two_sizes():
    """Points at one place have no slope, and that is said."""
    with pytest.raises(ValueError, match="two different x"):
        estimate.line([2.0, 2.0], [1.0, 3.0], "test")


def test_a_ratio_is_sum_over_sum_with_its_error():
    """The ratio estimator's error is that of the textbook."""
    found = estimate.ratio([2, 4, 9], [1, 2, 3], "test")
    assert found is not None
    assert found.value == pytest.approx(2.5)
    rest = (2 - 2.5) ** 2 + (4 - 5) ** 2 + (9 - 7.5) ** 2
    assert found.error == pytest.approx((3 / 2 * rest) ** 0.5 / 6)
    assert estimate.ratio([0.0], [0.0], "test") is None


@given(st.integers(1, 9), st.integers(3, 6), st.integers(1, 50))
def test_bursts_give_an_unbiased_selectivity(period, count, rows):
    """A window that closes every few batches has the selectivity of its cycles, start and end
    of the observation notwithstanding."""
    out = [7.0 if index % period == period - 1 else 0.0 for index in range(period * count + 2)]
    into = [float(rows)] * len(out)
    given_out, taken = estimate.bursts(out, into)
    found = estimate.ratio(given_out, taken, "test")
    assert found is not None
    assert found.value == pytest.approx(7.0 / (period * rows))
    assert found.error == pytest.approx(0, abs=1e-9)


def test_bursts_of_nothing_are_none():
    """Without two bursts there is no cycle."""
    assert estimate.bursts([0, 5, 0], [1, 1, 1]) == ([], [])


def test_a_duration_tells_its_median_and_its_tail():
    """With few observations the largest stands for the tail, with many the percentile."""
    few = estimate.duration([1.0, 5.0, 2.0], "test")
    assert (few.value, few.p95, few.samples) == (2.0, 5.0, 3)
    many = estimate.duration([float(i) for i in range(101)], "test")
    assert (many.value, many.p95) == (50.0, 95.0)


def test_products_and_sums_carry_errors():
    """Relative errors of products and absolute errors of sums add as squares."""
    a = Measure(value=2.0, error=0.2, samples=5)
    b = Measure(value=10.0, error=1.0, samples=7)
    assert estimate.times(a, b, "t").error == pytest.approx(20 * 0.02**0.5)
    assert estimate.total([a, b], "t").error == pytest.approx(1.04**0.5)
    assert estimate.total([a, b], "t").value == 12


def test_growth_is_told_from_noise():
    """A growing state grows, one that only varies does not."""
    rng = np.random.default_rng(3)
    times = [float(i) for i in range(12)]
    noise = rng.normal(0, 30, 12)
    grows = estimate.growing(
        times, [1000 + 100 * t + n for t, n in zip(times, noise, strict=True)], "test"
    )
    assert grows is not None
    assert grows.value == pytest.approx(100, rel=0.15)
    flat = estimate.growing(times, [1000 + n for n in noise], "test")
    assert flat is not None
    assert flat.value == 0
    assert estimate.growing([0.0, 1.0], [1.0, 2.0], "test") is None


def test_the_size_to_plan_with():
    """What grows is planned with as it is now, the rest as it mostly is."""
    sizes = [0.0, 10.0, 20.0, 30.0]
    up = Measure(value=10.0)
    assert estimate.settled(sizes, up, "test").value == 30
    assert estimate.settled(sizes, None, "test").value == 25


@given(st.integers(1, 16))
def test_even_keys_have_no_skew_and_one_key_has_all(shards):
    """The skew is 1 for even load and the number of shards for a single key group."""
    even = dict.fromkeys(range(KEY_GROUPS), 1.0)
    widest = -(-KEY_GROUPS // shards)
    assert estimate.skew(even, shards, "t").value == pytest.approx(widest * shards / KEY_GROUPS)
    assert estimate.skew({5: 9.0}, shards, "t").value == pytest.approx(shards)
    assert estimate.skew({}, shards, "t").value == 1
