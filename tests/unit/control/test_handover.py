"""Streams that change hands: heirs are started early, take the places, and are kept for good."""

import json
from dataclasses import replace

import pytest
from tests.unit.control.world import POLICY, A, B, World, acts, facts, recoveries, started

from holdfast.control import events as e
from holdfast.control.codec import state_from_json, state_to_line
from holdfast.control.coordinator import Coordinator
from holdfast.deployment import UnitId

pytestmark = pytest.mark.unit

LOW, HIGH = (UnitId(segment="a", shard=shard) for shard in (7, 8))
"""Heirs of A; what their names are is the record's affair."""


def request(world, children=(LOW, HIGH), parents=(A,), node=""):
    for unit in children:
        world.log.setdefault(unit, -1)
    return world.do(
        e.HandoverRequested(
            cause=world.cause(),
            stream="a",
            change=1,
            parents=parents,
            children=children,
            reason="overloaded",
            node=node,
        )
    )


def end(world, node, unit=A, heirs=(LOW, HIGH)):
    world.set(node, unit, state="ended", heirs=tuple(map(str, heirs)))
    got = world.beat(node)
    del world.nodes[node].units[unit]
    return got


def test_what_is_merged_goes_where_most_others_are():
    """So that the other node has nothing left, and can be done without."""
    world = started(nodes=("n0", "n1"), spares=())
    request(world)
    for node in ("n0", "n1"):
        world.run(node)
    end(world, world.where(A))
    assert {world.where(LOW), world.where(HIGH)} == {"n0", "n1"}
    whole = UnitId(segment="a", shard=9)
    request(world, children=(whole,), parents=(LOW, HIGH))
    assert world.where(whole) == world.where(B)


def test_heirs_go_to_the_node_that_was_named():
    """If it has room."""
    for node in ("n0", "n1"):
        world = started(nodes=("n0", "n1"), spares=())
        request(world, node=node)
        assert {world.where(LOW), world.where(HIGH)} == {node}


def test_heirs_are_started_while_their_parent_runs():
    """They are warm when it ends; then they are in its place, before what is downstream."""
    world = started(nodes=("n0", "n1"), spares=())
    got = request(world)
    assert facts(got) == ["handover_began", "unit_placed", "unit_placed"]
    assert {act[:3] for act in acts(got)} == {("start", str(LOW), 1), ("start", str(HIGH), 1)}
    assert list(world.coordinator.state.units) == [str(A), str(LOW), str(HIGH), str(B)]
    world.run("n0")
    world.run("n1")
    got = end(world, world.where(A))
    assert facts(got) == ["unit_ended"]
    assert acts(got) == []
    assert list(world.coordinator.state.units) == [str(LOW), str(HIGH), str(B)]
    assert world.all_running()


def test_a_request_told_twice_has_no_further_effect():
    """Nor one that comes after all is over."""
    world = started()
    request(world)
    assert request(world) == []
    end(world, world.where(A))
    assert request(world) == []
    assert request(world, children=(A,), parents=()) == []


def test_heirs_are_started_though_nobody_announced_them():
    """A unit that has ended names them itself: whoever put the change may have died since."""
    world = started()
    world.log.update({LOW: -1, HIGH: -1})
    got = end(world, world.where(A))
    assert facts(got) == ["unit_ended", "unit_placed", "unit_placed"]
    assert len(acts(got)) == 2


def test_a_coordinator_that_is_killed_in_the_middle_goes_on():
    """The journal, as facts and as a snapshot, has who took whose place."""
    world = started(nodes=("n0",), spares=())
    request(world)
    world.restart_coordinator()
    world.hello("n0")
    world.run("n0")
    assert world.phase(LOW) == "running"
    end(world, "n0")
    world.restart_coordinator()
    assert list(world.coordinator.state.units) == [str(LOW), str(HIGH), str(B)]
    copy = state_from_json(json.loads(state_to_line(world.coordinator.state)))
    assert copy == world.coordinator.state
    assert copy.unit_state.knows(A)


