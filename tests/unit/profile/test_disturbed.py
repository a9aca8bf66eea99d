"""Measurements that other load disturbed are set aside."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.predict.statistics import REFERENCE_MACHINE, Measure
from holdfast.profile import cpu
from holdfast.profile.cache import tells
from holdfast.profile.cpu import DISTURBED, Elsewhere
from holdfast.profile.spark import machine
from holdfast.profile.spark.fixed import FixedCosts, Rounds
from holdfast.profile.spark.machine import _with_floors

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
    monkeypatch.setattr(cpu, "cores", lambda: 2)

    def run(replay, *busy):
        looks = list(busy)
        monkeypatch.setattr(cpu, "Elsewhere", lambda: SimpleNamespace(cores=lambda: looks.pop(0)))
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


@pytest.fixture
def floors(monkeypatch):
    """Empty batches of a machine whose others keep so many cores busy."""
    monkeypatch.setattr(cpu, "cores", lambda: 2)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    took = {"copy": 0.5, "kept": 0.6}

    def floor(name, *_):
        measure = Measure(value=took[name], samples=8, how="now")
        return measure, measure

    def run(known, *busy):
        looks, said = list(busy), []
        monkeypatch.setattr(cpu, "Elsewhere", lambda: SimpleNamespace(cores=lambda: looks.pop(0)))
        return _with_floors(known, SimpleNamespace(floor=floor), said.append), said

    return run


HERE = replace(REFERENCE_MACHINE, batch_floor=Measure(value=0.08, samples=8, how="before"))
ELSEWHERE = replace(
    REFERENCE_MACHINE,
    batch_floor=Measure(value=0.08, samples=8, how="not measured here, reference: empty batches"),
)


def test_calm_floors_are_taken(floors):
    """What this profile measured counts."""
    found, _ = floors(HERE, 0.1, 0.1)
    assert found.batch_floor.value == 0.5
    assert found.state_write.fixed.value == pytest.approx(0.1)


def test_disturbed_floors_give_way_to_what_was_measured_before(floors):
    """A busy hour does not make the machine slower for good."""
    found, said = floors(HERE, 1.8, 1.8, 0.1)
    assert found.batch_floor == HERE.batch_floor
    assert any("earlier profile" in line for line in said)


def test_disturbed_floors_are_better_than_those_of_another_machine(floors):
    """They say that they were disturbed, and such a machine is not remembered."""
    found, _ = floors(ELSEWHERE, 1.8, 1.8, 1.8, 1.8)
    assert found.batch_floor.value == 0.5
    assert found.batch_floor.how.endswith(DISTURBED)
    assert tells(found, DISTURBED)
    assert not tells(ELSEWHERE, DISTURBED)


def test_what_others_use_is_all_that_is_used_but_our_own(monkeypatch):
    """Cores busy on the machine, less those of our processes."""
    busy, own, now = [10.0, 18.0], [1.0, 4.0], [100.0, 105.0]
    monkeypatch.setattr(cpu, "_busy_s", lambda: busy.pop(0))
    monkeypatch.setattr(cpu.CpuMeter, "with_own", lambda self: own.pop(0))
    monkeypatch.setattr(cpu.time, "monotonic", lambda: now.pop(0))
    assert Elsewhere().cores() == pytest.approx((8.0 - 3.0) / 5.0)
