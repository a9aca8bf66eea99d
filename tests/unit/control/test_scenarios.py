"""Each kind of failure gives exactly the commands it should."""

from dataclasses import replace

import pytest
from tests.unit.control.world import POLICY, A, B, C, World, acts, facts, started

from holdfast.cli.live import retries
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control import facts as f
from holdfast.control.state import IllegalTransitionError
from holdfast.control.view import view
from holdfast.deployment import UnitId

pytestmark = pytest.mark.unit


def recoveries(world, unit):
    return [r for r in world.coordinator.state.recoveries if r.unit == unit]


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


def test_a_missing_worker_delays_the_start_only_so_long():
    """After `gather_s` the nodes that are there get the units."""
    world = World(policy=replace(POLICY, workers=2, gather_s=2.0))
    world.join("n0")
    assert acts(world.advance(1.5)) == []
    assert acts(world.advance(0.5)) == [("start", "a#0", 1, "n0"), ("start", "b#0", 1, "n0")]


def test_a_killed_node_seen_by_the_launcher_is_replaced_by_the_spare_at_once():
    """Exit of a process: units down, recovery begun, node lost, units started on the spare."""
    world = started()
    got = world.exit("n0")
    assert facts(got) == ["unit_down", "recovery_began", "node_lost", "unit_placed"]
    assert acts(got) == [("start", "a#0", 2, "s0", 1)]
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
    assert acts(got) == [("fence", "n0", pid), ("start", "a#0", 2, "s0", 1)]
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
    assert acts(got) == [("fence", "n0", pid), ("start", "a#0", 2, "s0", 1)]
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


def test_all_units_of_one_node_go_to_one_spare():
    """The second spare is kept for the next failure."""
    world = started(nodes=("n0",), spares=("s0", "s1"))
    got = world.exit("n0")
    assert acts(got) == [("start", "a#0", 2, "s0", 1), ("start", "b#0", 2, "s0", 1)]


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
        ("start", "a#0", 2, "s1", 1),
        ("start", "b#0", 2, "s1", 1),
    ]
    assert len({r.cause for r in world.coordinator.state.recoveries}) == 1


def test_without_room_units_wait_and_a_joining_node_gets_them():
    """The empty pool is told once; units start when a node joins."""
    world = started(nodes=("n0",), spares=())
    got = world.exit("n0")
    assert facts(got)[-2:] == ["unit_waiting", "unit_waiting"]
    assert acts(got) == []
    assert world.advance(30.0) == []
    got = world.join("n9")
    assert acts(got) == [("start", "a#0", 2, "n9", 1), ("start", "b#0", 2, "n9", 1)]
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


def fail(world, node, unit):
    world.set(node, unit, state="failed", operator="parse", error="Traceback: boom")
    return world.beat(node)


def test_an_exception_is_retried_on_its_node_then_held_with_its_story():
    """Two retries, spaced; the third failure holds the unit, and the others go on."""
    world = started(nodes=("n0",), spares=("s0",))
    assert acts(fail(world, "n0", A)) == [("start", "a#0", 2, "n0", 1)]
    assert fail(world, "n0", A) != []
    assert acts(world.advance(0.5)) == []
    assert acts(world.advance(0.5)) == [("start", "a#0", 3, "n0", 2)]
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
    assert acts(got) == [("start", "a#0", 4, "n0", 3)]
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


