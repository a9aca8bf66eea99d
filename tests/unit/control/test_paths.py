"""Splits: breakers fed by heartbeats, paths taken on the records, probes, and a changed leader."""

import json
from dataclasses import replace

import pytest
from tests.unit.control.world import POLICY, World, facts

from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.codec import state_from_json, state_to_line
from holdfast.control.coordinator import Coordinator
from holdfast.control.paths import LOOK_S
from holdfast.control.view import view
from holdfast.deployment import UnitId
from holdfast.health.breaker import BreakerPolicy
from holdfast.health.nexus.classify import Nexus
from holdfast.health.nexus.rules import NoOutput, Suspended

pytestmark = pytest.mark.unit

SRC, SCORE = UnitId(segment="src"), UnitId(segment="score")
POLICY_WITH_PATHS = replace(
    POLICY,
    workers=2,
    alone=("score",),
    breaker=BreakerPolicy(open_s=5.0, cooldown_s=4.0, probes=2, probe_s=20.0),
)


class Records:
    """What the shell does on the records, and says."""

    def __init__(self, first="model"):
        self.changes = [first]

    def take(self, path):
        if path and path != self.changes[-1]:
            self.changes.append(path)

    @property
    def unit(self):
        return UnitId(segment="score", change=len(self.changes) - 1)


class SplitWorld(World):
    """A source and a split of two paths."""

    paths = ("model", "rules")

    def __init__(self, units=(SRC, SCORE), policy=POLICY_WITH_PATHS):
        self.records = Records(self.paths[0])
        self.answers = True
        self.probes = {}
        super().__init__(units=units, policy=policy, open_=False)
        self.coordinator = self.made()
        self.do(e.LaunchOpened(cause=self.cause(), launch=self.launch))

    def made(self):
        return Coordinator(
            pipeline="p",
            units=self.units,
            policy=self.policy,
            splits={"score": dict.fromkeys(self.paths, "1")},
            nexus=Nexus([NoOutput(hold_s=1.0, early=0), Suspended()]),
        )

    def succeed(self):
        """Another coordinator leads, with what the journal says: the same state."""
        before = self.coordinator.state
        self.coordinator = self.made()
        self.coordinator.replay(None, self.journal)
        assert self.coordinator.state == before
        self.do(e.LaunchOpened(cause=self.cause(), launch=self.launch))

    def _carry_out(self, command):
        super()._carry_out(command)
        if isinstance(command, c.TakePath) and self.answers:
            self.records.take(command.path)
            self.log.setdefault(self.records.unit, self.log[SCORE])
            self.do(
                e.PathCarried(
                    cause=command.cause,
                    split="score",
                    path=self.records.changes[-1],
                    change=len(self.records.changes) - 1,
                    units=(self.records.unit,),
                    reason=command.reason,
                )
            )
        elif isinstance(command, c.StartProbe):
            self.probes[command.path] = command
        elif isinstance(command, c.StopProbe):
            known = self.probes.get(command.path)
            if known is not None and (known.node, known.probe) == (command.node, command.probe):
                del self.probes[command.path]

    def beat(self, node, **gauges):
        probes = tuple(getattr(self.nodes[node], "probed", ()))
        said = e.Gauges(processes=2, cpu=0.5, **gauges)
        return super().beat(node, gauges=said, probes=probes)

    def all_run(self, times=1):
        for _ in range(times):
            self.now += 0.25
            for node, fake in list(self.nodes.items()):
                if fake.connected:
                    self.run(node)

    def ask(self, what, path):
        return self.do(e.PathAsked(cause=self.cause(), what=what, split="score", path=path))

    def ended(self, path, *, good, why="tried"):
        """A node says how the probe of a path has ended."""
        probe = self.probes.pop(path)
        fake = self.nodes[probe.node]
        fake.probed = (
            e.ProbeReport(
                split="score",
                path=path,
                probe=probe.probe,
                state="good" if good else "bad",
                why=why,
            ),
        )
        got = self.beat(probe.node)
        fake.probed = ()
        return got

    @property
    def split(self):
        (found,) = view(self.coordinator, self.now).splits
        return found

    def breaker(self, path):
        return next(item for item in self.split.paths if item.path == path)


