"""`holdfast prove` around the run: options, exit codes, what is printed."""

import json

import pytest
import typer
from rich.console import Console
from tests.unit.prove.proofs import PLAN, make_proof
from typer.testing import CliRunner

from holdfast.cli import prove as commands
from holdfast.errors import BadInputError
from holdfast.plan import FtcPlan
from holdfast.prove import run as prove_run

pytestmark = pytest.mark.unit

APP = "from tests.unit.verify.rundirs import make_pipeline\npipeline = make_pipeline()\n"


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """The command with a proof that is made up; gives the result and what was asked."""
    (tmp_path / "app.py").write_text(APP)
    plan = FtcPlan(algorithm="by hand", feasible=True)
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    asked = []

    def run(*words, proof=None):
        def made_up(proving, run_dir, audience):
            asked.append(proving)
            return proof or make_proof()

        monkeypatch.setattr(prove_run, "prove", made_up)
        app = typer.Typer()
        app.command()(commands.prove)
        base = [str(tmp_path / "app.py"), "--plan", str(tmp_path / "plan.json")]
        return CliRunner().invoke(app, [*base, "-d", str(tmp_path / "run"), *words]), asked

    return run


def test_a_proof_that_holds_exits_0(cli):
    """Table, plot and verdict are printed."""
    result, asked = cli("--faults", "3")
    assert result.exit_code == 0, result.output
    assert "bound kept: 6 of 6 recoveries within it" in result.output
    assert "results exact: 500 rows" in result.output
    assert asked[0].faults == 3
    assert asked[0].spares == 1
    # Units come back in the order in which they do in a run.
    units = [str(unit) for unit in asked[0].deployment.units()]
    assert sorted(asked[0].recovery_order) == sorted(units)


def test_a_few_broken_bounds_are_not_hidden(cli):
    """One of three refutes nothing, and is not called kept."""
    result, _ = cli(proof=make_proof((4.0, 4.0, 7.0)))
    assert result.exit_code == 0
    assert "bound not refuted: 5 of 6 recoveries within it" in result.output


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (make_proof((7.0, 8.0, 9.0)), "bound broken"),
        (make_proof((None, None, 4.0)), "bound broken"),
        (make_proof(missing=1), "results wrong"),
        (make_proof(verdict=False), "not checked"),
        (make_proof(left=(4711,)), "left behind"),
        (make_proof(gave_way=True, note="count.0#0 has failed too often"), "failed too often"),
        (make_proof((), note="interrupted after 0 of 3 faults"), "interrupted after 0"),
    ],
)
def test_what_is_not_proved_exits_1(cli, proof, said):
    """A broken bound, a lost row, nothing compared, processes left, a run that failed."""
    result, _ = cli(proof=proof)
    assert result.exit_code == 1
    assert said in result.output


def test_json_is_one_object(cli):
    """With everything that was measured."""
    result, _ = cli("--json")
    data = json.loads(result.stdout)
    assert data["ok"] is True
    assert [item["segment"] for item in data["segments"]] == ["lines", "count"]
    assert data["segments"][1]["measured"]["median"] == 4.0
    assert len(data["recoveries"]) == 6


def test_bad_options_are_refused_before_anything_starts(cli, tmp_path):
    """One line each."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x").touch()
    assert "is not empty" in str(cli()[0].exception)
    (tmp_path / "run" / "x").unlink()
    missing = cli("--report", str(tmp_path / "no" / "r.html"))[0].exception
    assert isinstance(missing, BadInputError)
    assert cli("--max-recovery", "soon")[0].exit_code == 1


def test_the_report_is_written(cli, tmp_path, monkeypatch):
    """And named."""
    monkeypatch.setattr("holdfast.prove.report.draw_svg", lambda *_: "<svg/>")
    result, _ = cli("--report", str(tmp_path / "r.html"))
    assert result.exit_code == 0, result.output
    assert "the plan keeps its promise" in (tmp_path / "r.html").read_text()


def test_marks_are_where_the_values_are():
    """In the terminal plot the bound is right of the median, and all fit the width."""
    lines = commands.plot_lines(make_proof((2.0, 4.0, 8.0)).comparisons, width=50)
    plain = [Console().render_str(line).plain for line in lines]
    count = next(line for line in plain if line.startswith("count"))
    cells = count[len("count") + 2 :]
    assert len(cells) == 50
    assert cells.index("◆") < cells.index("┃")
    assert cells.index("●") == int(2.0 / (8.0 * 1.04) * 50)
    assert PLAN.max_recovery == 6.0
    assert cells.index("┃") == int(6.0 / (8.0 * 1.04) * 50)
