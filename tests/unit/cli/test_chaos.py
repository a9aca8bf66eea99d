"""`holdfast verify` and the options of `holdfast chaos`, without running anything."""

import json

import pytest
import typer
from tests.unit.verify.rundirs import read_part, write_part, write_run
from typer.testing import CliRunner

from holdfast.cli import chaos as commands
from holdfast.errors import BadInputError

pytestmark = pytest.mark.unit

APP = "from tests.unit.verify.rundirs import make_pipeline\npipeline = make_pipeline()\n"


@pytest.fixture
def cli():
    app = typer.Typer()
    app.command("chaos")(commands.chaos)
    app.command("verify")(commands.verify)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    write_run(run)
    path = tmp_path / "app.py"
    path.write_text(APP)
    (run / "run.json").write_text(json.dumps({"app": str(path)}))
    return run


def test_a_right_run_exits_0(cli, run):
    """The verdict is said and counted."""
    result = cli("verify", run)
    assert result.exit_code == 0, result.output
    assert "checked: right, 24 rows compared" in result.output


def test_a_wrong_run_exits_1_and_shows_rows(cli, run):
    """What is missing is printed, as text and as JSON."""
    write_part(run, 4, read_part(run, 4)[:1])
    result = cli("verify", run)
    assert result.exit_code == 1
    assert "WRONG  sink out: 1 missing" in result.output
    assert "n: 104" in result.output
    result = cli("verify", run, "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["ok"] is False
    assert data["findings"][-1]["missing"] == 1


def test_a_run_that_names_no_application_needs_one(cli, run):
    """--app stands in for what the run does not say."""
    app = json.loads((run / "run.json").read_text())["app"]
    (run / "run.json").unlink()
    assert isinstance(cli("verify", run).exception, BadInputError)
    assert cli("verify", run, "--app", app).exit_code == 0


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
    error = cli("chaos", app, *words).exception
    assert isinstance(error, BadInputError)
    assert message in str(error)


def test_a_used_run_directory_is_refused(cli, run):
    """Chaos starts afresh."""
    app = json.loads((run / "run.json").read_text())["app"]
    error = cli("chaos", app, "--seed", "1", "--run-dir", run).exception
    assert "is not empty" in str(error)
