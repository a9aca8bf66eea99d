"""`holdfast verify` on a run directory written by hand."""

import json

import pytest
import typer
from tests.unit.verify.rundirs import read_part, write_part, write_run_of_app
from typer.testing import CliRunner

from holdfast.cli.verify import verify
from holdfast.errors import BadInputError

pytestmark = pytest.mark.unit


@pytest.fixture
def cli():
    app = typer.Typer()
    app.command()(verify)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def run(tmp_path):
    return write_run_of_app(tmp_path)


def test_a_right_run_exits_0(cli, run):
    """The verdict is said and counted."""
    result = cli(run)
    assert result.exit_code == 0, result.output
    assert "checked: right, 24 rows compared" in result.output


def test_a_wrong_run_exits_1_and_shows_rows(cli, run):
    """What is missing is printed, as text and as JSON."""
    write_part(run, 4, read_part(run, 4)[:1])
    result = cli(run)
    assert result.exit_code == 1
    assert "WRONG  sink out: 1 missing" in result.output
    assert "n: 104" in result.output
    result = cli(run, "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["ok"] is False
    assert data["findings"][-1]["missing"] == 1


def test_a_run_that_names_no_application_needs_one(cli, run):
    """--app stands in for what the run does not say."""
    app = json.loads((run / "run.json").read_text())["app"]
    (run / "run.json").unlink()
    assert isinstance(cli(run).exception, BadInputError)
    assert cli(run, "--app", app).exit_code == 0
