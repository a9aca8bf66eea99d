"""Measurements that other load disturbed are set aside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.profile import cpu
from holdfast.profile.cpu import Elsewhere
from holdfast.profile.spark import fixed
from holdfast.profile.spark.fixed import FixedCosts, Rounds

pytestmark = pytest.mark.unit


class Replayed:
    """A replay whose batches take as long as they are told to."""

    def __init__(self, *tries):
        self.tries = list(tries)

    def steady(self, amount, batches):
        assert (amount, batches) == (0.5, 5)
        return self.tries.pop(0)


@pytest.fixture
def timed(monkeypatch):
    """Times batches while others keep so many cores busy."""
    monkeypatch.setattr(fixed, "cores", lambda: 2)

    def run(replay, *busy):
        looks = list(busy)
        monkeypatch.setattr(fixed, "Elsewhere", lambda: SimpleNamespace(cores=lambda: looks.pop(0)))
        costs = FixedCosts(
            pipeline=None,
            collected=None,
            spark=None,
            folder=None,
            rounds=Rounds(batches=5, restarts=0),
        )
        return costs._steady(replay, 0.5)

    return run


def test_calm_batches_are_timed_once(timed):
    """Nothing is made again that nothing disturbed."""
    assert timed(Replayed([1.0], [9.0]), 0.1) == ([1.0], True)


def test_disturbed_batches_are_made_again(timed):
    """What was timed while others had the cores does not count."""
    assert timed(Replayed([9.0], [1.0]), 1.8, 0.1) == ([1.0], True)


def test_of_two_disturbed_tries_the_calmer_one_counts(timed):
    """And it is known to be disturbed."""
    assert timed(Replayed([9.0], [5.0]), 1.8, 1.2) == ([5.0], False)


def test_what_others_use_is_all_that_is_used_but_our_own(monkeypatch):
    """Cores busy on the machine, less those of our processes."""
    busy, own, now = [10.0, 18.0], [1.0, 4.0], [100.0, 105.0]
    monkeypatch.setattr(cpu, "_busy_s", lambda: busy.pop(0))
    monkeypatch.setattr(cpu.CpuMeter, "with_own", lambda self: own.pop(0))
    monkeypatch.setattr(cpu.time, "monotonic", lambda: now.pop(0))
    assert Elsewhere().cores() == pytest.approx((8.0 - 3.0) / 5.0)