def test_a_stalled_unit_takes_its_node_down_and_alone_is_charged():
    """Work waits and no batch ends: the node is fenced, both units move, one is charged."""
    world = started(nodes=("n0",), spares=("s0",))
    world.set("n0", A, waiting=4)
    pid = world.nodes["n0"].pid
    got = world.advance(5.5)
    assert acts(got) == [
        ("fence", "n0", pid),
        ("start", "a#0", 2, "s0", 1),
        ("start", "b#0", 2, "s0", 1),
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


def test_a_unit_that_kills_its_hosts_is_held():
    """Node losses are charged too, so that one unit cannot wear out the cluster."""
    policy = replace(POLICY, crashes=replace(POLICY.crashes, limit=2, delay_s=0.0))
    world = World(units=(A,), policy=policy)
    for name in ("n0", "n1", "n2"):
        world.join(name)
        world.run(world.where(A))
        world.exit(world.where(A))
    assert world.phase(A) == "held"


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
    assert acts(world.hello("s0")) == [("start", "a#0", 2, "s0", 1)]


def test_a_stale_generation_is_stopped_once():
    """A node that returns with a generation that moved elsewhere is told to stop it."""
    world = started()
    stale = world.nodes["n1"].units[B]
    world.nodes["s0"].units[B] = replace(stale, generation=0)
    assert acts(world.beat("s0")) == [("stop", "b#0", 0, "s0")]
    world.nodes["s0"].units[B] = replace(stale, generation=0)
    assert acts(world.beat("s0")) == []


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
    assert [act[:3] for act in acts(got)] == [("start", "a#0", 2)]


def test_kill_on_request():
    """A kill fences the node and its units move; an unknown name is ignored."""
    world = started()
    pid = world.nodes["n0"].pid
    got = world.do(e.KillRequested(cause="k", node="n0"))
    assert acts(got) == [("fence", "n0", pid), ("start", "a#0", 2, "s0", 1)]
    assert world.do(e.KillRequested(cause="k2", node="nobody")) == []


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
    assert acts(got) == [("start", "a#0", 2, "m0", 1), ("start", "b#0", 2, "m0", 1)]
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
    assert acts(world.join("m0")) == [("start", "c#0", 1, "m0"), ("start", "a#0", 2, "m0", 1)]
    relaunch("L3", A, B)
    assert acts(world.join("m1")) == [("start", "a#0", 3, "m1", 2), ("start", "b#0", 2, "m1", 1)]


def test_a_node_of_another_launch_is_sent_away():
    """A survivor of an earlier launch may not join."""
    world = World()
    world.launch = "L0"
    assert acts(world.join("n0")) == [("dismiss", "n0", "fenced")]


def test_an_illegal_fact_raises_with_its_story():
    """A generation that is not the next one is refused, and the error tells what led to it."""
    world = started()
    bad = f.UnitPlaced(
        at=1.0, cause="x", unit=A, generation=9, node="n0", incarnation="n0-1", reason="retry"
    )
    with pytest.raises(IllegalTransitionError, match="what led to it") as caught:
        world.coordinator.state.apply(bad)
    assert [fact.kind for fact in caught.value.story if fact.kind == "unit_placed"]


FULL = "Traceback\nOSError: [Errno 28] No space left on device: 'x'"


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


def test_why_a_unit_stopped_by_itself_is_kept():
    """Fact, state and status say what the unit said when it stopped."""
    world = started(nodes=("n0",), spares=())
    why = "b#0: generation 1 was replaced by 7"
    world.set("n0", B, state="stopped", operator="b", error=why)
    got = world.beat("n0")
    (down,) = [x.fact for x in got if facts([x]) == ["unit_down"]]
    assert (down.reason, down.operator, down.error) == ("stopped by itself", "b", why)
    shown = view(world.coordinator, world.now)
    assert shown.units[1].error == why
    assert retries(shown) == [f"b#0 stopped by itself and is started again (operator b): {why}"]


def test_a_unit_that_vanished_says_so():
    """A unit that its node reports no more is down with that reason."""
    world = started(nodes=("n0",), spares=())
    del world.nodes["n0"].units[B]
    world.beat("n0")
    assert world.coordinator.state.unit(B).error == "its node does not report it any more"


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
        "a#0 stalled: 1 epoch could be taken and no batch has ended for 5 s: "
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
    stall_of_a = world.coordinator.vitals.units["a#0"].stall
    assert stall_of_a.limit_s() == 300.0
    world.coordinator.intervals.clear()
    world.exit("s0")
    world.join("n9")
    world.run("n9")
    assert world.coordinator.vitals.units["a#0"].stall.limit_s() == 40.0
