"""What `holdfast profile` shows and refuses."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.cli import profile as command
from holdfast.errors import BadInputError
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics, parse_statistics
from holdfast.topology.graph import Edge, Operator, Topology

pytestmark = pytest.mark.unit

FOUND = Statistics(
    pipeline="words",
    operators={
        "split": OperatorStatistics(
            input_rate=Measure(value=50.0, error=0.5, samples=9, how="counted"),
            selectivity=Measure(value=3.5, samples=9, how="counted"),
            cost=Measure(value=1e-15, error=1e-6, samples=6, how="replayed"),
        ),
        "count": OperatorStatistics(state_size=Measure(value=8.3e6, samples=4, how="on disk")),
    },
)

TOPOLOGY = Topology(
    name="words",
    operators=(Operator(name="split"), Operator(name="count")),
    edges=(Edge(source="split", target="count"),),
    rates={"split": 50.0},
)


@pytest.fixture
def measured(monkeypatch):
    """A profile that takes no time; notes what it was asked for."""
    asked = []

    def measure(app, seconds, *, quick, thorough, say):
        asked.append((app, seconds, quick))
        say("running")
        return FOUND

    monkeypatch.setattr("holdfast.profile.profile", measure)
    monkeypatch.setattr("holdfast.runtime.spark.start.prepare.prepare", lambda say: None)
    found = SimpleNamespace(name="counts", topology=lambda: TOPOLOGY)
    monkeypatch.setattr("holdfast.cli.check.sound_pipeline", lambda app, say: found)
    return asked


def drawn(table):
    console = Console(width=100, record=True, file=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_numbers_are_shown_with_their_certainty():
    """An error shows as a share, and a cost lost in noise as a bound."""
    text = drawn(command.operators_table(FOUND))
    assert "50 ±1%" in text
    assert "3.5" in text
    assert "< 1.64 us" in text
    state = command.state_table(FOUND)
    assert state is not None
    assert "8.3 MB" in drawn(state)
    assert "split" not in drawn(state)


def test_the_machine_says_how_it_was_measured():
    """Every number of the machine stands with its story."""
    text = drawn(command.machine_table(FOUND.machine))
    assert "restore warm" in text
    assert "slice write, per MB" in text
    assert FOUND.machine.spare_cost.how in text


def test_the_file_can_be_planned_with(measured, tmp_path):
    """What is written reads back as what was measured; --json prints the same, alone."""
    out = tmp_path / "s.json"
    result = CliRunner().invoke(app, ["profile", "a.py", "--quick", "-o", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert parse_statistics(out.read_text(), origin="x") == FOUND
    assert json.loads(result.stdout) == json.loads(out.read_text())
    assert measured == [("a.py", command.QUICK_S, True)]


def test_a_time_can_be_given(measured):
    """--for is understood as everywhere; what the promise hangs on is told."""
    result = CliRunner().invoke(app, ["profile", "a.py", "--for", "2min"])
    assert result.exit_code == 0, result.output
    assert "hangs on" in result.output
    assert measured == [("a.py", 120.0, False)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--for", "soon"],
        ["--for", "0s"],
        ["-o", "/no/such/place/s.json"],
        ["--quick", "--thorough"],
    ],
)
def test_what_cannot_work_is_refused_at_once(measured, arguments):
    """Nothing is run for a profile that could not be kept."""
    result = CliRunner().invoke(app, ["profile", "a.py", *arguments])
    assert isinstance(result.exception, BadInputError)
    assert measured == []
