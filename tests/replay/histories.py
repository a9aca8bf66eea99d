"""Stored histories: what the coordinator was told, what it decided, and the journal it kept.

A history is three files of the same name:

- NAME.jsonl: first what was run (units, policy, and if they matter who reads whom and the paths of
  splits), then a line per event: when, what, and the commands that followed, facts included;
- NAME.journal: the journal as written to disk;
- NAME.state.json: the state at the end.

`python -m tests.replay.histories NAME...` records some anew; do that only for a decision or a
format that was meant to change, and look at the difference.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter
from tests.unit.control import test_forking as forking
from tests.unit.control import test_handover as handover
from tests.unit.control import test_paths as paths
from tests.unit.control import test_replication as replication
from tests.unit.control.test_forking import Forked
from tests.unit.control.test_paths import SplitWorld
from tests.unit.control.world import A, B, World, started

from holdfast.control import codec
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.coordinator import Coordinator
from holdfast.control.shell.journal import Journal
from holdfast.control.state import State
from holdfast.deployment import UnitId
from holdfast.health.policy import Policy

HERE = Path(__file__).parent
EVENT = TypeAdapter(Annotated[e.Event, Field(discriminator="kind")])
POLICY = TypeAdapter(Policy)
COMMAND = TypeAdapter(Annotated[c.Command, Field(discriminator="kind")])


class Recording:
    """A world that writes down every event with what followed from it."""

    def __init__(self, **options):
        self.story = []
        super().__init__(**options)

    def do(self, event):
        line = {
            "now": self.now,
            "event": EVENT.dump_python(event, mode="json", exclude_defaults=True),
        }
        line["event"]["kind"] = event.kind
        self.story.append(line)  # before the answers that its commands get at once
        got = super().do(event)
        line["commands"] = [COMMAND.dump_python(command, mode="json") for command in got]
        return got


class Recorder(Recording, World):
    """Units that are all alike."""


class ForkRecorder(Recording, Forked):
    """Two sources, a join of both with its sink, and a sink of one of them."""


class SplitRecorder(Recording, SplitWorld):
    """A source and a split of two paths, judged by the rules that come with Holdfast."""

    def made(self):
        return made_of(head_of(self))


def begun(nodes=("n0", "n1"), spares=("s0",)):
    """Two units running, as in the scenario tests."""
    return started(nodes=nodes, spares=spares, world=Recorder)


def start_and_stop():
    """Two nodes and a spare join, units run, everything is stopped."""
    world = begun()
    world.do(e.StopRequested(cause="stop"))
    world.disconnect("n0")
    world.exit("n1")
    world.exit("s0")
    return world


def node_death():
    """A node is killed; its unit runs on the spare and catches up."""
    world = begun()
    world.exit("n0")
    for _ in range(3):
        world.now += 0.25
        world.run("s0")
    return world


def silent_node():
    """A node stops beating, is fenced, and is sent away when it wakes."""
    world = begun()
    world.advance(3.0, silent=["n0"], step=1.0)
    world.beat("n0")
    return world


def failing_unit():
    """An operator raises until its unit is held; someone repairs it and asks for a retry."""
    world = begun(nodes=("n0",), spares=())
    for _ in range(3):
        world.set("n0", B, state="failed", operator="parse", error="Traceback\nValueError: boom")
        world.beat("n0")
        world.advance(2.0, step=1.0)
    world.do(e.RetryRequested(cause="retry", unit=B))
    for _ in range(3):
        world.now += 0.25
        world.run("n0")
    return world


def stalled_unit():
    """A unit does nothing that it could do, costs its node, and goes on elsewhere."""
    world = begun(nodes=("n0",))
    world.set("n0", A, waiting=4)
    world.advance(6.0, step=1.0)
    for _ in range(3):
        world.now += 0.25
        world.run("s0")
    return world


def coordinator_killed():
    """The coordinator dies with a node, comes back from its journal and finds that out."""
    world = begun()
    world.restart_coordinator()
    world.nodes.pop("n0")
    world.hello("n1")
    world.hello("s0")
    world.advance(6.0, step=1.0)
    world.run("s0")
    return world


def handed_over():
    """A stream is split: heirs are started, its unit ends, one heir dies and comes back."""
    world = begun(nodes=("n0", "n1"), spares=())
    handover.request(world)
    for node in ("n0", "n1"):
        world.run(node)
    handover.end(world, world.where(A))
    for _ in range(2):
        world.now += 0.25
        for node in ("n0", "n1"):
            world.run(node)
    world.exit(world.where(handover.LOW))
    for _ in range(3):
        world.now += 0.25
        for node in list(world.nodes):
            world.run(node)
    return world


def other_leader():
    """One of several coordinators leads; another takes over, finds a node gone, and goes on."""
    world = begun()
    world.coordinator = world.new_coordinator()
    world.coordinator.replay(None, world.journal)
    for term, name in ((4, "c1"), (5, "c0")):
        world.do(
            e.LaunchOpened(cause=world.cause(), launch=world.launch, term=term, coordinator=name)
        )
        world.nodes.pop("n0", None)
        for node in list(world.nodes):
            world.hello(node)
        world.advance(7.0, step=1.0)
        world.run("s0")
        world.coordinator = restarted(world.journal, head_of(world))
    world.do(e.LaunchOpened(cause=world.cause(), launch=world.launch, term=6, coordinator="c1"))
    return world


def follower_promoted():
    """All nodes of a domain die, and a unit's with them: its follower in another one leads."""
    world = replication.hot(world=Recorder)
    follower = world.where(replication.A1)
    domain = world.nodes[world.where(A)].domain
    for node in [name for name, fake in world.nodes.items() if fake.domain == domain]:
        world.exit(node)
    world.log[replication.A1] += 1
    world.set(follower, replication.A1, leads=True, epoch=world.log[replication.A1])
    world.beat(follower)
    for _ in range(3):
        world.now += 0.25
        for node in list(world.nodes):
            world.run(node)
    return world


