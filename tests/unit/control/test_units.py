"""How units fail: retried, held, released, stale, without room to write."""

from dataclasses import replace

import pytest
from tests.unit.control.world import FULL, POLICY, A, B, World, acts, facts, recoveries, started

from holdfast.cli.live import retries
from holdfast.control import events as e
from holdfast.control.view import view
from holdfast.deployment import UnitId

pytestmark = pytest.mark.unit


def fail(world, node, unit):
    world.set(node, unit, state="failed", operator="parse", error="Traceback: boom")
    return world.beat(node)


def test_an_exception_is_retried_on_its_node_then_held_with_its_story():
    """Two retries, spaced; the third failure holds the unit, and the others go on."""
    world = started(nodes=("n0",), spares=("s0",))
    assert acts(fail(world, "n0", A)) == [("start", "a.0#0", 2, "n0", 1)]
    assert fail(world, "n0", A) != []
    assert acts(world.advance(0.5)) == []
    assert acts(world.advance(0.5)) == [("start", "a.0#0", 3, "n0", 2)]
    got = fail(world, "n0", A)
    assert facts(got) == ["unit_down", "recovery_began", "unit_held"]
    held = got[-1].fact
    assert (held.operator, held.error, held.failures) == ("parse", "Traceback: boom", 3)
    assert acts(world.advance(100.0)) == []
    assert world.phase(A) == "held"
    assert world.phase(B) == "running"
    assert [r.outcome for r in recoveries(world, A)] == ["superseded", "superseded", "held"]


def test_a_held_unit_is_released_on_request():
    """A retry request starts a held unit with a fresh budget; others ignore it."""
    world = started(nodes=("n0",), spares=())
    assert world.do(e.RetryRequested(cause="r1", unit=A)) == []
    for _ in range(3):
        fail(world, "n0", A)
        world.advance(2.0)
    got = world.do(e.RetryRequested(cause="r2", unit=A))
    assert facts(got) == ["unit_released", "unit_placed"]
    assert acts(got) == [("start", "a.0#0", 4, "n0", 3)]
    assert world.do(e.RetryRequested(cause="r3", unit=UnitId(segment="zz"))) == []


def test_old_failures_are_forgotten():
    """Failures spread over more than the window never hold a unit."""
    world = started(nodes=("n0",), spares=())
    for _ in range(6):
        fail(world, "n0", A)
        world.advance(1.0)
        world.run("n0")
        world.advance(39.0)
    assert world.phase(A) == "running"
    assert world.coordinator.state.unit(A).generation == 7


def test_a_unit_that_kills_its_hosts_is_held():
    """Node losses are charged too, so that one unit cannot wear out the cluster."""
    policy = replace(POLICY, crashes=replace(POLICY.crashes, limit=2, delay_s=0.0))
    world = World(units=(A,), policy=policy)
    for name in ("n0", "n1", "n2"):
        world.join(name)
        world.run(world.where(A))
        world.exit(world.where(A))
    assert world.phase(A) == "held"


def test_a_stale_generation_is_stopped_once():
    """A node that returns with a generation that moved elsewhere is told to stop it."""
    world = started()
    stale = world.nodes["n1"].units[B]
    world.nodes["s0"].units[B] = replace(stale, generation=0)
    assert acts(world.beat("s0")) == [("stop", "b.0#0", 0, "s0")]
    world.nodes["s0"].units[B] = replace(stale, generation=0)
    assert acts(world.beat("s0")) == []


def test_a_full_disk_is_waited_out():
    """However long it lasts, the unit is not held, and nothing is charged to its code."""
    world = started(nodes=("n0",), spares=())
    for _ in range(40):
        node = world.coordinator.state.unit(B).node
        if node is not None:
            world.set(node, B, state="failed", operator="b", error=FULL)
            world.beat(node)
        world.advance(10.0)
    record = world.coordinator.state.unit(B)
    assert record.phase != "held"
    assert record.errors == ()
    assert len(record.shortages) > 5
    world.set(record.node, B, state="running")
    world.beat(record.node)
    assert world.coordinator.state.unit(B).phase == "running"


def test_why_a_unit_stopped_by_itself_is_kept():
    """Fact, state and status say what the unit said when it stopped."""
    world = started(nodes=("n0",), spares=())
    why = "b.0#0: generation 1 was replaced by 7"
    world.set("n0", B, state="stopped", operator="b", error=why)
    got = world.beat("n0")
    (down,) = [x.fact for x in got if facts([x]) == ["unit_down"]]
    assert (down.reason, down.operator, down.error) == ("stopped by itself", "b", why)
    shown = view(world.coordinator, world.now)
    assert shown.units[1].error == why
    assert retries(shown) == [f"b.0#0 stopped by itself and is started again (operator b): {why}"]


def test_a_unit_that_vanished_says_so():
    """A unit that its node reports no more is down with that reason."""
    world = started(nodes=("n0",), spares=())
    del world.nodes["n0"].units[B]
    world.beat("n0")
    assert world.coordinator.state.unit(B).error == "its node does not report it any more"
