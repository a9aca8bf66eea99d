"""`holdfast demo`: what it tells, in which order, and how it ends; nothing runs here."""

import json
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console
from tests.unit.prove.proofs import make_proof
from typer.testing import CliRunner

from holdfast import profile as profiling
from holdfast.cli import demo as commands
from holdfast.errors import BadInputError
from holdfast.plan.document import parse_plan
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics
from holdfast.prove import report
from holdfast.prove import run as prove_run
from holdfast.prove.judge import Normal
from holdfast.rundir.contents import spec_path
from holdfast.runtime.spark.start import prepare

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Plots take most of the time and have tests of their own."""
    for name in ("recovery_plot", "phases_plot", "timeline_plot"):
        monkeypatch.setattr(report, name, lambda _proof: "<svg/>")


@pytest.fixture
def cli(monkeypatch, tmp_path):
    """The command with a proof that is made up; gives the result and what was to be proved."""
    monkeypatch.setattr(prepare, "prepare", lambda _say: None)
    asked = []

    def run(*words, proof=None, measured=None):
        def made_up(proving, run_dir, audience):
            assert run_dir.is_dir()
            assert not any(run_dir.iterdir())
            asked.append(proving)
            fault = (proof or make_proof()).struck
            audience.steady({"count.0#0": Normal(median=0.4, p95=0.5, slices=9)})
            for item in fault[:1]:
                tell(audience, item)
            return proof or make_proof()

        monkeypatch.setattr(prove_run, "prove", made_up)
        monkeypatch.setattr(profiling, "profile", measured or (lambda *_, **__: Statistics()))
        app = typer.Typer()
        app.command()(commands.demo)
        out = str(tmp_path / "demo")
        return CliRunner().invoke(app, ["--out", out, *words]), asked

    return run


def tell(audience, fault):
    """One fault as a run would tell it: the same view comes again and again."""
    node = SimpleNamespace(node=fault.node, pid=77, processes=4, units=("lines.0#0", "count.0#0"))
    audience.struck(fault, SimpleNamespace(nodes=(node,)))
    recovery = SimpleNamespace(
        unit="count.0#0",
        to_node="s0",
        detected_at=fault.killed_at + 0.25,
        restored_at=fault.killed_at + 1.5,
    )
    early = SimpleNamespace(**{**vars(recovery), "restored_at": None})
    for item in (early, recovery, recovery):
        audience.watched(fault, SimpleNamespace(recoveries=(item,)))
    audience.recovered(fault, make_proof().recoveries[:2])


def test_the_story_is_told_in_order(cli, tmp_path):
    """Measure, plan, run and break, compare; the report is named at the end."""
    result, asked = cli()
    assert result.exit_code == 0, result.output
    heads = ["1  Measure", "2  Plan", "3  Run and break", "4  Promised and measured", "report"]
    places = [result.output.index(head) for head in heads]
    assert places == sorted(places)
    assert "recovery within 5 s, results within 4 s" in result.output
    assert "results exact" in result.output
    assert "the plan" in (tmp_path / "demo" / "report.html").read_text()
    plan = json.loads((tmp_path / "demo" / "plan.json").read_text())
    assert plan["max_recovery"] == 5.0
    assert plan["recovery_latency"]["count"]["p95"] <= 5.0
    assert asked[0].plan == parse_plan(plan)
    assert asked[0].spares >= 1


def test_every_event_is_told_once(cli):
    """However often the run is looked at."""
    output = cli()[0].output
    assert output.count("kill -9 node n0 (process 77 and its 3 children)") == 1
    assert output.count("0.25 s  failure detected") == 1
    assert output.count("1.50 s  count.0#0 runs on s0") == 1
    assert output.count("Nothing is missing any more: lines.0#0 1.00 s, count.0#0 3.50 s") == 1


def test_what_was_profiled_is_shown_and_planned_with(cli):
    """The application is profiled quickly, and the plan rests on what was found."""
    asked = []

    def profile(app, seconds, *, quick, say):
        asked.append((app, seconds, quick))
        say("looking closely")
        size = Measure(value=12_500.0, samples=3, how="counted")
        return Statistics(operators={"count": OperatorStatistics(state_size=size)})

    result, proofs = cli(measured=profile)
    assert result.exit_code == 0, result.output
    assert asked[0][0].endswith("word_count.py")
    assert asked[0][2] is True
    assert "looking closely" in result.output
    assert "12.5 KB" in result.output
    assert proofs[0].plan.segments[-1].snapshot_interval is not None


@pytest.mark.slow
def test_bounds_that_cannot_be_kept_give_way_to_the_nearest(cli):
    """Half a second is less than a restart takes."""
    result, asked = cli("--max-recovery", "500ms")
    assert result.exit_code == 0, result.output
    assert "the nearest bounds can" in result.output
    assert asked[0].plan.max_recovery > 0.5


@pytest.mark.parametrize(
    ("proof", "code"),
    [
        (make_proof((7.0, 8.0, 9.0)), 1),
        (make_proof(missing=3), 1),
        (make_proof(gave_way=True, note="no recovery within 120 s"), 1),
        (make_proof((4.0,), note="interrupted after 1 of 3 faults"), 130),
    ],
)
def test_the_exit_code_tells_how_it_ended(cli, proof, code):
    """A broken bound or lost rows are 1, Ctrl-C is 130."""
    assert cli(proof=proof)[0].exit_code == code


def test_ctrl_c_while_measuring_ends_it(cli):
    """Before there is anything to report."""

    def profile(app, seconds, *, quick, say):
        raise KeyboardInterrupt

    result, proofs = cli(measured=profile)
    assert result.exit_code == 130
    assert "interrupted; nothing is left running" in result.output
    assert proofs == []


def test_only_an_earlier_demo_is_removed(cli, tmp_path):
    """Somebody else's files are not."""
    run = tmp_path / "demo" / "run"
    run.mkdir(parents=True)
    (run / "precious").touch()
    result = cli()[0]
    assert isinstance(result.exception, BadInputError)
    assert (run / "precious").exists()
    spec_path(run).touch()
    assert cli()[0].exit_code == 0
    assert not (run / "precious").exists()


def test_nothing_moves_where_nobody_watches():
    """Without a terminal waiting is told in plain lines."""
    console = Console(record=True, width=60, force_terminal=False)
    teller = commands._Teller(console)
    teller.wait("starting")
    teller.quiet()
    assert console.export_text() == "starting ...\n"


def test_planners_plan_everything(tmp_path):
    """Every shipped topology with every method, drawn."""
    app = typer.Typer()
    app.command()(commands.demo)
    result = CliRunner().invoke(app, ["--planners", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    plans = json.loads(result.stdout)["plans"]
    assert {plan["method"] for plan in plans} == {"ftc", "fastrecover", "ppa"}
    assert len(list(tmp_path.glob("*.svg"))) == len(plans)
