"""The public names, pinned: adding or removing one is a decision, not an accident."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import holdfast
import holdfast.testing
from holdfast import scripting
from holdfast.cli import app
from holdfast.pipeline import Pipeline, Stream

pytestmark = pytest.mark.unit


def test_public_names() -> None:
    """At most 20 names, sorted, each of which can be imported."""
    assert holdfast.__all__ == [
        "BadInputError",
        "Console",
        "Files",
        "ForeachBatch",
        "Generator",
        "HoldfastError",
        "Parquet",
        "Pipeline",
        "Rate",
        "SparkSource",
        "Sqlite",
        "Stream",
        "Table",
        "plan",
        "profile",
        "prove",
        "run",
    ]
    assert len(holdfast.__all__) <= 20
    for name in holdfast.__all__:
        assert getattr(holdfast, name).__name__.rpartition(".")[2] == name


@pytest.mark.slow
def test_a_package_can_be_called_by_the_name_of_its_function() -> None:
    """`from holdfast import plan` is one thing, whatever was imported before it."""
    code = (
        "from holdfast import plan as early\n"
        "import holdfast.plan.document as document\n"
        "from holdfast import plan, profile, prove, run\n"
        "from holdfast.plan import JointPlan\n"
        "import holdfast.plan, holdfast\n"
        "assert plan.JointPlan is JointPlan and holdfast.plan.document is document\n"
        "from holdfast.topology.graph import Operator, Topology\n"
        "topology = Topology(name='t', operators=(Operator(name='a'),))\n"
        "for one in (early, plan, holdfast.plan):\n"
        "    shown = one(topology, max_recovery=1)\n"
        "    assert shown._repr_svg_().startswith('<svg') and 'Log nothing' in str(shown)\n"
        "print(callable(profile), callable(prove), callable(run))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "True True True", said.stderr


@pytest.mark.parametrize("name", ["plan", "profile", "prove"])
def test_a_notebook_shows_what_a_call_takes(name: str) -> None:
    """The options of the function, not `*args`; and where it is described."""
    called = getattr(holdfast, name)
    assert inspect.signature(called) == inspect.signature(getattr(scripting, name))
    assert f"holdfast.scripting.{name}" in inspect.getdoc(called.__call__)


def test_public_names_are_typed() -> None:
    """What a type checker sees is what can be imported: no name is missing from either list."""
    module = ast.parse(Path(holdfast.__file__).read_text())
    seen = [
        alias.name
        for block in module.body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    ]
    assert sorted(seen) == sorted(holdfast.__all__)
    assert sorted(holdfast._HOME) == sorted(holdfast.__all__)
    assert (Path(holdfast.__file__).parent / "py.typed").exists()


def test_methods_of_a_pipeline() -> None:
    """What pipelines are written with."""

    def public(kind: type) -> str:
        return " ".join(sorted(name for name in vars(kind) if not name.startswith("_")))

    assert public(Pipeline) == (
        "consumers expectations expected operator operators replaced sink sinks source sources "
        "table topology validate"
    )
    assert public(Stream) == (
        "aggregate join map name operator paths pipeline select stateful union where with_columns"
    )


def test_names_for_tests() -> None:
    """What users' own tests and experiments may lean on."""
    assert " ".join(holdfast.testing.__all__) == (
        "GENERATORS Found chain in_tree layered_dag out_tree parallel_lines ppa_random random_dag "
        "run sentiment signalguru thesis_chain thesis_tree"
    )


def test_commands() -> None:
    """What scripts call."""
    assert " ".join(sorted(get_command(app).commands)) == (
        "chaos check demo doctor init kill log logs nodes paths plan profile prove reproduce retry "
        "run scale status stop topology verify web"
    )


def test_unknown_names_are_attribute_errors() -> None:
    """A misspelt name fails as it would in any module."""
    with pytest.raises(AttributeError, match="planTopology"):
        _ = holdfast.planTopology


def test_planning_never_imports_pyspark() -> None:
    """Every planner works without Spark being loaded."""
    code = (
        "import sys; from holdfast.planners.registry import METHODS, planner; "
        "[planner(method) for method in METHODS]; print('pyspark' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
