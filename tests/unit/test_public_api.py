"""The public names, pinned: adding or removing one is a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast

pytestmark = pytest.mark.unit


def test_public_names() -> None:
    """At most 20 names, sorted, each of which can be imported."""
    assert holdfast.__all__ == [
        "BadInputError",
        "Console",
        "Edge",
        "Files",
        "ForeachBatch",
        "Generator",
        "HoldfastError",
        "Operator",
        "Parquet",
        "Pipeline",
        "PlanRequest",
        "Query",
        "Rate",
        "SparkSource",
        "Sqlite",
        "Topology",
        "load_topology",
        "plan_topology",
        "save_topology",
    ]
    for name in holdfast.__all__:
        assert getattr(holdfast, name).__name__ == name


def test_unknown_names_are_attribute_errors() -> None:
    """A misspelt name fails as it would in any module."""
    with pytest.raises(AttributeError, match="planTopology"):
        _ = holdfast.planTopology


def test_nothing_heavy_is_imported_at_start() -> None:
    """The command line starts without numpy, pydantic, pyspark or matplotlib."""
    code = (
        "import sys, holdfast.cli; "
        "print([m for m in ('numpy', 'pydantic', 'pyspark', 'matplotlib', 'scipy', 'highspy', "
        "'pyarrow', 'yaml') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_planning_never_imports_pyspark() -> None:
    """Every planner works without Spark being loaded."""
    code = (
        "import sys; from holdfast.planners.registry import METHODS, planner; "
        "[planner(method) for method in METHODS]; print('pyspark' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