@pytest.fixture
def world():
    made = SplitWorld()
    made.join("n0")
    made.join("n1")
    made.join("s0", spare=True)
    made.all_run(6)
    assert made.all_running()
    return made


def fail(world, text="Traceback\nValueError: no"):
    world.set(world.where(world.records.unit), world.records.unit, state="failed", error=text)
    return world.beat(world.where(world.records.unit))


def test_a_unit_of_a_split_has_a_node_to_itself(world):
    """Placed first, and nothing is put beside it."""
    alone = world.where(SCORE)
    assert world.where(SRC) != alone
    assert [str(r.unit) for r in world.coordinator.state.unit_state.on_node(alone)] == ["score.0#0"]


def test_an_exception_opens_the_breaker(world):
    """The next path begins on a warm spare; nothing is retried, nothing held."""
    fail(world)
    assert world.records.changes == ["model", "rules"]
    assert world.where(world.records.unit) == "s0"
    assert world.coordinator.state.unit(SCORE) is None
    assert (world.split.active, world.split.carried) == ("rules", "rules")
    assert (world.breaker("model").state, world.breaker("model").why) == ("open", "ValueError: no")
    world.all_run(2)
    assert world.all_running()


def test_a_stopped_worker_is_found_by_the_heartbeats(world):
    """Two of them, a quarter of a second apart."""
    node = world.where(SCORE)
    world.now += 0.25
    world.beat(node, suspended=1)
    assert world.split.active == "model"
    world.now += 0.3
    world.beat(node, suspended=1)
    assert world.split.active == "rules"
    assert "stopped" in world.breaker("model").why
    world.beat(node, suspended=1)
    assert SCORE not in world.nodes[node].units  # the old unit was told to stop


def test_silence_while_items_wait_is_found(world):
    """As is whatever else a rule finds."""
    node = world.where(SCORE)
    world.set(node, SCORE, waiting=3)
    for _ in range(8):
        world.now += 0.25
        world.beat(node)
        world.beat("n0") if node != "n0" else None
    assert world.split.active == "rules"
    assert world.breaker("model").why.startswith("no output: gave out nothing")


def hang(world, node):
    """For longer than a unit may take to end, one goes on running."""
    for _ in range(50):
        world.now += 0.25
        world.nodes[node].units[SCORE] = e.UnitReport(unit=SCORE, generation=1, state="running")
        for name in list(world.nodes):
            if name in world.coordinator.state.nodes:
                world.beat(name)


def test_a_unit_that_does_not_end_takes_its_node_down(world):
    """Its node is of no use; the records keep it from doing harm."""
    node = world.where(SCORE)
    world.ask("open", "model")
    hang(world, node)
    assert node not in world.coordinator.state.nodes


def test_the_next_path_begins_where_the_last_one_does_not_linger():
    """What is left may hang or leak; it is told to end, and takes its time."""
    made = SplitWorld()
    for name in ("n0", "n1", "n2"):
        made.join(name)
    made.all_run(6)
    node = made.where(SCORE)
    empty = ({"n0", "n1", "n2"} - {node, made.where(SRC)}).pop()
    assert node < empty  # by their names it would be the other way round
    made.ask("open", "model")
    assert made.where(made.records.unit) == empty
    made.all_run(2)
    made.ask("close", "model")
    made.all_run(1)
    assert made.where(made.records.unit) == node  # it has ended there


def test_a_unit_that_does_not_end_is_found_by_another_leader(world):
    """The one that had left its path has died since."""
    node = world.where(SCORE)
    world.ask("open", "model")
    world.succeed()
    for name in world.nodes:
        world.hello(name)
    hang(world, node)
    assert node not in world.coordinator.state.nodes


def test_a_lost_node_is_repaired_and_counts_when_it_happens_again(world):
    """One loss may be anybody's fault."""
    world.exit(world.where(SCORE))
    assert (world.split.active, world.where(SCORE)) == ("model", "s0")
    world.join("n2")
    world.all_run(2)
    world.exit("s0")
    assert world.split.active == "rules"
    assert world.breaker("model").why == "its process was lost 2 times"


