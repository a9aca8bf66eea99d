"""Who of several replicas publishes, and after how long."""

import pytest

from holdfast.runtime.units.lead import FIRST_S, LEAST_S, MEMORY, MOST_S, Alone, HeadStart, Shared

pytestmark = pytest.mark.unit


class World:
    """A clock that only waiting moves on, and batches that appear at given times."""

    address = ""

    def __init__(self):
        self.time = 0.0
        self.appears: dict[int, float] = {}
        self.dead = False
        self.awake: list[bool] = []
        """Per wait, whether it would have ended at once."""

    def now(self):
        return self.time

    def by(self, number):
        return "leader" if self.appears.get(number, float("inf")) <= self.time else None

    def lives(self, writer):
        return not self.dead

    def path(self, number):
        return f"/slices/{number}"

    def wait(self, paths, timeout_s, wake):
        number = int(paths[0].rpartition("/")[2])
        at = min(self.time + timeout_s, max(self.time, self.appears.get(number, float("inf"))))
        self.time = at
        self.awake.append(wake.is_set())
        if self.by(number) is not None:
            wake.set()
        return self.by(number) is not None


def replica(world, *, leads):
    return Shared(world, leads=leads, watch=world, clock=world)


def test_a_leader_does_not_wait():
    """It publishes at once, whatever others do."""
    world = World()
    assert not replica(world, leads=True).give_way(0)
    assert world.time == 0.0


def test_a_follower_leaves_a_batch_to_its_leader():
    """It waits until the batch is there, and no longer."""
    world = World()
    follower = replica(world, leads=False)
    world.appears[0] = 0.1
    assert follower.give_way(0)
    assert world.time == pytest.approx(0.1)


def test_who_was_woken_once_sleeps_again():
    """The bell of one batch does not ring for the next: a follower that waits takes no CPU."""
    world = World()
    follower = replica(world, leads=False)
    for number in range(3):
        world.appears[number] = world.time + 0.05
        assert follower.give_way(number)
    assert len(world.awake) >= 3
    assert not any(world.awake)


def test_a_follower_publishes_for_a_leader_that_does_not():
    """After the head start it does, and from then on it leads."""
    world = World()
    follower = replica(world, leads=False)
    assert not follower.give_way(0)
    assert world.time == pytest.approx(FIRST_S)
    follower.settle(mine=True)
    assert follower.leads
    assert not follower.give_way(1)
    assert world.time == pytest.approx(FIRST_S)


def test_a_leader_that_is_known_to_be_dead_is_not_waited_for():
    """Its follower publishes at once; before it has seen who leads it waits all the same."""
    world = World()
    follower = replica(world, leads=False)
    world.appears[0] = 0.1
    assert follower.give_way(0)
    world.dead = True
    before = world.time
    assert not follower.give_way(1)
    assert world.time == before
    stranger = replica(world, leads=False)
    assert not stranger.give_way(1)
    assert world.time == pytest.approx(before + FIRST_S)


def test_a_leader_that_is_slow_now_and_then_is_given_more_time():
    """Each time its follower was too quick it waits longer, so that the two do not take turns."""
    world = World()
    follower = replica(world, leads=False)
    waits = []
    for number in range(4):
        before = world.time
        assert not follower.give_way(number)
        waits.append(world.time - before)
        follower.settle(mine=False)
    assert waits == sorted(waits)
    assert waits[-1] > waits[0]


def test_a_leader_that_comes_too_late_follows():
    """It finds another's batch in place of its own, and waits before the next."""
    world = World()
    leader = replica(world, leads=True)
    leader.settle(mine=False)
    assert not leader.leads
    world.appears[1] = 0.02
    assert leader.give_way(1)


def test_a_batch_is_waited_for_once():
    """Who has waited before writing does not wait again before publishing."""
    world = World()
    follower = replica(world, leads=False)
    assert not follower.give_way(0)
    before = world.time
    assert not follower.give_way(0)
    assert world.time == before


def test_the_head_start_follows_the_leaders_lag():
    """A little above the longest lag of late, never below the least nor above the most."""
    head = HeadStart()
    assert head.value_s == FIRST_S
    head.observe(0.0)
    assert head.value_s == LEAST_S
    head.observe(0.2)
    assert 0.2 < head.value_s <= 0.4
    head.observe(50.0)
    assert head.value_s == MOST_S
    for _ in range(MEMORY):
        head.observe(0.0)
    assert head.value_s == LEAST_S


def test_the_only_replica_leads():
    """Nothing is waited for, and nothing changes that."""
    alone = Alone()
    alone.settle(mine=False)
    assert alone.leads
    assert not alone.give_way(0)
