"""Silence is judged as documented, by both detectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.health.heartbeat import FixedTimeout, HeartbeatPolicy, PhiAccrual, detector

pytestmark = pytest.mark.unit


def beaten(gaps, policy=None):
    found = PhiAccrual(policy=policy or HeartbeatPolicy(), now=0.0)
    now = 0.0
    for gap in gaps:
        now += gap
        found.beat(now)
    return found, now


def test_fixed_suspects_exactly_at_its_timeout():
    """A fixed detector suspects at its timeout, not before."""
    found = FixedTimeout(timeout_s=3.0, now=10.0)
    assert not found.suspects(12.999)
    assert found.suspects(13.0)
    found.beat(13.0)
    assert not found.suspects(15.9)
    assert found.silence_s(15.0) == 2.0


def test_a_late_delivered_beat_does_not_turn_time_back():
    """A beat with an older time is ignored by both detectors."""
    for policy in (HeartbeatPolicy(kind="fixed"), HeartbeatPolicy(kind="adaptive")):
        found = detector(policy, 5.0)
        found.beat(8.0)
        found.beat(6.0)
        assert found.silence_s(9.0) == 1.0


def test_phi_knows_nothing_before_enough_gaps():
    """With few gaps only the ceiling makes an adaptive detector suspect."""
    found, now = beaten([0.25] * 7)
    assert not found.suspects(now + 5.9)
    assert found.suspects(now + 6.0)


def test_phi_of_a_regular_beat_passes_its_threshold_between_floor_and_ceiling():
    """After regular beats the silence is forgiven up to the floor and suspected right after."""
    found, now = beaten([0.25] * 50)
    assert not found.suspects(now + 1.49)
    assert found.suspects(now + 1.5)


def test_phi_is_patient_with_an_irregular_node():
    """A node whose gaps vary widely is suspected later than a regular one."""
    irregular, now = beaten([0.1, 1.9] * 50)
    assert not irregular.suspects(now + 3.0)
    assert irregular.suspects(now + 6.5)


def test_phi_value_matches_the_normal_tail():
    """Phi at mean + 2 deviations is -log10 of the normal tail 0.02275."""
    found, now = beaten([0.5, 1.5] * 40)
    assert found.phi(now + 1.0 + 2 * 0.5) == pytest.approx(1.6430, abs=1e-3)


def test_old_gaps_are_forgotten():
    """Only the last `window` gaps count, so the running sums must drop what left the window."""
    policy = HeartbeatPolicy(window=10)
    found, now = beaten([5.0] * 10 + [0.25] * 10, policy)
    fresh, _ = beaten([0.25] * 10, policy)
    assert found.phi(now + 0.3) == pytest.approx(fresh.phi(2.5 + 0.3), rel=1e-6)


def test_forgiving_restarts_the_silence_without_learning_the_gap():
    """A pause of the observer neither suspects nor widens the learnt gaps."""
    found, now = beaten([0.25] * 50)
    found.forgive(now + 100.0)
    assert not found.suspects(now + 101.0)
    assert found.suspects(now + 101.6)


@given(st.lists(st.floats(0.01, 2.0), min_size=0, max_size=150), st.floats(0, 20))
def test_floor_and_ceiling_always_hold(gaps, silence):
    """Whatever was learnt, silence below the floor is forgiven and above the ceiling is not."""
    policy = HeartbeatPolicy()
    found, now = beaten(gaps, policy)
    observed = found.silence_s(now + silence)
    if observed < policy.floor_s:
        assert not found.suspects(now + silence)
    if observed >= policy.ceiling_s:
        assert found.suspects(now + silence)


@given(st.lists(st.floats(0.01, 2.0), min_size=10, max_size=50), st.floats(0, 10), st.floats(0, 10))
def test_suspicion_only_grows_with_silence(gaps, first, more):
    """Phi never falls while a node stays silent."""
    found, now = beaten(gaps)
    assert found.phi(now + first) <= found.phi(now + first + more)


@pytest.mark.parametrize("bad", [{"floor_s": 0}, {"ceiling_s": 1}, {"window": 1}, {"phi": 0}])
def test_a_policy_that_makes_no_sense_is_refused(bad):
    """Nonsense in a policy raises when it is made."""
    with pytest.raises(ValueError, match="must"):
        HeartbeatPolicy(**bad)
