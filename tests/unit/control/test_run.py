"""The run as a whole: restarts of its coordinator, launches, its end."""

import pytest
from tests.unit.control.world import A, B, C, acts, facts, started

from holdfast.control import events as e

pytestmark = pytest.mark.unit


def test_a_restarted_coordinator_disturbs_nothing():
    """Journal replayed, nodes come back with their units: not one command is sent."""
    world = started()
    before = world.coordinator.state
    assert world.restart_coordinator() == []
    assert world.coordinator.state == before
    world.now += 0.5
    for node in ("n0", "n1", "s0"):
        assert world.hello(node) == []
    assert acts(world.advance(20.0)) == []


def test_a_node_that_died_while_the_coordinator_was_down_is_found():
    """A node that does not come back within `reconnect_s` is lost, and its units move."""
    world = started()
    world.restart_coordinator()
    world.nodes.pop("n0")
    world.hello("n1")
    world.hello("s0")
    assert acts(world.advance(5.5)) == []
    got = world.advance(0.5)
    assert [act[0] for act in acts(got)] == ["fence", "start"]
    assert world.where(A) == "s0"


def test_a_start_lost_with_the_coordinator_is_sent_again():
    """Journaled but never sent: the node that comes back without the unit is told again."""
    world = started()
    world.exit("n0")
    del world.nodes["s0"].units[A]  # the command never arrived
    world.restart_coordinator()
    world.hello("n1")
    assert acts(world.hello("s0")) == [("start", "a.0#0", 2, "s0", 1)]


def test_stop_dismisses_all_and_finishes_when_the_last_has_left():
    """A stop parks units, counts no recovery, and ends when no node is left."""
    world = started()
    got = world.do(e.StopRequested(cause="stop"))
    assert acts(got) == [("dismiss", name, "stop") for name in ("n0", "n1", "s0")]
    assert world.do(e.StopRequested(cause="stop2")) == []
    assert facts(world.disconnect("n0")) == ["unit_parked", "node_lost"]
    world.exit("n1")
    assert acts(world.exit("s0")) == [("finish",)]
    assert world.coordinator.state.recoveries == []
    assert acts(world.tick(0.1)) == []


def test_a_new_launch_resumes_with_higher_generations_and_no_recovery():
    """After a stop, or a loss of everything, the next launch starts clones of what was there."""
    world = started(nodes=("n0",), spares=())
    world.nodes.clear()
    world.launch = "L2"
    world.restart_coordinator()
    got = world.join("m0")
    assert acts(got) == [("start", "a.0#0", 2, "m0", 1), ("start", "b.0#0", 2, "m0", 1)]
    assert {x.fact.reason for x in got if facts([x]) == ["unit_placed"]} == {"resume"}
    assert world.coordinator.state.recoveries == []


def test_a_new_plan_keeps_the_generations_of_units_that_come_back():
    """Units may come and go between launches, and no generation is ever handed out twice."""
    world = started(nodes=("n0",), spares=())

    def relaunch(launch, *units):
        world.nodes.clear()
        world.launch, world.units = launch, units
        world.log.update(dict.fromkeys(set(units) - set(world.log), -1))
        return world.restart_coordinator()

    assert facts(relaunch("L2", C, A)) == ["unit_parked"] * 2 + ["node_lost", "deployed", "opened"]
    assert acts(world.join("m0")) == [("start", "c.0#0", 1, "m0"), ("start", "a.0#0", 2, "m0", 1)]
    relaunch("L3", A, B)
    assert acts(world.join("m1")) == [
        ("start", "a.0#0", 3, "m1", 2),
        ("start", "b.0#0", 2, "m1", 1),
    ]


def test_what_fails_while_the_run_ends_is_no_failure():
    """A unit that fails, stops or loses its node after the stop is parked without a recovery."""
    world = started(nodes=("n0", "n1"), spares=())
    world.do(e.StopRequested(cause="stop"))
    world.set("n0", A, state="failed", error="Traceback: boom")
    assert facts(world.beat("n0")) == ["unit_parked"]
    world.set("n1", B, state="stopped")
    assert facts(world.beat("n1")) == []
    assert facts(world.do(e.KillRequested(cause="k", node="n1"))) == ["unit_parked", "node_lost"]
    assert world.coordinator.state.recoveries == []


def test_what_a_launch_had_to_repair_is_not_owed_by_the_next():
    """A unit that was down starts again as after a stop, and its recovery is abandoned."""
    world = started(nodes=("n0",), spares=(), units=(A,))
    world.exit("n0")
    world.launch = "L2"
    assert facts(world.restart_coordinator()) == ["unit_parked", "opened"]
    (recovery,) = world.coordinator.state.recoveries
    assert recovery.outcome == "abandoned"
    assert acts(world.join("m0")) == [("start", "a.0#0", 2, "m0", 1)]