def path_lost():
    """A path fails, the next carries; the first is probed, trusted again and preferred."""
    world = SplitRecorder()
    world.join("n0")
    world.join("n1")
    world.join("s0", spare=True)
    world.all_run(6)
    paths.fail(world)
    world.all_run(2)
    world.join("n2")
    for _ in range(8):
        world.advance(1.0, step=0.5)
        if "model" in world.probes:
            world.ended("model", good=True)
    world.all_run(4)
    world.ask("open", "model")
    world.all_run(2)
    world.ask("prefer", "rules")
    return world


def input_gone():
    """Results go on in a fork without a source that is gone, though one of its units fails once;
    the source comes back, and the fork ends.
    """
    world = forking.world(made=ForkRecorder)
    forking.forked_at(world)
    joined = UnitId.parse("join+1.0#0")
    world.set(world.where(forking.JOIN), joined, state="failed", error="Traceback\nValueError: no")
    world.beat(world.where(forking.JOIN))
    world.advance(2.0)
    forking.progress(world, **{"join+1": 5, "out+1": 5})
    world.restart_coordinator()
    for node in list(world.nodes):
        world.hello(node)
    forking.come_back(world)
    forking.progress(world, left=9, right=9, join=9, out=9)
    world.advance(2.0)
    return world


HISTORIES = {
    made.__name__.replace("_", "-"): made
    for made in (
        start_and_stop,
        node_death,
        silent_node,
        failing_unit,
        stalled_unit,
        coordinator_killed,
        handed_over,
        other_leader,
        follower_promoted,
        path_lost,
        input_gone,
    )
}


def head_of(world):
    """What is run in a world, to be stored."""
    head = {
        "units": [str(unit) for unit in world.units],
        "policy": POLICY.dump_python(world.policy, mode="json"),
    }
    if world.reads is not None:
        head["reads"] = world.reads
    if isinstance(world, SplitWorld):
        head["splits"] = {"score": dict.fromkeys(world.paths, "1")}
    return head


def made_of(head):
    """A new coordinator for what a history says was run."""
    reads = head.get("reads")
    return Coordinator(
        pipeline="p",
        units=tuple(UnitId.parse(unit) for unit in head["units"]),
        policy=POLICY.validate_python(head["policy"]),
        splits=head.get("splits"),
        reads=reads and {segment: tuple(inputs) for segment, inputs in reads.items()},
    )


def record(name):
    world = HISTORIES[name]()
    head = head_of(world)
    lines = [json.dumps(line, separators=(",", ":")) for line in [head, *world.story]]
    (HERE / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    path = HERE / f"{name}.journal"
    path.unlink(missing_ok=True)
    journal = Journal(path, State.new("p"))
    for line in world.story:
        decided = [COMMAND.validate_python(command) for command in line["commands"]]
        journal.append([x.fact for x in decided if isinstance(x, c.Record)])
    journal.close()
    state = json.loads(codec.state_to_line(world.coordinator.state))
    (HERE / f"{name}.state.json").write_text(json.dumps(state, indent=1) + "\n")


def restarted(journal, head):
    """A coordinator made from what the one before has decided."""
    fresh = made_of(head)
    fresh.replay(None, journal)
    return fresh


if __name__ == "__main__":
    for known in sys.argv[1:]:
        record(known)
