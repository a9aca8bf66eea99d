"""Stored histories come out the same: neither a decision nor the journal's format has changed."""

import json
from pathlib import Path
from typing import get_args

import pytest
from tests.replay.histories import COMMAND, EVENT, HISTORIES, made_of, restarted

from holdfast.control import codec
from holdfast.control import commands as c
from holdfast.control.coordinator import Coordinator
from holdfast.control.facts import Fact
from holdfast.control.invariants import validate
from holdfast.control.shell.journal import read

pytestmark = pytest.mark.unit

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.jsonl"))


def test_every_history_is_stored():
    """What can be recorded is there to be replayed, and nothing else is."""
    assert sorted(HISTORIES) == NAMES
    assert sorted(path.stem for path in HERE.glob("*.journal")) == NAMES


def test_every_kind_of_fact_is_in_a_history():
    """But for those that only tell people something."""
    facts = [fact for path in HERE.glob("*.journal") for fact in read(path).facts]
    kinds = {kind.__dataclass_fields__["kind"].default for kind in get_args(Fact)}
    assert kinds - {fact.kind for fact in facts} == {"launch_trouble", "scaling_noted"}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_events_give_the_same_commands(name):
    """Told what was told then, the coordinator decides as it did then, step by step."""
    head, *story = [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]
    coordinator = made_of(head)
    facts = []
    for index, step in enumerate(story):
        event = EVENT.validate_python(step["event"])
        if event.kind == "launch_opened" and index:
            coordinator = restarted(facts, head)
        got = coordinator.handle(event, step["now"])
        validate(coordinator)
        assert [COMMAND.dump_python(x, mode="json") for x in got] == step["commands"], index
        facts += [x.fact for x in got if isinstance(x, c.Record)]
    stored = json.loads((HERE / f"{name}.state.json").read_text())
    assert json.loads(codec.state_to_line(coordinator.state)) == stored


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_journal_gives_its_state(name):
    """A journal on disk is read by this version and gives the state it was written from."""
    replayed = read(HERE / f"{name}.journal")
    assert replayed.torn_bytes == 0
    coordinator = Coordinator(pipeline="p", units=())
    coordinator.replay(replayed.state, replayed.facts)
    stored = json.loads((HERE / f"{name}.state.json").read_text())
    assert json.loads(codec.state_to_line(coordinator.state)) == stored
    assert json.loads(codec.state_to_line(codec.state_from_json(stored))) == stored
