"""The phases of a recovery."""

import pytest
from tests.unit.control.world import A, facts, recoveries, started

pytestmark = pytest.mark.unit


def test_phases_are_recorded_in_order():
    """Failed, detected, restored, caught up: only a slice past the failure ends a recovery."""
    world = started()
    world.log[A] += 1  # published after the last heartbeat before the failure
    world.disconnect("n0")
    broke_at = world.now
    world.advance(0.5)
    detected_at = world.now
    world.now += 0.4
    got = world.run("s0")
    assert facts(got) == ["unit_running", "recovery_restored"]
    restored_at = world.now
    world.now += 0.4
    assert facts(world.beat("s0")) == []
    assert facts(world.run("s0")) == ["recovery_caught_up"]
    (recovery,) = recoveries(world, A)
    assert recovery.outcome == "caught up"
    assert recovery.epoch == 3
    assert (
        recovery.failed_at,
        recovery.detected_at,
        recovery.restored_at,
        recovery.caught_up_at,
    ) == (broke_at, detected_at, restored_at, world.now)


def test_a_second_failure_supersedes_and_keeps_the_first_goal():
    """A unit lost again before it caught up still owes the progress of the first failure."""
    world = started(spares=("s0", "s1"))
    world.exit("n0")
    world.exit("s0")
    first, second = recoveries(world, A)
    assert (first.outcome, second.outcome) == ("superseded", "open")
    assert second.epoch == first.epoch == 2
