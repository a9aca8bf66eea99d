"""Whether a number is still what it was: found soon, and seldom where nothing has changed."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.learning.drift import ALLOWANCE, ENOUGH, changed
from holdfast.learning.samples import KEPT

pytestmark = pytest.mark.unit


def noisy(level, noise, number, seed):
    """Samples around a level."""
    chance = random.Random(seed)
    return [max(0.0, chance.gauss(level, noise * level)) for _ in range(number)]


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2, 0.5])
def test_what_has_not_changed_raises_no_alarm(noise):
    """In 20,000 looks at a ring of samples, whatever their noise, there is not one."""
    samples = noisy(100.0, noise, 20_000, seed=7)
    alarms = [
        end
        for end in range(ENOUGH, len(samples), 10)
        if changed(samples[max(0, end - KEPT) : end], 100.0)
    ]
    assert alarms == []


def test_bursts_are_no_change():
    """Behind a window rows come every sixth batch, and six times as many."""
    bursts = [600.0 if number % 6 == 5 else 0.0 for number in range(KEPT)]
    assert changed(bursts, 100.0) is None


@pytest.mark.parametrize(
    ("factor", "noise", "within"), [(1.5, 0.05, 8), (2.0, 0.2, 12), (0.5, 0.1, 8), (1.5, 0.3, 40)]
)
def test_what_has_changed_is_found_soon(factor, noise, within):
    """So many samples after the change there is an alarm, and it tells when it began."""
    for seed in range(50):
        before = noisy(100.0, noise, KEPT - within, seed)
        found = changed([*before, *noisy(100.0 * factor, noise, within, seed + 1000)], 100.0)
        assert found is not None, seed
        assert found.larger == (factor > 1)
        assert abs(found.first - len(before)) <= 20


def test_less_than_allowed_is_no_change():
    """A number that is a little off is not another one, however long it is."""
    assert changed([100.0 * (1 + 0.9 * ALLOWANCE)] * KEPT, 100.0) is None


def test_one_outlier_is_no_change():
    """A batch that took ten times as long says nothing about the others, nor do three in a row."""
    calm = noisy(0.4, 0.1, KEPT, seed=3)
    for run in (1, 2, 3):
        shaken = [*calm[:60], *[4.0] * run, *calm[60 + run :]]
        assert changed(shaken, 0.4, most=3.0) is None


def test_an_alarm_goes_when_the_number_is_back():
    """It stays while the number is between both levels, and goes once it is what it was."""
    high, between, low = [200.0] * 10, [100.0 * (1 + ALLOWANCE)] * 30, [100.0] * 60
    assert changed(high, 100.0)
    assert changed([*high, *between], 100.0)
    assert changed([*high, *between, *low], 100.0) is None


def test_a_small_difference_of_a_small_duration_is_nothing():
    """A batch of 20 ms that takes 60 ms now is three times as long, and nobody waits for it."""
    assert changed([0.06] * 40, 0.02, least=0.1) is None
    assert changed([0.3] * 40, 0.02, least=0.1) is not None


@given(st.lists(st.floats(0, 1e9), max_size=200), st.floats(0, 1e9))
@example([0.0] * 7 + [1.0], 2e-282)
@settings(deadline=None)
def test_whatever_comes_the_answer_is_about_it(values, expected):
    """Any samples have an answer; a change is one of enough samples at the end."""
    found = changed(values, expected)
    if found is not None:
        assert 0 <= found.first <= len(values) - ENOUGH
