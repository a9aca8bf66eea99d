"""Hot replicas: apart from each other, told when they lead, started again when left behind."""

from dataclasses import replace

import pytest
from tests.unit.control.random_world import random_world, settle
from tests.unit.control.world import (
    FULL,
    POLICY,
    A,
    B,
    World,
    acts,
    facts,
    recoveries,
    started,
)

from holdfast.control import commands as c
from holdfast.control import facts as f
from holdfast.deployment import UnitId

pytestmark = pytest.mark.unit

A1 = UnitId(segment="a", replica=1)
UNITS = (A, B, A1)
DOMAINS = {"n0": "d0", "n1": "d1", "s0": "d0", "s1": "d1"}


def hot(nodes=("n0", "n1"), spares=("s0", "s1"), **options):
    """A world in which unit a has a follower, and n1 is in another failure domain than n0."""
    policy = replace(POLICY, workers=len(nodes))
    return started(nodes, spares, UNITS, policy, DOMAINS, **options)


def test_a_follower_starts_in_another_domain():
    """However the load is, a unit and its follower are apart."""
    world = World(units=UNITS, policy=replace(POLICY, workers=3))
    world.join("n0", domain="d0")
    world.join("n1", domain="d0")
    got = world.join("n2", domain="d1")
    assert acts(got) == [
        ("start", "a.0#0", 1, "n0"),
        ("start", "b.0#0", 1, "n1"),
        ("start", "a.0#0~1", 1, "n2"),
    ]


def test_without_another_domain_a_follower_waits():
    """It is told once, and starts as soon as a node of another domain has joined."""
    world = World(units=UNITS, policy=replace(POLICY, workers=2))
    world.join("n0", domain="d0")
    got = world.join("n1", domain="d0")
    assert acts(got) == [("start", "a.0#0", 1, "n0"), ("start", "b.0#0", 1, "n1")]
    assert facts(got)[-1] == "unit_waiting"
    got = world.join("n2", domain="d1")
    assert acts(got) == [("start", "a.0#0~1", 1, "n2")]


def test_nodes_without_a_domain_are_domains_of_their_own():
    """A follower is never on its leader's node."""
    world = World(units=UNITS, policy=replace(POLICY, workers=1))
    assert acts(world.join("n0", domain="")) == [
        ("start", "a.0#0", 1, "n0"),
        ("start", "b.0#0", 1, "n0"),
    ]
    assert acts(world.join("n1", domain="")) == [("start", "a.0#0~1", 1, "n1")]


def test_promotion_is_told_once_and_after_the_fact():
    """A follower that has published for a lost leader leads; nobody is sent a command for it."""
    world = hot(spares=())
    leader, follower = world.where(A), world.where(A1)
    assert {leader, follower} == {"n0", "n1"}
    world.set(leader, A, leads=True)
    assert facts(world.beat(leader)) == ["unit_promoted"]
    world.exit(leader)
    world.set(follower, A1, leads=True, epoch=3, batch=3)
    got = world.beat(follower)
    assert got == [
        c.Record(
            fact=f.UnitPromoted(
                at=world.now,
                cause=got[0].fact.cause,
                unit=A1,
                generation=1,
                node=follower,
                epoch=3,
            )
        )
    ]
    assert world.beat(follower) == []
    assert world.coordinator.state.unit(A1).leads
    assert not world.coordinator.state.unit(A).leads


def test_of_two_that_say_they_lead_the_one_that_is_further_does():
    """One that has just begun, or sleeps, has not come to the batch that it lost: told once."""
    world = hot(spares=())
    first, second = world.where(A), world.where(A1)
    world.set(first, A, leads=True, batch=3)
    assert facts(world.beat(first)) == ["unit_promoted"]
    world.set(second, A1, leads=True, batch=4)
    assert facts(world.beat(second)) == ["unit_promoted"]
    for _ in range(3):
        assert world.beat(first) == []
        assert world.beat(second) == []
    world.set(first, A, leads=True, batch=6)
    assert facts(world.beat(first)) == ["unit_promoted"]


def test_a_new_follower_comes_where_the_new_leader_is_not():
    """After a failover the lost replica goes to a spare outside the survivor's domain, when the
    survivor has had the processor for itself for a while.
    """
    world = hot()
    leader = world.where(A)
    spare = {"n0": "s0", "n1": "s1"}[leader]
    assert ("start", "a.0#0", 2, spare, 1) not in acts(world.exit(leader))
    assert ("start", "a.0#0", 2, spare, 1) in acts(world.advance(POLICY.rejoin_s))


