"""Units that do nothing: told from those that work, and given twice the time the next time."""

from dataclasses import replace

import pytest
from tests.unit.control.world import POLICY, A, B, World, acts, facts, started

pytestmark = pytest.mark.unit


def test_a_stalled_unit_takes_its_node_down_and_alone_is_charged():
    """Work waits and no batch ends: the node is fenced, both units move, one is charged."""
    world = started(nodes=("n0",), spares=("s0",))
    world.set("n0", A, waiting=4)
    pid = world.nodes["n0"].pid
    got = world.advance(5.5)
    assert acts(got) == [
        ("fence", "n0", pid),
        ("start", "a.0#0", 2, "s0", 1),
        ("start", "b.0#0", 2, "s0", 1),
    ]
    assert [r.reason for r in world.coordinator.state.recoveries] == ["stalled", "node lost"]
    assert len(world.coordinator.state.unit(A).errors) == 1
    assert len(world.coordinator.state.unit(B).errors) == 0


def test_a_unit_that_never_starts_takes_its_node_down():
    """A start that hangs is ended by killing its node."""
    world = World(units=(A,))
    world.join("n0")
    world.join("s0", spare=True)
    got = world.advance(16.0)
    assert [act[0] for act in acts(got)] == ["fence", "start"]
    assert world.where(A) == "s0"


def test_a_search_for_bad_rows_is_no_stall():
    """A running unit that prepares itself anew has time, but not for ever."""
    world = started(nodes=("n0",), spares=("s0",), policy=replace(POLICY, search_s=60.0))
    world.set("n0", B, state="running", waiting=3)
    world.beat("n0")
    world.set("n0", B, state="starting", waiting=3)
    world.advance(50.0)
    assert "n0" in world.coordinator.state.nodes
    world.advance(40.0)
    assert "n0" not in world.coordinator.state.nodes


def stall(world, seconds):
    """Unit A has an epoch to take, shows no work and ends no batch."""
    if world.where(A) is not None:
        world.set(world.where(A), A, state="running", waiting=1)
    return world.advance(seconds)


def test_a_stall_says_why_and_the_next_one_is_waited_for_twice_as_long():
    """Without progress in between each limit is twice the last; the timeline tells both."""
    spares = tuple(f"s{index}" for index in range(4))
    world = started(nodes=("n0",), spares=spares, units=(A,))
    limits = []
    for _ in range(3):
        begin = world.now
        while not facts(stall(world, 0.5)).count("node_lost"):
            assert world.now < begin + 300.0
        limits.append(world.now - begin)
        world.nodes.pop(world.coordinator.state.unit(A).home)
    lost = [fact for fact in world.coordinator.state.timeline if fact.kind == "node_lost"]
    assert [fact.reason for fact in lost] == ["stalled"] * 3
    # stall_s; then twice and four times first_batch_s, and a second before the second restart
    assert limits == [5.5, 40.5, 81.5]
    assert lost[0].detail == (
        "a.0#0 stalled: 1 epoch could be taken and no batch has ended for 5 s: "
        "no work seen for 5 s (limit 5 s); the next limit is 40 s"
    )
    assert "the next limit is 160 s" in lost[2].detail
    assert world.coordinator.state.unit(A).error.startswith("1 epoch could be taken")


def test_progress_after_a_stall_ends_the_doubling():
    """Once the unit has passed the point of failure its limit is the first one again."""
    world = started(nodes=("n0",), spares=("s0", "s1"), units=(A,))
    stall(world, 5.5)
    assert world.coordinator.state.unit(A).stalls == 1
    del world.nodes["n0"]
    for _ in range(3):
        world.now += 0.25
        world.run("s0")
    assert world.coordinator.state.unit(A).stalls == 0
    assert facts(stall(world, 5.5)).count("node_lost") == 1


def test_a_long_batch_that_works_is_no_stall():
    """Work seen within the batch keeps the unit alive, up to the most a batch may last."""
    policy = replace(POLICY, stall=replace(POLICY.stall, most_s=60.0))
    world = started(nodes=("n0",), spares=("s0",), units=(A,), policy=policy)
    lost_after = None
    for step in range(100):
        world.set("n0", A, state="running", waiting=1, work=step)
        if facts(world.advance(1.0)).count("node_lost"):
            lost_after = step
            break
    assert lost_after == 60
    (lost,) = [fact for fact in world.coordinator.state.timeline if fact.kind == "node_lost"]
    assert "it works, but ends no batch" in lost.detail


def test_a_limit_follows_batch_interval_and_the_batches_of_the_generation_before():
    """A unit with long intervals or long batches is given more time, its successor too."""
    world = started(nodes=("n0",), spares=("s0",), units=(A,))
    world.coordinator.intervals["a"] = 100.0
    world.set("n0", A, waiting=1, batch=9, epoch=9, batch_ms=8000.0)
    world.log[A] = 9
    world.beat("n0")
    world.exit("n0")
    world.run("s0")
    stall_of_a = world.coordinator.vitals.units["a.0#0"].stall
    assert stall_of_a.limit_s() == 300.0
    world.coordinator.intervals.clear()
    world.exit("s0")
    world.join("n9")
    world.run("n9")
    assert world.coordinator.vitals.units["a.0#0"].stall.limit_s() == 40.0
