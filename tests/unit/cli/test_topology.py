"""`holdfast topology`: new, show and check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.topology import app
from holdfast.errors import BadInputError
from holdfast.plan import FtcPlan
from holdfast.testing import GENERATORS, sentiment
from holdfast.topology.files import load_topology

pytestmark = pytest.mark.unit

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "topologies").glob("*.yaml"))


def run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("name", GENERATORS)
def test_new_writes_what_the_generator_makes(name, tmp_path):
    """Every shape is written as YAML and JSON and reads back as the same topology."""
    for ending in ("yaml", "json"):
        out = tmp_path / f"t.{ending}"
        assert run("new", name, "--seed", 3, "--out", out).exit_code == 0
        assert load_topology(out) == GENERATORS[name](seed=3)
    assert out.read_text().startswith("{")


def test_new_takes_the_options_of_the_shape():
    """Options reach the generator; without --out the file goes to stdout."""
    result = run("new", "sentiment", "--a", 3, "--b", 2, "--c", 2, "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["name"] == sentiment(3, 2, 2).name


def test_new_names_the_shapes_and_their_options():
    """Help lists shapes, and each shape its options; an unknown shape is refused by name."""
    assert "ppa-random" in run("new", "--help").stdout
    assert "--joins" in run("new", "ppa-random", "--help").stdout
    with pytest.raises(BadInputError, match="no shape 'ring'"):
        run("new", "ring")
    with pytest.raises(BadInputError, match="whole number"):
        run("new", "chain", "--n", "many")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_check_and_show(path, tmp_path):
    """Every shipped example is fine, and can be shown and drawn."""
    assert "ok" in run("check", path).stdout
    svg = tmp_path / "t.svg"
    shown = run("show", path, "--svg", svg)
    assert shown.exit_code == 0
    topology = load_topology(path)
    assert topology.name in shown.stdout
    assert svg.read_text().count('class="op"') == len(topology.operators)


def test_the_sentiment_example_has_the_printed_links():
    """The shipped sentiment topology has the paper's 93 tasks and 560 links."""
    path = next(path for path in EXAMPLES if path.name == "sentiment.yaml")
    counts = json.loads(run("show", path, "--json").stdout)["counts"]
    assert (counts["tasks"], counts["links"]) == (93, 560)


def test_show_marks_a_plan(tmp_path):
    """--plan marks the plan on the screen and in the SVG."""
    file, plan, svg = tmp_path / "t.yaml", tmp_path / "p.json", tmp_path / "t.svg"
    run("new", "chain", "--n", 3, "--out", file)
    made = FtcPlan(algorithm="exact", feasible=True, backups=("op2",), overall=2.0)
    plan.write_text(json.dumps(made.to_json()))
    shown = run("show", file, "--plan", plan, "--svg", svg)
    assert "backup" in shown.stdout
    assert "┗" in shown.stdout
    assert 'class="bar backup"' in svg.read_text()


def test_show_svg_to_stdout(tmp_path):
    """--svg - prints the drawing and nothing else."""
    file = tmp_path / "t.yaml"
    run("new", "chain", "--n", 3, "--out", file)
    assert run("show", file, "--svg", "-").stdout.startswith("<svg")


def test_names_like_markup_survive(tmp_path):
    """Square brackets in names are text, not colour."""
    file = tmp_path / "t.yaml"
    file.write_text("operators: [{name: '[red]a'}]\n")
    assert "[red]a" in run("show", file).stdout.split("operator")[-1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "not a plan"),
        (json.dumps(FtcPlan(algorithm="exact", feasible=True, backups=("x",)).to_json()), "'x'"),
    ],
)
def test_bad_plans_are_refused(tmp_path, content, said):
    """A plan that is none, or is for another topology, is refused in one line."""
    file, plan = tmp_path / "t.yaml", tmp_path / "p.json"
    run("new", "chain", "--n", 3, "--out", file)
    plan.write_text(content)
    with pytest.raises(BadInputError, match=said):
        run("show", file, "--plan", plan)


def test_check_raises_the_one_line(tmp_path):
    """A bad file raises the error that the command line prints."""
    file = tmp_path / "t.yaml"
    file.write_text("operators: [{name: a}, {name: a}]\n")
    with pytest.raises(BadInputError, match="used twice"):
        run("check", file)
