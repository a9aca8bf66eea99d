"""Probes of paths: each on a node without a unit, and out of the way of the first that comes."""

import pytest
from tests.unit.control.test_paths import SCORE, SRC, fail, tolerant

from holdfast.control import commands as c

pytestmark = pytest.mark.unit


def probing():
    """A world in which the first path is probed on the last node that has no unit."""
    world = tolerant(successes=2)
    fail(world)
    world.all_run(2)
    world.advance(5.5)
    assert world.breaker("model").state == "half-open"
    return world


def test_a_probe_makes_way_for_a_unit():
    """It is told to stop before the unit starts, says nothing about its path, and is begun again
    where there is another place.
    """
    world = probing()
    probe = world.probes["model"]
    got = world.exit(world.where(SRC))
    assert world.where(SRC) == probe.node
    told = [type(x) for x in got if isinstance(x, c.StopProbe | c.StartUnit)]
    assert told == [c.StopProbe, c.StartUnit]
    breaker = world.breaker("model")
    assert (breaker.state, breaker.bad_probes, world.probes) == ("open", 0, {})
    world.all_run(2)
    assert world.probes == {}
    world.join("n2")
    world.all_run()
    world.tick(0.1)
    assert (world.probes["model"].node, world.probes["model"].probe) == ("n2", 2)
    world.ended("model", good=True)
    world.ended("model", good=True)
    assert world.split.active == "model"


def test_a_unit_goes_where_nothing_is_probed():
    """As long as there is room."""
    world = probing()
    world.join("s1", spare=True)
    world.all_run()
    world.exit(world.where(SRC))
    assert (world.where(SRC), world.breaker("model").state) == ("s1", "half-open")


def test_what_an_interrupted_probe_still_says_is_not_listened_to():
    """Its node has not heard yet that nobody waits for it."""
    world = probing()
    probe = world.probes["model"]
    world.exit(world.where(SRC))
    world.probes["model"] = probe
    world.ended("model", good=True)
    assert (world.breaker("model").state, world.split.active) == ("open", "rules")


def test_of_two_probes_one_waits_for_a_place():
    """Each has a node to itself."""
    world = tolerant()
    fail(world)
    world.all_run(3)
    fail(world)
    world.exit("s0")
    world.all_run(2)
    world.advance(7.0)
    assert world.split.active is None
    assert list(world.probes) == ["model"]
    world.ended("model", good=False)
    assert list(world.probes) == ["rules"]
    world.ended("rules", good=True)
    assert world.split.active == "rules"


def test_nothing_is_probed_where_a_unit_lingers():
    """It may take the memory or the processor that the probe is judged by."""
    world = tolerant(open_s=1.0)
    node = world.where(SCORE)
    left = world.nodes[node].units[SCORE]
    world.ask("open", "rules")
    fail(world)
    world.exit("s0")
    for _ in range(12):
        world.now += 0.25
        world.nodes[node].units[SCORE] = left
        for name in world.nodes:
            world.beat(name)
        world.tick()
    assert world.probes == {}
    del world.nodes[node].units[SCORE]
    world.advance(0.5)
    assert world.probes["model"].node == node