def test_another_launch_begins_in_the_new_shape():
    """The units that the pipeline was begun with are not asked for again."""
    world = started(nodes=("n0",), spares=())
    request(world)
    end(world, "n0")
    world.do(e.StopRequested(cause="stop"))
    world.exit("n0")
    world.launch = "L2"
    fresh = Coordinator(pipeline="p", units=(A, B), policy=POLICY)
    fresh.replay(None, world.journal)
    world.coordinator = fresh
    got = world.do(e.LaunchOpened(cause="again", launch="L2"))
    assert facts(got) == ["opened"]
    world.join("n0")
    assert {str(unit) for unit in world.nodes["n0"].units} == {str(LOW), str(HIGH), str(B)}


def test_a_parent_that_is_lost_before_it_could_tell_ends_after_its_recovery():
    """It is started again, finds its log sealed and says so; its recovery is over with it."""
    world = started(nodes=("n0", "n1"), spares=("s0",))
    request(world)
    node = world.where(A)
    world.exit(node)
    world.advance(1.0)
    again = world.where(A)
    assert again not in (None, node)
    world.set(again, A, state="ended", heirs=(str(LOW), str(HIGH)))
    world.beat(again)
    assert world.coordinator.state.unit(A) is None
    assert [r.outcome for r in recoveries(world, A)] == ["superseded"]


def test_only_the_current_generation_ends_a_unit():
    """An old one may find the seal first; the current one will find it too."""
    world = World(units=(A, B))
    world.join("n0")
    world.run("n0")
    world.set("n0", A, generation=9, state="ended", heirs=(str(LOW),))
    world.beat("n0")
    assert world.coordinator.state.unit(A) is not None


A1 = UnitId(segment="a", replica=1)
LOW1, HIGH1 = (UnitId(segment="a", shard=shard, replica=1) for shard in (7, 8))
DOMAINS = {"n0": "d0", "n1": "d1", "s0": "d0", "s1": "d1"}


def hot():
    """A world in which unit a has a follower, and n1 is in another failure domain than n0."""
    policy = replace(POLICY, workers=2, max_units_per_node=8)
    return started(("n0", "n1"), (), (A, B, A1), policy, DOMAINS)


@pytest.mark.parametrize("announced", [True, False])
def test_heirs_of_a_unit_with_a_follower_have_followers(announced):
    """Each apart from the one that it follows, whoever told of them."""
    world = hot()
    world.log.update({LOW: -1, HIGH: -1})
    if announced:
        request(world)
        assert {str(unit) for unit in (LOW, HIGH, LOW1, HIGH1)} <= set(
            world.coordinator.state.units
        )
    end(world, world.where(A))
    end(world, world.where(A1), unit=A1)
    for node in ("n0", "n1"):
        world.run(node)
    assert set(world.coordinator.state.units) == {str(unit) for unit in (LOW, HIGH, LOW1, HIGH1, B)}
    for leader, follower in ((LOW, LOW1), (HIGH, HIGH1)):
        assert {world.where(leader), world.where(follower)} == {"n0", "n1"}
    assert world.all_running()


def test_what_is_merged_has_one_follower():
    """It goes where most others are, and its follower to another domain."""
    world = hot()
    request(world)
    end(world, world.where(A))
    end(world, world.where(A1), unit=A1)
    for node in ("n0", "n1"):
        world.run(node)
    whole = UnitId(segment="a", shard=9)
    request(world, children=(whole,), parents=(LOW, HIGH))
    follower = replace(whole, replica=1)
    assert {world.where(whole), world.where(follower)} == {"n0", "n1"}


def test_heirs_of_units_without_followers_have_none():
    """Nor have those of others, where some unit has one."""
    world = started(("n0", "n1"), (), (A, B, UnitId(segment="b", replica=1)), POLICY, DOMAINS)
    request(world)
    assert str(LOW1) not in world.coordinator.state.units
