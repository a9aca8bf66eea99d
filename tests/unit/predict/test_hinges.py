"""What a promise hangs on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.predict.hinges import NEVER_MEASURED, doubt_of, hinges
from holdfast.predict.statistics import Measure, OperatorStatistics
from holdfast.testing.joint import random_joint_problem

pytestmark = pytest.mark.unit


def light():
    """Three operators that have little to do."""
    topology, request = random_joint_problem(3, operators=3)
    return replace(topology, rates=dict.fromkeys(topology.rates, 10.0)), request


def test_a_slow_takeover_is_what_the_promise_hangs_on():
    """An operator whose building takes most of the time stands first, and is as sure as it was."""
    topology, request = light()
    slow = Measure(value=3.0, p95=4.5, samples=4, how="watched")
    name = topology.operators[-1].name
    known = request.statistics.operators.get(name, OperatorStatistics())
    statistics = replace(
        request.statistics,
        operators={**request.statistics.operators, name: replace(known, build=slow)},
    )
    found = hinges(topology, statistics)
    by_name = {one.name: one for one in found}
    slowest = by_name[f"{name}: build"]
    assert slowest.weight == max(one.weight for one in found)
    assert 0.3 < slowest.weight <= 1.1
    assert slowest.doubt == pytest.approx(0.25)


def test_what_was_never_measured_is_in_doubt():
    """A number without samples may be off by half; one with an error by that share."""
    assert doubt_of(Measure(value=1.0)) == NEVER_MEASURED
    assert doubt_of(Measure(value=2.0, error=0.1, samples=5)) == pytest.approx(0.05)


def test_most_at_stake_comes_first():
    """Numbers are ordered by weight times doubt."""
    topology, request = light()
    at_stake = [one.at_stake for one in hinges(topology, request.statistics)]
    assert at_stake == sorted(at_stake, reverse=True)
    assert at_stake
