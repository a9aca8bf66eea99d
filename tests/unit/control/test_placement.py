"""Which node gets a unit: first starts, takeovers, and what waits for room."""

from dataclasses import replace

import pytest
from tests.unit.control.world import FULL, POLICY, A, B, C, World, acts, facts, started

from holdfast.control import commands as c
from holdfast.control import facts as f

pytestmark = pytest.mark.unit


def test_first_units_wait_for_the_workers_and_spread_over_them():
    """Nothing is placed until all workers have joined; then each gets its share and spares none."""
    world = World(policy=replace(POLICY, workers=2))
    assert acts(world.join("n0")) == []
    assert acts(world.join("s0", spare=True)) == []
    got = world.join("n1")
    assert got == [
        c.Record(
            fact=f.NodeJoined(
                at=100.0,
                cause="e4",
                node="n1",
                incarnation="n1-3",
                launch="L1",
                domain="d0",
                pid=1003,
                spare=False,
            )
        ),
        c.Record(
            fact=f.UnitPlaced(
                at=100.0,
                cause="e4",
                unit=A,
                generation=1,
                node="n0",
                incarnation="n0-1",
                reason="first start",
            )
        ),
        c.StartUnit(cause="e4", node="n0", unit=A, generation=1, clone_from=None),
        c.Record(
            fact=f.UnitPlaced(
                at=100.0,
                cause="e4",
                unit=B,
                generation=1,
                node="n1",
                incarnation="n1-3",
                reason="first start",
            )
        ),
        c.StartUnit(cause="e4", node="n1", unit=B, generation=1, clone_from=None),
    ]


def test_units_that_a_plan_puts_together_share_a_node():
    """The first of them takes the least loaded node, the others follow; after a death too."""
    policy = replace(POLICY, workers=2, together=((str(A), str(C)), (str(B),)))
    world = World(units=(A, B, C), policy=policy)
    world.join("n0")
    got = world.join("n1")
    assert acts(got) == [
        ("start", "a.0#0", 1, "n0"),
        ("start", "b.0#0", 1, "n1"),
        ("start", "c.0#0", 1, "n0"),
    ]
    world.join("s0", spare=True)
    world.beat("s0")
    assert acts(world.exit("n0")) == [
        ("start", "a.0#0", 2, "s0", 1),
        ("start", "c.0#0", 2, "s0", 1),
    ]


def test_a_missing_worker_delays_the_start_only_so_long():
    """After `gather_s` the nodes that are there get the units."""
    world = World(policy=replace(POLICY, workers=2, gather_s=2.0))
    world.join("n0")
    assert acts(world.advance(1.5)) == []
    assert acts(world.advance(0.5)) == [("start", "a.0#0", 1, "n0"), ("start", "b.0#0", 1, "n0")]


def test_all_units_of_one_node_go_to_one_spare():
    """The second spare is kept for the next failure."""
    world = started(nodes=("n0",), spares=("s0", "s1"))
    got = world.exit("n0")
    assert acts(got) == [("start", "a.0#0", 2, "s0", 1), ("start", "b.0#0", 2, "s0", 1)]


def test_without_room_units_wait_and_a_joining_node_gets_them():
    """The empty pool is told once; units start when a node joins."""
    world = started(nodes=("n0",), spares=())
    got = world.exit("n0")
    assert facts(got)[-2:] == ["unit_waiting", "unit_waiting"]
    assert acts(got) == []
    assert world.advance(30.0) == []
    got = world.join("n9")
    assert acts(got) == [("start", "a.0#0", 2, "n9", 1), ("start", "b.0#0", 2, "n9", 1)]
    world.run("n9")
    world.run("n9")
    assert [r.outcome for r in world.coordinator.state.recoveries] == ["caught up"] * 2


def test_survivors_take_units_only_up_to_their_room():
    """`max_units_per_node` bounds what a survivor takes; the rest waits."""
    policy = replace(POLICY, workers=2, max_units_per_node=2)
    world = started(spares=(), units=(A, B, C), policy=policy)
    assert sorted(map(world.where, (A, B, C))) == ["n0", "n0", "n1"]
    got = world.exit("n0")
    assert len([act for act in acts(got) if act[0] == "start"]) == 1
    assert facts(got).count("unit_waiting") == 1


def test_a_unit_without_room_is_tried_elsewhere():
    """First where it was, for it may have been a moment; then on a spare."""
    world = started(nodes=("n0",), spares=("s0",))
    places = []
    for _ in range(2):
        node = world.coordinator.state.unit(B).node
        world.set(node, B, state="failed", operator="b", error=FULL)
        world.beat(node)
        world.advance(5.0)
        places.append(world.coordinator.state.unit(B).node)
    assert places == ["n0", "s0"]


def test_a_full_node_is_taken_again_only_if_there_is_no_other():
    """Also where it has the fewest units: every second try is on another node that has room."""
    world = started(
        nodes=("n0", "n1"), spares=(), units=(A, B, C), policy=replace(POLICY, workers=2)
    )
    home = world.where(B)
    assert sum(world.where(unit) == home for unit in (A, B, C)) == 1
    places = []
    for _ in range(4):
        node = world.coordinator.state.unit(B).node
        world.set(node, B, state="failed", operator="b", error=FULL)
        world.beat(node)
        world.advance(10.0)
        places.append(world.coordinator.state.unit(B).node)
    other = {"n0": "n1", "n1": "n0"}[home]
    assert places == [home, other, home, other]


def test_of_several_failed_units_the_planned_one_comes_first():
    """With one place left, the unit that the order names first gets it, though it is downstream."""
    policy = replace(POLICY, workers=2, max_units_per_node=2, recovery_order=(str(C), str(A)))
    world = started(nodes=("n0", "n1"), spares=(), units=(A, B, C), policy=policy)
    lost = world.where(A)
    assert world.where(C) == lost
    got = world.exit(lost)
    assert [act[:2] for act in acts(got)] == [("start", str(C))]
    assert world.phase(A) == "waiting"


def test_first_starts_are_upstream_first_whatever_the_order():
    """The order is one of recoveries."""
    world = World(units=(A, B), policy=replace(POLICY, recovery_order=(str(B), str(A))))
    assert [act[1] for act in acts(world.join("n0"))] == [str(A), str(B)]
