"""Stored histories: what the coordinator was told, what it decided, and the journal it kept.

A history is three files of the same name:

- NAME.jsonl: first what was run (units, policy), then a line per event: when, what, and the
  commands that followed, facts included;
- NAME.journal: the journal as written to disk;
- NAME.state.json: the state at the end.

`python -m tests.replay.histories` records them anew; do that only for a decision or a format that
was meant to change, and look at the difference.
"""

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter
from tests.unit.control.world import A, B, World, started

from holdfast.control import codec
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.coordinator import Coordinator
from holdfast.control.shell.journal import Journal
from holdfast.control.state import State
from holdfast.health.policy import Policy

HERE = Path(__file__).parent
EVENT = TypeAdapter(Annotated[e.Event, Field(discriminator="kind")])
POLICY = TypeAdapter(Policy)
COMMAND = TypeAdapter(Annotated[c.Command, Field(discriminator="kind")])


class Recorder(World):
    """A world that writes down every event with what followed from it."""

    def __init__(self, **options):
        self.story = []
        super().__init__(**options)

    def do(self, event):
        now = self.now
        got = super().do(event)
        self.story.append(
            {
                "now": now,
                "event": EVENT.dump_python(event, mode="json", exclude_defaults=True),
                "commands": [COMMAND.dump_python(command, mode="json") for command in got],
            }
        )
        self.story[-1]["event"]["kind"] = event.kind
        return got


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


HISTORIES = {
    made.__name__.replace("_", "-"): made
    for made in (
        start_and_stop,
        node_death,
        silent_node,
        failing_unit,
        stalled_unit,
        coordinator_killed,
    )
}


def record(name):
    world = HISTORIES[name]()
    head = {
        "units": [str(unit) for unit in world.units],
        "policy": POLICY.dump_python(world.policy, mode="json"),
    }
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


def restarted(coordinator, journal):
    """A coordinator made from what the one before has decided."""
    fresh = Coordinator(pipeline="p", units=coordinator.units, policy=coordinator.policy)
    fresh.replay(None, journal)
    return fresh


if __name__ == "__main__":
    for known in HISTORIES:
        record(known)