def test_probes_run_on_an_empty_node_and_close_the_breaker(world):
    """When the open time is over; then the first path carries again."""
    fail(world)
    world.all_run(2)
    world.advance(5.5)
    probe = world.probes["model"]
    assert (probe.node, probe.share) == ("n0" if world.where(SRC) == "n1" else "n1", 0.05)
    assert world.breaker("model").state == "half-open"
    world.ended("model", good=True)
    assert (world.split.active, world.records.changes) == ("model", ["model", "rules", "model"])
    assert world.breaker("model").on_probation
    world.all_run(2)
    assert world.all_running()


def test_bad_probes_cool_down_and_give_up(world):
    """After a set number of them a path has failed for good."""
    fail(world)
    world.all_run(2)
    world.advance(5.5)
    world.ended("model", good=False, why="still down")
    assert (world.breaker("model").state, world.breaker("model").bad_probes) == ("open", 1)
    world.advance(3.0)
    assert not world.probes
    world.advance(1.5)
    world.ended("model", good=False, why="still down")
    assert world.breaker("model").state == "failed"
    world.advance(30.0)
    assert not world.probes
    world.ask("close", "model")
    assert world.split.active == "model"


def test_a_probe_whose_node_is_lost_is_a_bad_one(world):
    """Nobody waits for its answer."""
    fail(world)
    world.all_run(2)
    world.advance(5.5)
    world.exit(world.probes["model"].node)
    world.tick(0.1)
    assert (world.breaker("model").state, world.breaker("model").why) == (
        "open",
        "its node was lost",
    )


def test_all_paths_down(world):
    """Said so; nothing of the split runs, and it goes on with whichever comes back."""
    fail(world)
    world.all_run(3)
    fail(world)
    assert world.split.active is None
    assert [str(unit) for unit in world.coordinator.state.units] == ["src.0#0"]
    assert view(world.coordinator, world.now).status == "recovering"
    assert world.records.changes == ["model", "rules"]
    world.all_run(2)
    world.advance(5.5)
    world.ended("rules", good=True)
    # The stream was rules' all along: its unit goes on where it was.
    assert (world.split.active, world.records.changes) == ("rules", ["model", "rules"])
    world.all_run(2)
    assert world.all_running()
    assert world.coordinator.state.unit(world.records.unit).generation == 2


def tolerant(**settings):
    """A world whose breakers are set otherwise."""
    breaker = replace(POLICY_WITH_PATHS.breaker, **settings)
    made = SplitWorld(policy=replace(POLICY_WITH_PATHS, breaker=breaker))
    for name in ("n0", "n1"):
        made.join(name)
    made.join("s0", spare=True)
    made.all_run(6)
    return made


def test_a_held_unit_has_its_path_left():
    """Its own budget may be used up before the breaker has counted enough."""
    world = tolerant(failures=9)
    for _ in range(world.policy.retries.limit + 1):
        assert world.split.active == "model"
        fail(world)
        world.all_run(16)
    assert (world.split.active, world.breaker("model").state) == ("rules", "open")
    assert world.all_running()


def test_a_failure_that_lasts_counts_again():
    """One that hangs would never reach a threshold of several by itself."""
    world = tolerant(failures=2, window_s=8.0)
    node = world.where(SCORE)
    for _ in range(8):
        world.now += 0.25
        world.beat(node, suspended=1)
    assert world.split.active == "model"
    for _ in range(4):
        world.now += 0.25
        world.beat(node, suspended=1)
    assert world.split.active == "rules"


def test_a_failure_below_the_threshold_costs_no_node():
    """Only a hot path that fails for long takes its node down: nothing else ends it."""
    world = tolerant(failures=50, window_s=3000.0)
    node = world.where(SCORE)
    for _ in range(60):
        world.now += 0.25
        for name in world.nodes:
            world.beat(name, suspended=int(name == node))
    assert (world.split.active, world.where(SCORE)) == ("model", node)


def test_by_hand(world):
    """Open, close, prefer: what a person has opened, no probe closes."""
    world.ask("open", "model")
    assert world.split.active == "rules"
    world.all_run(2)
    world.advance(20.0)
    assert not world.probes
    assert world.breaker("model").by_hand
    world.ask("close", "model")
    assert world.split.active == "model"
    world.all_run(2)
    world.ask("prefer", "rules")
    assert (world.split.active, world.split.preferred) == ("rules", "rules")
    world.all_run(2)
    world.ask("prefer", "")
    assert world.split.active == "model"


