"""The options of `holdfast chaos`, without running anything."""

import json
from typing import get_args, get_type_hints

import pytest
import typer
from tests.unit.verify.rundirs import write_run_of_app
from typer.testing import CliRunner

from holdfast.cli.chaos import chaos
from holdfast.errors import BadInputError
from holdfast.faults.schedule import DRAWN, FAULT_KINDS

pytestmark = pytest.mark.unit


@pytest.fixture
def cli():
    app = typer.Typer()
    app.command()(chaos)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def run(tmp_path):
    return write_run_of_app(tmp_path)


def test_help_says_what_is_drawn_by_default_and_what_else_there_is():
    """All that can be drawn without a target or a text of its own."""
    _, option = get_args(get_type_hints(chaos, include_extras=True)["kinds"])
    text = str(option.help)
    assert ",".join(DRAWN) in text
    others = set(FAULT_KINDS) - {*DRAWN, "poison", "scale"}
    assert [kind for kind in others if kind not in text] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs either --schedule or --seed"),
        (["--seed", "1", "--schedule", "x"], "needs either --schedule or --seed"),
        (["--seed", "1", "--kinds", "boom"], "unknown fault 'boom'"),
        (["--seed", "1", "--shards", "m"], "'m' is not OPERATOR=N"),
        (["--seed", "1", "--cut", "x"], "no operator 'x'"),
        (["--schedule", "none.yaml"], "cannot be read"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(cli, run, words, message):
    """Each is one line."""
    app = json.loads((run / "run.json").read_text())["app"]
    error = cli(app, *words).exception
    assert isinstance(error, BadInputError)
    assert message in str(error)


def test_a_used_run_directory_is_refused(cli, run):
    """Chaos starts afresh."""
    app = json.loads((run / "run.json").read_text())["app"]
    error = cli(app, "--seed", "1", "--run-dir", run).exception
    assert "is not empty" in str(error)
