"""The rules together on generated curves: faults are found soon, and nothing else is."""

import statistics

import pytest
from tests.unit.health.nexus.curves import Curve, first_finding

from holdfast.health.nexus.classify import Nexus, default_rules

pytestmark = pytest.mark.unit

HALF_AN_HOUR_S = 1800.0
FAULT_AT = 120.0


@pytest.mark.slow
@pytest.mark.sample(seed=1)
@pytest.mark.parametrize("seed", range(3))
def test_no_false_alarm_in_half_an_hour_of_varying_load(seed):
    """Swings, bursts and noise are no failures."""
    curve = Curve(seed=seed, rate=[20.0, 400.0, 900.0][seed % 3])
    assert first_finding(Nexus(default_rules()), curve, HALF_AN_HOUR_S) is None


@pytest.mark.sample(seeds=5)
@pytest.mark.parametrize("seeds", [5, 21])
@pytest.mark.parametrize("fault", ["sleep", "throttle", "leak", "error"])
def test_faults_are_found_soon(fault, seeds):
    """In the median within two seconds of simulated time, errors as soon as there are too many."""
    delays = []
    for seed in range(seeds):
        curve = Curve(seed=seed, fault=fault, fault_at=FAULT_AT)
        found = first_finding(Nexus(default_rules()), curve, FAULT_AT + 60)
        assert found is not None, seed
        assert found.since >= FAULT_AT
        delays.append(found.since - FAULT_AT)
    assert statistics.median(delays) <= (4.0 if fault == "error" else 2.0), delays


def test_what_is_found_says_so_in_words():
    """A suspended operator, as people are told of it."""
    curve = Curve(seed=1, fault="sleep", fault_at=FAULT_AT)
    found = first_finding(Nexus(default_rules()), curve, FAULT_AT + 60)
    assert found.rule == "no output"
    assert found.why.startswith("gave out nothing for 1.")
