"""Hot paths: judged whether they carry or not, tried out where they run."""

from dataclasses import replace

import pytest
from tests.unit.control.test_paths import POLICY_WITH_PATHS, SCORE, SRC, SplitWorld

from holdfast.cli.live import failures
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.coordinator import Coordinator
from holdfast.control.hot import ASK_S, ILL_S, hot_paths
from holdfast.control.view import view
from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.health.nexus.classify import Nexus
from holdfast.health.nexus.rules import NoOutput, Suspended

pytestmark = pytest.mark.unit

MODEL, RULES = UnitId(segment="score.model"), UnitId(segment="score.rules")
HOT = {"score.model": ("score", "model"), "score.rules": ("score", "rules")}


class HotWorld(SplitWorld):
    """A source, two paths that run along, and what takes the rows of one."""

    def __init__(self, units=(SRC, MODEL, RULES, SCORE)):
        self.kept = {}
        policy = replace(
            POLICY_WITH_PATHS, workers=len(units) - 1, alone=("score.model", "score.rules")
        )
        super().__init__(units, policy)

    def _carry_out(self, command):
        super()._carry_out(command)
        if isinstance(command, c.KeepPath) and self.answers:
            unit = self.keep(command)
            if unit is not None:
                self.do(
                    e.PathKept(
                        cause=command.cause,
                        segment=command.segment,
                        runs=command.runs,
                        units=(unit,) if command.runs else (),
                    )
                )

    def keep(self, command):
        """What the records do: one that is taken is not shut down; units have new names."""
        segment = command.segment
        changes = self.kept.setdefault(segment, [True])
        if not command.runs and segment == f"score.{self.records.changes[-1]}":
            return None
        if changes[-1] is not command.runs:
            changes.append(command.runs)
        unit = UnitId(segment=segment, change=len(changes) - 1)
        self.log.setdefault(unit, self.log[SCORE])
        return unit

    def made(self):
        return Coordinator(
            pipeline="p",
            units=self.units,
            policy=self.policy,
            splits={"score": {"model": "1", "rules": "1"}},
            hot=HOT,
            nexus=Nexus([NoOutput(hold_s=1.0, early=0), Suspended()]),
        )


@pytest.fixture
def world():
    return all_up()


def all_up():
    made = HotWorld()
    for name in ("n0", "n1", "n2"):
        made.join(name)
    made.join("s0", spare=True)
    made.all_run(6)
    assert made.all_running()
    return made


def held_path():
    """A world in which the first path has failed too often to be tried again by itself."""
    world = all_up()
    for _ in range(world.policy.retries.limit + 1):
        world.set(world.where(MODEL), MODEL, state="failed", error="ValueError: no")
        world.beat(world.where(MODEL))
        if world.phase(MODEL) == "held":
            break
        world.all_run(8)
    return world


def suspend(world, unit, *, seconds):
    node = world.where(unit)
    for _ in range(round(seconds / 0.25)):
        world.now += 0.25
        if node in world.coordinator.state.nodes:
            world.beat(node, suspended=1)


def test_the_segments_are_told_by_the_deployment():
    """With the split and the path that each is."""
    segments = (
        Segment(name="score.rules", kind="inner", operators=("r",), path="score:model/slow"),
        Segment(name="score", kind="inner", operators=("score",)),
    )
    made = Deployment(pipeline="p", epoch_s=1.0, segments=segments, fingerprints={})
    assert hot_paths(made) == {"score.rules": ("score", "model/slow")}


def test_a_path_that_fails_is_left_and_goes_on_running(world):
    """Only what takes the rows changes; its own unit is where it was."""
    node = world.where(MODEL)
    suspend(world, MODEL, seconds=1.0)
    assert (world.split.active, world.records.changes) == ("rules", ["model", "rules"])
    assert world.where(MODEL) == node
    assert world.breaker("model").state == "open"


def test_a_path_that_does_not_carry_is_judged_as_well(world):
    """So that nothing that is broken is ever taken."""
    suspend(world, RULES, seconds=1.0)
    assert (world.split.active, world.breaker("rules").state) == ("model", "open")
    assert world.records.changes == ["model"]


