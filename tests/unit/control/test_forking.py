"""When results go on without an input that is gone, and when that ends."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

import pytest
from tests.unit.control.world import POLICY, World, acts, facts

from holdfast.control import codec
from holdfast.control import events as e
from holdfast.control.view import status_of
from holdfast.deployment import UnitId
from holdfast.health.policy import Tentative

pytestmark = pytest.mark.unit

LEFT, RIGHT, JOIN, OUT, OTHER = (
    UnitId(segment=name) for name in ("left", "right", "join", "out", "other")
)
UNITS = (LEFT, RIGHT, JOIN, OUT, OTHER)
READS = {
    "left": (),
    "right": (),
    "join": ("left", "right"),
    "out": ("join",),
    "other": ("right",),
}


class Forked(World):
    """Two sources, a join of both with its sink, and a sink of one of them."""

    reads = READS


def everything_runs(made, *, nodes):
    """Let so many nodes join, and wait until all units run on them."""
    for number in range(nodes):
        made.join(f"n{number}")
    for _ in range(4):
        made.now += 0.25
        for node in list(made.nodes):
            made.run(node)
    assert made.all_running()


def world(*, after_s: float | None = 2.0, made=Forked, **tentative):
    """Sources on nodes of their own without room elsewhere: whoever dies there stays away."""
    policy = replace(
        POLICY,
        workers=5,
        max_units_per_node=1,
        tentative=Tentative(
            after_s=after_s,
            fidelity={"out": {"left.0#0": 0.5, "left.0#0 right.0#0": 0.0}},
            **tentative,
        ),
    )
    made = made(units=UNITS, policy=policy)
    everything_runs(made, nodes=5)
    return made


LANES = tuple(UnitId(segment=name) for name in ("a", "a-once", "b", "b-once", "c", "sum", "sums"))
A, A_ONCE, B, B_ONCE, C, SUM, SUMS = LANES


class Lanes(World):
    """Two lanes of a source and what reads it, a third source, and a sum of all."""

    reads: ClassVar = {
        "a": (),
        "a-once": ("a",),
        "b": (),
        "b-once": ("b",),
        "c": (),
        "sum": ("a-once", "b-once", "c"),
        "sums": ("sum",),
    }


APART = (("a", "a-once"), ("b", "b-once"), ("c", "sum", "sums"))


def lanes(places=APART, **tentative):
    """Each lane on a node of its own, the rest on a third one."""
    policy = replace(
        POLICY,
        workers=len(places),
        max_units_per_node=max(map(len, places)),
        together=tuple(tuple(f"{name}.0#0" for name in names) for names in places),
        tentative=Tentative(after_s=2.0, **tentative),
    )
    made = Lanes(units=LANES, policy=policy)
    everything_runs(made, nodes=len(places))
    assert len({made.where(UnitId(segment=names[0])) for names in places}) == len(places)
    return made


def kill(made, *units):
    for unit in units:
        made.exit(made.where(unit))


def live(made):
    return made.coordinator.state.fork_state.live


def forked_at(made):
    """Kill the left source and wait for the fork; what its beginning commanded."""
    kill(made, LEFT)
    got = made.advance(2.5)
    assert live(made) is not None
    return got


def progress(made, **epochs):
    """Exact units and those of the fork report so far."""
    for fake in made.nodes.values():
        for unit in list(fake.units):
            name = unit.segment
            if name in epochs:
                fake.units[unit] = replace(
                    fake.units[unit], state="running", epoch=epochs[name], batch=0
                )
    for node in list(made.nodes):
        made.beat(node)


def come_back(made):
    """A node joins, takes the failed source and has it caught up."""
    made.join("n9")
    made.run("n9")
    made.run("n9")
    made.run("n9")


def test_without_a_deadline_nothing_is_tentative():
    """Whoever waits, waits."""
    made = world(after_s=None)
    kill(made, LEFT)
    assert "fork_began" not in facts(made.advance(60.0))


def test_what_is_downstream_of_a_lost_input_goes_on_in_a_fork():
    """Where the exact units are; what reads other inputs alone is not concerned."""
    made = world()
    where = {unit: made.where(unit) for unit in (JOIN, OUT)}
    got = forked_at(made)
    assert facts(got).count("fork_began") == 1
    assert [act for act in acts(got) if act[0] != "fence"] == [
        ("put fork", 1),
        ("start", "join+1.0#0", 1, where[JOIN]),
        ("start", "out+1.0#0", 1, where[OUT]),
    ]
    began = next(fact for fact in made.journal if fact.kind == "fork_began")
    assert [str(unit) for unit in began.silent] == ["left.0#0"]
    assert began.fidelity == (("out", 0.5),)
    assert "left.0#0 gone for 2" in began.reason


def test_what_serves_sinks_of_higher_priority_is_started_first():
    """Upstream before downstream, as always."""
    made = world(priorities={"out": 1.0, "other": 3.0})
    kill(made, RIGHT)
    got = made.advance(2.5)
    started = [act[1] for act in acts(got) if act[0] == "start"]
    assert started == ["other+1.0#0", "join+1.0#0", "out+1.0#0"]


def test_sinks_of_priority_0_wait_for_their_input():
    """They and what nobody else needs are in no fork, and a loss that concerns them alone is
    none to go on without.
    """
    made = world(priorities={"out": 0.0})
    kill(made, LEFT)
    assert "fork_began" not in facts(made.advance(5.0))
    kill(made, RIGHT)
    assert "fork_began" in facts(made.advance(2.5))
    assert list(live(made).units) == ["other+1.0#0"]


def test_nothing_is_forked_before_its_time_or_for_who_is_back():
    """A recovery within the deadline leaves no trace."""
    made = world()
    kill(made, LEFT)
    assert live(made) is None
    made.advance(1.0)
    come_back(made)
    assert "fork_began" not in facts(made.advance(10.0))


def test_who_runs_again_is_given_until_its_next_batch():
    """With batches far apart nothing is late only because none was due."""
    made = world()
    made.coordinator.intervals["left"] = 8.0
    kill(made, LEFT)
    made.join("n9")
    made.run("n9")  # it runs, and has published nothing yet
    assert "fork_began" not in facts(made.advance(6.0))
    assert "fork_began" in facts(made.advance(6.0))


def test_what_is_predicted_to_take_too_long_is_not_waited_for():
    """The plan knows that its recovery will not be in time."""
    made = world(at_once=("left",))
    kill(made, LEFT)
    assert "fork_began" in facts(made.tick(0.01))


def test_the_fork_ends_when_the_exact_results_have_caught_up():
    """Not when the input is back: the exact sink has to come where the fork is."""
    made = world()
    forked_at(made)
    progress(made, **{"out+1": 40, "out": 2})
    come_back(made)
    made.advance(1.0)
    assert live(made) is not None
    progress(made, out=39)
    got = made.tick(0.05)
    assert facts(got) == ["fork_ended"]
    assert acts(got)[0] == ("end fork", 1)
    assert {act[1] for act in acts(got) if act[0] == "stop"} == {"join+1.0#0", "out+1.0#0"}
    assert made.coordinator.state.fork_state.forks[0].why == "the exact results have caught up"
    assert "fork_began" not in facts(made.advance(5.0))


def test_a_fork_whose_sink_was_lost_ends_where_that_had_come_to():
    """The input is back before the sink: with nobody to say how far the fork is, it is no end."""
    made = world()
    forked_at(made)
    progress(made, **{"join+1": 41, "out+1": 40, "out": 2})
    kill(made, JOIN, OUT)
    come_back(made)
    made.join("n7")
    made.join("n8")
    made.advance(1.0)
    made.restart_coordinator()
    for node in list(made.nodes):
        made.hello(node)
    for epoch in (2, 3):
        progress(made, **{"join+1": -1, "out+1": -1, "join": epoch, "out": epoch})
    assert "fork_ended" not in facts(made.advance(1.0))
    progress(made, **{"join+1": 41, "join": 40, "out": 39})
    assert "fork_ended" in facts(made.tick(0.05))


def test_a_new_coordinator_does_not_end_a_fork_before_it_has_heard_of_it():
    """Neither does it take a unit that has told nothing yet for one that has come nowhere."""
    made = world()
    forked_at(made)
    progress(made, **{"join+1": 41, "out+1": 40, "out": 2})
    come_back(made)
    made.restart_coordinator()
    for node in list(made.nodes):
        made.nodes[node].units.pop(UnitId(segment="out+1"), None)
        made.hello(node)
    progress(made, **{"join+1": 41, "out": 2})
    assert "fork_ended" not in facts(made.tick(0.3))
    progress(made, out=41)
    assert "fork_ended" in facts(made.tick(0.3))


def test_an_input_that_goes_while_a_fork_lives_leaves_it_alone():
    """If it concerns the same sinks: the fork's units leave it out themselves."""
    made = world()
    kill(made, RIGHT)
    made.advance(2.5)
    kill(made, LEFT)
    assert "fork_ended" not in facts(made.advance(5.0))


