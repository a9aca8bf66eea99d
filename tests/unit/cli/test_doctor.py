"""`holdfast doctor`: what is looked at, and what is said about it."""

import json

import pytest

from holdfast.cli import doctor as command

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("finding", "state", "todo"),
    [
        (command.python_found((3, 11)), "ok", ""),
        (command.python_found((3, 14)), "ok", ""),
        (command.python_found((3, 10)), "problem", "use Python 3.11"),
        (command.python_found((3, 15)), "problem", "use Python 3.11"),
        (command.memory_found(16e9, 8e9), "ok", ""),
        (command.memory_found(16e9, 1.2e9), "note", "a node takes"),
        (command.memory_found(16e9, 0.5e9), "problem", "a node takes"),
        (command.cores_found(2), "ok", ""),
        (command.cores_found(1), "note", "share a core"),
        (command.room_found(5e9, "/here"), "ok", ""),
        (command.room_found(1e9, "/here"), "problem", "make 2 GB of room"),
        (command.extra_found("spark", ["a 1"], ["pyspark"]), "problem", "holdfast[spark]"),
        (command.extra_found("plan", [], ["scipy"]), "note", "holdfast[plan]"),
        (command.extra_found("plot", ["matplotlib 3"], []), "ok", ""),
    ],
)
def test_what_is_said(finding, state, todo):
    """A problem keeps pipelines from running, a note costs comfort, and both say what to do."""
    assert finding.state == state
    assert todo in finding.todo
    assert bool(finding.todo) == (state != "ok")


def test_this_machine(holdfast, tmp_path):
    """Every line has a state; --json is one object with the same findings; nothing is left."""
    said = holdfast("doctor", tmp_path)
    lines = said.out.strip().splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note", "problem"}
    assert any("hard links work" in line for line in lines)
    answer = json.loads(holdfast("doctor", tmp_path, "--json").out)
    assert [one["what"] for one in answer["findings"]][:2] == ["Python", "planning"]
    assert len(answer["findings"]) == len(lines)
    assert answer["ok"] == (said.code == 0)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_a_problem(holdfast, tmp_path):
    """Exit code 1."""
    said = holdfast("doctor", tmp_path / "nowhere")
    assert said.code == 1
    assert "does not exist; make it" in said.out