def on_trial(world):
    """The first path has failed and is on trial; told is the node that runs it."""
    suspend(world, MODEL, seconds=1.0)
    node = world.where(MODEL)
    for batch in range(9, 20):
        world.set(node, MODEL, waiting=30, batch=batch)
        world.advance(0.5)
    assert world.breaker("model").state == "half-open"
    return node


def test_on_trial_it_is_sound_when_it_has_caught_up(world):
    """No node is asked to run anything."""
    node = on_trial(world)
    assert world.probes == {}
    world.set(node, MODEL, waiting=1, batch=20)
    world.now += 0.25
    world.beat(node)
    assert (world.breaker("model").state, world.split.active) == ("closed", "model")
    assert world.breaker("model").why == "it runs along and has caught up"


def on_trial_with_another_leader(world):
    """The first path is on trial when a coordinator takes over that has seen nothing of it."""
    node = on_trial(world)
    world.succeed()
    for name in world.nodes:
        world.hello(name)
    world.tick()
    return node


def test_on_trial_it_is_watched_for_a_while_by_whoever_leads(world):
    """A coordinator that has just taken over has found nothing yet, which says nothing."""
    node = on_trial_with_another_leader(world)
    world.set(node, MODEL, waiting=1)
    for _ in range(7):
        world.now += 0.25
        world.beat(node)
    assert world.breaker("model").state == "half-open"
    world.advance(1.0)
    assert world.breaker("model").state == "half-open"  # it has not given out anything
    world.set(node, MODEL, batch=21)
    world.advance(0.5)
    assert (world.breaker("model").state, world.split.active) == ("closed", "model")


def test_on_trial_a_stopped_path_is_found_by_whoever_leads(world):
    """It takes two heartbeats, so the first one must not have it trusted."""
    node = on_trial_with_another_leader(world)
    world.set(node, MODEL, waiting=0)
    for _ in range(12):
        world.now += 0.25
        world.beat(node, suspended=1)
    assert (world.breaker("model").state, world.split.active) == ("half-open", "rules")
    world.advance(1.0)
    assert world.split.active == "model"


def test_on_trial_every_shard_must_be_sound():
    """One that has caught up says nothing about another."""
    other = replace(MODEL, shard=1)
    world = HotWorld((SRC, MODEL, other, RULES, SCORE))
    for name in ("n0", "n1", "n2", "n3"):
        world.join(name)
    world.all_run(6)
    suspend(world, other, seconds=1.0)
    assert world.split.active == "rules"
    for batch in range(9, 25):
        world.set(world.where(MODEL), MODEL, waiting=0, batch=batch)
        world.set(world.where(other), other, waiting=30, batch=batch)
        world.advance(0.5)
    assert world.breaker("model").state == "half-open"
    world.set(world.where(other), other, waiting=1, batch=26)
    world.advance(0.5)
    assert (world.breaker("model").state, world.split.active) == ("closed", "model")


def test_on_trial_with_nothing_to_do_it_is_sound(world):
    """Its input may have come to an end, or be down."""
    node = on_trial_with_another_leader(world)
    world.set(node, MODEL, waiting=0)
    world.advance(3.0)
    assert world.breaker("model").state == "closed"


def test_one_that_keeps_failing_takes_its_node_down(world):
    """It may leak, and nobody else runs there."""
    node = world.where(MODEL)
    suspend(world, MODEL, seconds=ILL_S + 2)
    assert node not in world.coordinator.state.nodes


def test_a_held_unit_is_tried_again_with_its_path(world):
    """When the path is on trial, or trusted by hand."""
    for _ in range(8):
        world.set(world.where(MODEL), MODEL, state="failed", error="ValueError: no")
        world.beat(world.where(MODEL))
        if world.phase(MODEL) == "held":
            break
        world.advance(1.0)
        world.all_run(2)
        if world.where(MODEL) is None:
            break
    assert world.breaker("model").state in ("open", "half-open")
    world.ask("close", "model")
    world.all_run(3)
    assert world.phase(MODEL) == "running"


