"""Stalls are found only where work waits; restarts are bounded and spaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.health.budget import RestartBudget
from holdfast.health.stall import StallDetector, StallPolicy

pytestmark = pytest.mark.unit


def stalled(found, now):
    """Whether its deadline has come."""
    deadline = found.deadline()
    return deadline is not None and now >= deadline


POLICY = StallPolicy(stall_s=10.0, batches=5.0, first_batch_s=60.0)


def running(now=0.0, batch_s=0.5):
    found = StallDetector(policy=POLICY, now=now)
    found.observe(batch=4, batch_s=0.0, waiting=1, now=now)
    found.observe(batch=5, batch_s=batch_s, waiting=1, now=now)
    return found


def test_waiting_epochs_and_no_batch_is_a_stall():
    """A unit with work and no batch for `stall_s` is stalled, not a moment before."""
    found = running()
    found.observe(batch=5, batch_s=0.5, waiting=3, now=9.9)
    assert not stalled(found, 9.9)
    assert stalled(found, 10.0)


def test_an_idle_unit_never_stalls():
    """Without waiting epochs silence is no stall, and patience starts when work arrives."""
    found = running()
    found.observe(batch=5, batch_s=0.5, waiting=0, now=100.0)
    assert not stalled(found, 1000.0)
    found.observe(batch=5, batch_s=0.5, waiting=1, now=1000.0)
    assert not stalled(found, 1000.0)
    assert stalled(found, 1010.0)


def test_the_first_batch_of_a_generation_gets_more_time():
    """A generation that finds batch 7 in the log has not worked yet."""
    found = StallDetector(policy=POLICY, now=0.0)
    found.observe(batch=7, batch_s=0.0, waiting=2, now=0.0)
    assert not stalled(found, 59.0)
    assert stalled(found, 60.0)


def test_long_batches_make_patient():
    """The limit follows the longest batch and fades again."""
    found = running(batch_s=4.0)
    assert found.limit_s() == 20.0
    for batch in range(6, 30):
        found.observe(batch=batch, batch_s=0.1, waiting=1, now=1.0)
    assert found.limit_s() == 10.0


def test_forgiving_counts_from_now():
    """An absent observer does not call a stall on return."""
    found = running()
    found.forgive(50.0)
    assert not stalled(found, 59.0)
    assert stalled(found, 60.0)


def test_budget_counts_only_its_window():
    """Three restarts in a minute are allowed, a fourth failure is not, an old one is forgotten."""
    budget = RestartBudget(limit=3, window_s=60.0)
    assert budget.allows([0.0, 10.0, 20.0], 20.0)
    assert not budget.allows([0.0, 10.0, 20.0, 30.0], 30.0)
    assert budget.allows([0.0, 10.0, 20.0, 60.0], 60.0)


def test_restarts_are_spaced_by_doubling():
    """The first restart is at once, the next ones wait 0.5, 1, 2 seconds."""
    budget = RestartBudget(limit=5, window_s=60.0, delay_s=0.5, max_delay_s=1.5)
    delays = [budget.delay([0.0] * count, 0.0) for count in (1, 2, 3, 4)]
    assert delays == [0.0, 0.5, 1.0, 1.5]


@given(st.lists(st.floats(0, 1000), max_size=40), st.integers(0, 5), st.floats(1, 100))
def test_no_window_holds_more_than_the_limit(times, limit, window):
    """However failures fall, at most `limit` restarts are granted in any window."""
    budget = RestartBudget(limit=limit, window_s=window)
    failures: tuple[float, ...] = ()
    granted = []
    for now in sorted(times):
        failures = budget.recent((*failures, now), now)
        assert len(failures) <= limit + 1
        if budget.allows(failures, now):
            granted.append(now)
    for start in granted:
        assert sum(start <= at < start + window for at in granted) <= limit


def test_work_within_a_batch_starts_the_limit_anew():
    """Whoever shows work is alive; whoever shows none is stalled after the limit as before."""
    found = running()
    for second in range(1, 40):
        found.observe(batch=5, batch_s=0.5, waiting=1, work=second, now=float(second))
        assert not stalled(found, float(second))
    assert found.since == 39.0
    assert not stalled(found, 48.9)
    assert stalled(found, 49.0)


def test_a_batch_that_works_for_ever_is_given_up():
    """Work is taken as a sign of life only up to `most_s`."""
    policy = StallPolicy(stall_s=10.0, first_batch_s=10.0, most_s=50.0)
    found = StallDetector(policy=policy, now=0.0)
    for second in range(51):
        found.observe(batch=0, batch_s=0.0, waiting=1, work=second, now=float(second))
        assert stalled(found, float(second)) == (second == 50)


def test_stalls_without_progress_double_the_limit_up_to_the_most():
    """10, 20, 40 seconds, and never beyond `most_s`, so that a true hang is still found."""
    found = StallDetector(
        policy=StallPolicy(stall_s=10.0, first_batch_s=10.0, most_s=100.0), now=0.0
    )
    assert [found.limit_s(stalls) for stalls in range(7)] == [10, 20, 40, 80, 100, 100, 100]
    assert found.limit_s(10**9) == 100.0


def test_a_batch_interval_is_time_to_work():
    """A unit that takes a minute's rows at once may well need a minute."""
    found = StallDetector(policy=POLICY, now=0.0, interval_s=60.0)
    assert found.limit_s() == 180.0
    assert StallDetector(policy=POLICY, now=0.0, longest_s=40.0).limit_s() == 200.0
