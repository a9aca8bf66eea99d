"""Which nodes are in: each way to be lost gives exactly the commands it should."""

import pytest
from tests.unit.control.world import A, B, World, acts, facts, recoveries, started

from holdfast.control import commands as c
from holdfast.control import events as e

pytestmark = pytest.mark.unit


def test_a_killed_node_seen_by_the_launcher_is_replaced_by_the_spare_at_once():
    """Exit of a process: units down, recovery begun, node lost, units started on the spare."""
    world = started()
    got = world.exit("n0")
    assert facts(got) == ["unit_down", "recovery_began", "node_lost", "unit_placed"]
    assert acts(got) == [("start", "a.0#0", 2, "s0", 1)]
    assert world.where(B) == "n1"


def test_a_broken_connection_is_given_its_grace_then_fenced():
    """A connection that does not come back makes the node lost and asks for its death."""
    world = started()
    pid = world.nodes["n0"].pid
    broke_at = world.now
    assert world.disconnect("n0") == []
    assert acts(world.tick(0.49)) == []
    got = world.tick(0.02)
    assert facts(got) == ["unit_down", "recovery_began", "node_lost", "unit_placed"]
    assert acts(got) == [("fence", "n0", pid), ("start", "a.0#0", 2, "s0", 1)]
    (recovery,) = recoveries(world, A)
    assert recovery.failed_at == broke_at
    assert recovery.detected_at == world.now


def test_a_connection_that_comes_back_in_time_costs_nothing():
    """A node that reconnects within its grace keeps its units and gets no command."""
    world = started()
    world.disconnect("n0")
    world.now += 0.3
    assert world.hello("n0") == []
    assert world.advance(3.0) == []


def test_a_hung_node_is_fenced_and_its_units_move():
    """Heartbeats stop: after the timeout the node is fenced, and failure is dated to its last."""
    world = started()
    last = world.now
    assert acts(world.advance(2.5, silent=["n0"])) == []
    pid = world.nodes["n0"].pid
    got = world.advance(0.5, silent=["n0"])
    assert acts(got) == [("fence", "n0", pid), ("start", "a.0#0", 2, "s0", 1)]
    (lost,) = [x.fact for x in got if isinstance(x, c.Record) and x.fact.kind == "node_lost"]
    assert lost.reason == "silent"
    assert lost.detail == "no heartbeat for 3.00 s"
    assert recoveries(world, A)[0].failed_at == last


def test_a_zombie_that_wakes_is_sent_away():
    """The old incarnation is dismissed, on heartbeat or hello, and disturbs nothing."""
    world = started()
    world.advance(3.0, silent=["n0"])
    assert acts(world.beat("n0")) == [("dismiss", "n0", "fenced")]
    assert acts(world.hello("n0")) == [("dismiss", "n0", "fenced")]
    assert world.where(A) == "s0"


def test_a_lost_domain_is_told_as_one_and_avoided():
    """Two nodes of a domain go silent together; units go to the spare in another domain."""
    world = started(
        spares=("s0", "s1"),
        units=(A, B),
        domains={"n0": "d0", "n1": "d0", "s0": "d0", "s1": "d1"},
    )
    got = world.advance(3.0, silent=["n0", "n1", "s0"])
    assert facts(got).count("node_lost") == 3
    (told,) = [x.fact for x in got if isinstance(x, c.Record) and x.fact.kind == "domain_lost"]
    assert told.nodes == ("n0", "n1", "s0")
    assert [act for act in acts(got) if act[0] == "start"] == [
        ("start", "a.0#0", 2, "s1", 1),
        ("start", "b.0#0", 2, "s1", 1),
    ]
    assert len({r.cause for r in world.coordinator.state.recoveries}) == 1


def test_a_paused_coordinator_blames_no_node():
    """After a long gap between events all silence is forgiven."""
    world = started()
    assert acts(world.tick(60.0)) == []
    assert acts(world.advance(2.5, silent=["n0"])) == []
    assert [act[0] for act in acts(world.advance(0.5, silent=["n0"]))] == ["fence", "start"]


def test_a_process_that_joins_under_a_known_name_replaces_it():
    """Same name, other incarnation: the old one is lost and its units start anew."""
    world = started(spares=())
    got = world.join("n0", incarnation="other")
    assert facts(got)[:4] == ["unit_down", "recovery_began", "node_lost", "node_joined"]
    assert [act[:3] for act in acts(got)] == [("start", "a.0#0", 2)]


def test_kill_on_request():
    """A kill fences the node and its units move; an unknown name is ignored."""
    world = started()
    pid = world.nodes["n0"].pid
    got = world.do(e.KillRequested(cause="k", node="n0"))
    assert acts(got) == [("fence", "n0", pid), ("start", "a.0#0", 2, "s0", 1)]
    assert world.do(e.KillRequested(cause="k2", node="nobody")) == []


def test_a_node_of_another_launch_is_sent_away():
    """A survivor of an earlier launch may not join."""
    world = World()
    world.launch = "L0"
    assert acts(world.join("n0")) == [("dismiss", "n0", "fenced")]