def test_a_held_path_is_no_failure_of_the_run():
    """Its split goes on by another one, and its breaker has it tried again."""
    world = held_path()
    shown = view(world.coordinator, world.now)
    held = next(unit for unit in shown.units if unit.phase == "held")
    assert (held.unit, held.path) == ("score.model.0#0", "score:model")
    assert (shown.status, failures(shown)) == ("running", [])


def test_what_takes_the_rows_is_no_path(world):
    """Its failure is repaired like any other, and opens no breaker."""
    world.set(world.where(SCORE), SCORE, state="failed", error="ValueError: no")
    world.beat(world.where(SCORE))
    assert {item.state for item in world.split.paths} == {"closed"}
    assert world.records.changes == ["model"]


def failed_for_good(world):
    """Every trial of the first path ends badly, until it is given up."""
    world.do(e.PathAsked(cause=world.cause(), what="prefer", split="score", path=""))
    suspend(world, MODEL, seconds=1.0)
    for _ in range(200):
        if world.breaker("model").state == "failed":
            return
        world.now += 0.5
        if len(world.coordinator.state.nodes) < 4:  # one that keeps failing takes its node down
            world.join(f"x{world.count}")
        for name in list(world.nodes):
            if name not in world.coordinator.state.nodes:
                del world.nodes[name]
            else:
                held = world.where(MODEL) == name
                if held:
                    world.set(name, MODEL, waiting=30)
                world.beat(name, suspended=int(held))
        world.tick()
    raise AssertionError(world.split)


def test_one_that_has_failed_for_good_is_shut_down(world):
    """Nothing of it runs, and its node is free; else it would pin its input for ever."""
    failed_for_good(world)
    assert (world.kept["score.model"], world.split.active) == ([True, False], "rules")
    assert world.coordinator.state.unit_state.of_segment("score.model") == []
    world.all_run(4)
    assert view(world.coordinator, world.now).status == "running"
    assert MODEL not in {unit for fake in world.nodes.values() for unit in fake.units}


def test_it_is_begun_again_when_somebody_trusts_it(world):
    """Under another name, with what its split needs from then on."""
    failed_for_good(world)
    world.ask("close", "model")
    world.tick(0.1)
    assert world.kept["score.model"] == [True, False, True]
    (record,) = world.coordinator.state.unit_state.of_segment("score.model")
    assert record.unit == UnitId(segment="score.model", change=2)
    world.all_run(4)
    assert world.all_running()
    assert world.split.active == "model"


def test_it_is_not_begun_again_to_be_opened_by_hand(world):
    """Whoever opens it wants it to be used by nobody, in other launches as well."""
    failed_for_good(world)
    world.ask("open", "model")
    world.tick(ASK_S + 0.1)
    world.succeed()
    for name in world.nodes:
        world.hello(name)
    world.tick(ASK_S + 0.1)
    assert (world.breaker("model").state, world.kept["score.model"]) == ("open", [True, False])
    world.ask("close", "model")
    assert world.kept["score.model"] == [True, False, True]


def test_another_leader_has_it_shut_down_that_the_one_before_did_not(world):
    """It was killed before the records were asked."""
    world.answers = False
    failed_for_good(world)
    assert world.coordinator.state.unit_state.of_segment("score.model")
    world.answers = True
    world.succeed()
    for name in world.nodes:
        world.hello(name)
    assert world.kept["score.model"] == [True, False]
    assert world.coordinator.state.unit_state.of_segment("score.model") == []


def test_what_the_records_did_not_answer_is_asked_again(world):
    """A full disk, for example."""
    world.answers = False
    failed_for_good(world)
    world.answers = True
    world.tick(ASK_S + 0.1)
    assert world.kept["score.model"] == [True, False]


def test_another_launch_begins_it_again(world):
    """Whoever launches has had the chance to repair it."""
    failed_for_good(world)
    world.launch = "L2"
    world.do(e.LaunchOpened(cause=world.cause(), launch="L2"))
    assert world.kept["score.model"] == [True, False, True]
    names = {str(record.unit) for record in world.coordinator.state.unit_state.units.values()}
    assert "score.model.2#0" in names