def test_a_loss_that_concerns_more_sinks_begins_a_larger_fork():
    """The first one covers a sink less."""
    made = world()
    forked_at(made)
    kill(made, RIGHT)
    got = made.advance(2.5)
    assert facts(got).count("fork_ended") == facts(got).count("fork_began") == 1
    assert list(live(made).units) == ["join+2.0#0", "out+2.0#0", "other+2.0#0"]
    assert "concerns more sinks" in made.coordinator.state.fork_state.forks[0].why


def test_a_correlated_failure_is_one_fork():
    """All that is down at its beginning is named, also what it forks."""
    made = world()
    kill(made, LEFT, RIGHT, JOIN)
    made.advance(2.5)
    assert [str(unit) for unit in live(made).silent] == ["join.0#0", "left.0#0", "right.0#0"]
    placed = [fact.unit.segment for fact in made.journal if fact.kind == "fork_placed"]
    assert placed == ["out+1", "other+1"]


def test_a_correlated_failure_that_is_seen_one_by_one_is_one_fork():
    """A node is known to be dead, of the other only the connection has broken so far."""
    made = lanes(at_once=("a", "a-once", "b", "b-once"))
    gone, other = made.where(A), made.where(B)
    made.disconnect(other)
    made.exit(gone)
    assert "fork_began" in facts(made.tick(0.02))
    assert {str(unit) for unit in live(made).silent} == {str(u) for u in (A, A_ONCE, B, B_ONCE)}
    del made.nodes[other]
    got = made.advance(5.0, step=0.1)
    assert made.coordinator.state.nodes.keys().isdisjoint({gone, other})
    assert "fork_ended" not in facts(got)
    assert "fork_began" not in facts(got)