def test_a_leader_that_died_before_the_records_were_asked(world):
    """Its successor finds the breakers in the journal and has the path taken."""
    world.answers = False
    fail(world)
    assert world.records.changes == ["model"]
    world.answers = True
    before = world.coordinator.state
    world.coordinator = world.made()
    world.coordinator.replay(None, world.journal)
    assert world.coordinator.state == before
    for fake in world.nodes.values():
        fake.connected = False
    world.do(e.LaunchOpened(cause=world.cause(), launch=world.launch))
    assert (world.split.active, world.records.changes) == ("rules", ["model", "rules"])
    for node in list(world.nodes):
        world.hello(node)
    world.all_run(3)
    assert world.all_running()
    assert world.coordinator.state.unit(SCORE) is None


def test_what_the_records_did_not_answer_is_asked_again(world):
    """A full disk, for example."""
    world.answers = False
    fail(world)
    world.answers = True
    world.tick(0.5)
    assert world.records.changes == ["model"]
    world.tick(2.0)
    assert world.records.changes == ["model", "rules"]


def test_breakers_survive_a_snapshot(world):
    """The state is written and read as a whole."""
    fail(world)
    again = state_from_json(json.loads(state_to_line(world.coordinator.state)))
    assert again.path_state == world.coordinator.state.path_state
    assert again == world.coordinator.state


def test_facts_tell_the_story(world):
    """In their order: what failed, what it led to."""
    before = len(world.journal)
    fail(world)
    told = [fact.kind for fact in world.journal[before:]]
    assert told[:4] == ["unit_down", "recovery_began", "breaker_changed", "path_taken"]
    assert "path_left" in told
    assert facts(world.tick(0.1)) == []


def test_a_cut_by_somebody_else_is_answered(world):
    """A leader that was deposed may have put one more change: the path that is to carry is back."""
    node = world.where(SCORE)
    world.records.changes.append("rules")
    other = world.records.unit
    world.log[other] = -1
    world.set(node, SCORE, state="ended", heirs=(str(other),))
    world.beat(node)
    assert world.coordinator.state.unit(other) is not None
    world.nodes[node].units.pop(SCORE)
    world.tick(3.0)
    assert world.records.changes == ["model", "rules", "model"]
    assert world.coordinator.state.unit(other) is None
    world.all_run(3)
    assert world.all_running()


def test_a_split_that_is_no_more_is_not_shown(world):
    """All its paths were down when somebody took it out of the pipeline."""
    fail(world)
    world.all_run(3)
    fail(world)
    assert view(world.coordinator, world.now).status == "recovering"
    world.coordinator = Coordinator(pipeline="p", units=(SRC,), policy=POLICY)
    world.coordinator.replay(None, world.journal)
    world.launch = "L2"
    world.do(e.LaunchOpened(cause=world.cause(), launch="L2"))
    for node in list(world.nodes):
        world.join(node)
    world.all_run(3)
    shown = view(world.coordinator, world.now)
    assert (shown.status, shown.splits) == ("running", ())


def test_another_launch_forgives_what_no_person_has_opened(world):
    """Whoever launches has had the chance to repair it."""
    fail(world)
    world.ask("open", "rules")
    assert world.split.active is None
    world.launch = "L2"
    world.do(e.LaunchOpened(cause=world.cause(), launch="L2"))
    assert (world.split.active, world.breaker("rules").by_hand) == ("model", True)


def test_in_another_launch_nothing_runs_that_a_person_has_opened(world):
    """Its unit is deployed with the others, and the records may not answer at once."""
    world.ask("open", "model")
    world.ask("open", "rules")
    world.answers = False
    world.units = (*world.units, UnitId(segment="late"))
    before, world.coordinator = world.journal, world.made()
    world.coordinator.replay(None, before)
    world.launch = "L2"
    world.do(e.LaunchOpened(cause=world.cause(), launch="L2"))
    assert world.coordinator.state.unit(SCORE) is not None
    world.answers = True
    world.tick(LOOK_S)
    assert world.coordinator.state.unit(SCORE) is None