def test_both_replicas_lost_come_back_apart():
    """The one that was lost last is started at once, anywhere; the other one later, elsewhere."""
    world = hot()
    first, last = world.where(A), world.where(A1)
    for node in (first, last, "s0", "s1"):
        world.exit(node)
    world.join("x0", domain="d0")
    assert (world.phase(A), world.phase(A1)) == ("waiting", "placed")
    world.join("x1", domain="d1")
    assert world.phase(A) == "waiting"
    world.advance(POLICY.rejoin_s)
    assert (world.where(A), world.where(A1)) == ("x1", "x0")


def test_a_follower_left_behind_is_cloned_anew_on_its_node():
    """It is stopped and started under the next generation; its leader is left alone."""
    world = hot(spares=())
    follower = world.where(A1)
    world.set(world.where(A), A, batch=POLICY.follower_batches + 3)
    world.beat(world.where(A))
    got = world.beat(follower)
    assert facts(got) == ["unit_down", "recovery_began", "unit_placed"]
    assert acts(got) == [
        ("stop", "a.0#0~1", 1, follower),
        ("start", "a.0#0~1", 2, follower, 1),
    ]
    assert got[0].fact.reason == "left behind"
    assert "49 batches behind" in got[0].fact.error


def test_a_follower_that_has_made_no_batch_is_given_time():
    """However far its leader is, a follower that has just begun is not given up."""
    world = hot(spares=())
    follower = world.where(A1)
    world.set(world.where(A), A, batch=1000)
    world.beat(world.where(A))
    world.set(follower, A1, batch=-1)
    assert world.beat(follower) == []


def test_a_follower_that_begins_far_behind_may_catch_up():
    """Its leader went on while it started, and would again: it is given up only if it falls back
    from there.
    """
    world = hot(spares=())
    leader, follower = world.where(A), world.where(A1)
    far = 2 * POLICY.follower_batches
    world.set(follower, A1, batch=-1)
    world.beat(follower)
    world.restart_coordinator()
    world.hello(leader)
    world.hello(follower)
    world.set(leader, A, batch=far)
    world.beat(leader)
    world.set(follower, A1, batch=0)
    assert acts(world.beat(follower)) == []
    world.set(follower, A1, batch=far - 10)
    assert acts(world.beat(follower)) == []
    world.set(leader, A, batch=far + POLICY.follower_batches + 1)
    world.beat(leader)
    got = world.beat(follower)
    assert got[0].fact.reason == "left behind"


def test_a_leader_is_never_left_behind():
    """The one that publishes is not given up for being slower than its follower."""
    world = hot(spares=())
    leader, follower = world.where(A), world.where(A1)
    world.set(leader, A, leads=True)
    world.beat(leader)
    world.set(follower, A1, batch=1000)
    world.beat(follower)
    assert acts(world.beat(leader)) == []


def test_a_hanging_follower_is_recovered_like_a_unit():
    """A follower that does nothing while input waits takes its node down, and comes back apart."""
    world = hot()
    follower = world.where(A1)
    world.set(follower, A1, waiting=5)
    world.advance(30.0)
    assert recoveries(world, A1)[0].reason == "stalled"
    assert world.where(A1) not in (follower, world.where(A))


def test_a_restarted_coordinator_knows_who_leads():
    """The journal says it, so nothing is told twice."""
    world = hot(spares=())
    leader = world.where(A)
    world.set(leader, A, leads=True)
    world.beat(leader)
    world.restart_coordinator()
    for node in ("n0", "n1"):
        assert "unit_promoted" not in facts(world.hello(node))


@pytest.mark.parametrize("seed", [*range(40), 50070])
def test_replicas_stay_apart_whatever_happens(seed):
    """Random events: no two replicas in one domain, and everything runs in the end."""
    world = random_world(seed, 120, units=2, followers=1)
    settle(world, 1000)
    assert world.all_running()


def test_a_follower_that_finds_no_room_is_tried_on_another_node():
    """Of two nodes away from its leader the full one has fewer units, and is left all the same."""
    world = hot(nodes=("n0", "n1", "s1"), spares=())
    assert {world.where(unit) for unit in UNITS} == {"n0", "n1", "s1"}
    follower, other = world.where(A1), world.where(B)
    places = []
    for _ in range(3):
        node = world.where(A1)
        world.set(node, A1, state="failed", operator="a", error=FULL)
        world.beat(node)
        world.advance(10.0)
        places.append(world.where(A1))
    assert places == [follower, other, follower]