def test_a_loss_that_is_found_late_is_not_waited_for():
    """The fork has just begun, and its units would wait for what is known to take too long."""
    made = lanes(at_once=("a", "a-once", "b", "b-once"))
    kill(made, A)
    assert "fork_began" in facts(made.tick(0.02))
    kill(made, B)
    got = made.tick(0.2)
    assert facts(got).count("fork_ended") == facts(got).count("fork_began") == 1
    assert {str(unit) for unit in live(made).silent} == {str(u) for u in (A, A_ONCE, B, B_ONCE)}
    assert "fork_ended" not in facts(made.advance(5.0))


def test_a_loss_while_a_fork_lives_is_left_out_by_its_units():
    """Also one that nobody is to wait for, once the fork has gone on for a while."""
    made = lanes(at_once=("a", "a-once", "b", "b-once"))
    kill(made, A)
    made.advance(2.0, step=0.1)
    kill(made, B)
    assert "fork_ended" not in facts(made.advance(5.0, step=0.1))


def test_a_second_loss_above_the_same_sink_is_in_the_fork_of_the_first():
    """Though it is due only some time later."""
    made = lanes()
    kill(made, A)
    made.advance(0.5)
    kill(made, B)
    got = made.advance(5.0, step=0.1)
    assert facts(got).count("fork_began") == 1
    assert "fork_ended" not in facts(got)
    assert "b-once+1.0#0" in live(made).units


def test_who_has_no_input_left_is_not_waited_for():
    """The fork of what reads a lost source alone gives nothing: it is silent from the beginning."""
    made = lanes((("a",), ("a-once", "b", "b-once", "c", "sum", "sums")))
    kill(made, A)
    made.advance(2.5)
    assert [str(unit) for unit in live(made).silent] == ["a.0#0", "a-once.0#0"]
    assert "a-once+1.0#0" in live(made).units  # it goes on by itself when its input is back


def test_who_has_not_found_a_new_coordinator_yet_is_no_suspect():
    """Only a connection that it had can have broken."""
    made = lanes(at_once=("a", "a-once"))
    kill(made, A)
    made.restart_coordinator()
    assert "fork_began" in facts(made.tick(0.02))
    assert {str(unit) for unit in live(made).silent} == {"a.0#0", "a-once.0#0"}


def test_a_lane_that_goes_while_a_fork_lives_leaves_it_alone():
    """No input is left to what the fork does not cover: its units leave that out themselves."""
    made = lanes()
    kill(made, A)
    assert "fork_began" in facts(made.advance(2.5))
    kill(made, B)
    assert "fork_ended" not in facts(made.advance(5.0))
    assert live(made).number == 1


def test_a_fork_waits_where_its_exact_unit_has_no_place():
    """And is started as soon as that has one."""
    made = world()
    kill(made, LEFT, JOIN)
    made.advance(2.5)
    assert live(made).units["join+1.0#0"].node is None
    made.join("n8")
    made.advance(1.0)
    placed = {str(unit.unit): unit.node for unit in live(made).units.values()}
    assert "n8" in (made.where(LEFT), placed["join+1.0#0"])


