"""What the loss of a leader does to its stream, from its slices."""

from dataclasses import replace

import pytest
from tests.unit.prove.test_judge import NORMAL, PACE, failure, slices

from holdfast.prove.failover import Failovers, measure_failover

pytestmark = pytest.mark.unit

LOST = replace(failure(killed_at=1006.6), hot=True)


def test_a_failover_is_as_long_as_a_slice_is_later_than_usual():
    """The first slice after the kill came as usual; of which generation it is does not count."""
    seen = slices((5, 0.4), (6, 0.4), (7, 0.55), (8, 0.4), first=4, generation=1)
    found = measure_failover(2, LOST, PACE, NORMAL, seen)
    assert (found.fault, found.hot, found.phases) == (2, True, None)
    assert found.seconds == pytest.approx(0.0)
    # The slice of epoch 6 was due at 1007.0.
    assert found.next_slice == found.settled == pytest.approx(0.8)
    assert found.late_slices == 0


def test_a_late_slice_counts_until_one_is_in_time():
    """A slow failover is as long as its latest slice was later than usual."""
    seen = slices((6, 2.9), (7, 2.2), (8, 1.3), (9, 0.4), first=5, generation=1)
    found = measure_failover(0, LOST, PACE, NORMAL, seen)
    assert found.seconds == pytest.approx(2.5)
    assert found.late_slices == 3
    assert found.next_slice == pytest.approx(3.3)


def test_a_failover_that_is_not_over_has_no_length():
    """Slices that all leave another one missing, or none at all."""
    for seen in ([], slices((6, 2.9), first=5)):
        assert measure_failover(0, LOST, PACE, NORMAL, seen).seconds is None


def test_failovers_are_told_apart_from_recoveries():
    """A proof that hit no unit with a follower tells of none."""
    cold = measure_failover(0, LOST, PACE, NORMAL, slices((6, 0.4)))
    assert Failovers.of([replace(cold, hot=False)]) is None
    hot = [
        measure_failover(n, LOST, PACE, NORMAL, slices((6, lag), (7, 0.4)))
        for n, lag in enumerate((0.4, 0.5, 1.4))
    ]
    found = Failovers.of(hot)
    assert found is not None
    told = found.to_json()
    assert (told["n"], told["in_time"]) == (3, 2)
    assert told["later_than_usual"]["median"] == pytest.approx(0.1)
    assert told["next_slice"]["median"] == pytest.approx(0.9)
    assert found.words().startswith("failovers: 2 of 3 without a late slice; later than usual by 0")