def test_a_unit_of_a_fork_goes_where_its_exact_unit_goes():
    """Its node is lost: the fork lives, with another generation of the unit."""
    made = world()
    forked_at(made)
    for node in list(made.nodes):
        made.run(node)
    kill(made, JOIN)
    assert live(made).units["join+1.0#0"].node is None
    made.join("n8")
    made.join("n9")
    made.advance(1.0)
    unit = live(made).units["join+1.0#0"]
    assert (unit.node, unit.generation) == (made.where(JOIN), 2)
    assert unit.failures == 0


def test_a_fork_whose_unit_fails_again_and_again_ends_and_none_follows():
    """Exact results do not depend on it; the run goes on."""
    made = world()
    forked_at(made)
    for _ in range(3):
        home = made.where(JOIN)
        made.set(home, UnitId.parse("join+1.0#0"), state="failed", error="boom\nValueError: no")
        made.beat(home)
        made.tick(0.1)
    record = made.coordinator.state.fork_state.forks[0]
    assert record.why == "join+1.0#0 failed 3 times: ValueError: no"
    assert "fork_began" not in facts(made.advance(20.0))
    assert status_of(made.coordinator) == "recovering"


def test_a_fork_is_bounded_in_age_and_in_what_it_keeps():
    """It ends with an explanation, though its input is still gone."""
    made = world(most_s=10.0)
    forked_at(made)
    made.advance(12.0)
    assert made.coordinator.state.fork_state.forks[0].why == "it has lived for 10 s"
    made = world(most_epochs=50)
    forked_at(made)
    progress(made, **{"out+1": 99, "out": 2})
    made.tick(0.1)
    assert "97 epochs ahead" in made.coordinator.state.fork_state.forks[0].why
    assert "fork_began" not in facts(made.advance(20.0))


def test_a_fork_may_follow_once_the_input_was_back():
    """It is only while the same loss lasts that none does."""
    made = world(most_s=10.0)
    forked_at(made)
    made.advance(12.0)
    come_back(made)
    made.advance(1.0)
    kill(made, LEFT)
    assert "fork_began" in facts(made.advance(3.0))


def test_a_killed_coordinator_finds_its_fork_and_says_again_what_it_is():
    """The journal has it; nodes that come back go on with what they run."""
    made = world()
    forked_at(made)
    before = made.coordinator.state
    got = made.restart_coordinator()
    assert made.coordinator.state.fork_state == before.fork_state
    assert ("put fork", 1) in acts(got)
    for node in list(made.nodes):
        made.hello(node)
    for node in list(made.nodes):
        made.run(node)
    assert "fork_ended" not in facts(made.advance(3.0))
    line = codec.state_to_line(made.coordinator.state)
    assert codec.state_from_json(json.loads(line)).fork_state == made.coordinator.state.fork_state


def test_a_start_that_never_arrived_is_said_again():
    """The node connects and does not know of the unit."""
    made = world()
    forked_at(made)
    home = made.where(JOIN)
    del made.nodes[home].units[UnitId.parse("join+1.0#0")]
    made.disconnect(home)
    assert ("start", "join+1.0#0", 1, home) in acts(made.hello(home))


def test_another_launch_ends_a_fork():
    """Its units are gone with their nodes."""
    made = world()
    forked_at(made)
    made.launch = "L2"
    got = made.do(e.LaunchOpened(cause=made.cause(), launch="L2"))
    assert ("end fork", 1) in acts(got)
    assert made.coordinator.state.fork_state.forks[0].why == "the run was stopped"


def test_a_stranger_of_a_fork_is_told_to_stop():
    """A unit of a fork that is over uses a node's time for nothing."""
    made = world()
    home = made.where(JOIN)
    stranger = UnitId.parse("join+7.0#0")
    made.nodes[home].units[stranger] = e.UnitReport(unit=stranger, generation=1, state="running")
    assert acts(made.beat(home)) == [("stop", "join+7.0#0", 1, home)]


def test_a_replica_that_goes_on_is_no_silence():
    """The log is written by the other one."""
    follower = replace(LEFT, replica=1)
    policy = replace(POLICY, workers=6, max_units_per_node=1, tentative=Tentative(after_s=1.0))
    made = Forked(units=(*UNITS, follower), policy=policy)
    for number in range(6):
        made.join(f"n{number}", domain=f"d{number}")
    for _ in range(4):
        made.now += 0.25
        for node in list(made.nodes):
            made.run(node)
    kill(made, LEFT)
    assert "fork_began" not in facts(made.advance(10.0))
