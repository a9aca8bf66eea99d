"""The unit graph: what a pipeline really runs, as PPA plans it."""

from __future__ import annotations

import pytest

from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import PLANNER
from holdfast.planners.ppa.units import unit_graph
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics
from holdfast.topology.graph import Edge, Operator, Query, Topology

pytestmark = pytest.mark.unit

TOPOLOGY = Topology(
    name="two-sources",
    operators=(
        Operator(name="a", backup="required"),
        Operator(name="b", backup="required"),
        Operator(name="clean", selectivity=0.5),
        Operator(name="meet", parallelism=2, input="correlated", backup="required"),
        Operator(name="top"),
    ),
    edges=(
        Edge(source="a", target="clean"),
        Edge(source="clean", target="meet"),
        Edge(source="b", target="meet"),
        Edge(source="meet", target="top"),
    ),
    rates={"a": 100.0, "b": 50.0},
    queries=(Query(name="out", sink="top"),),
)


def test_fused_operators_are_one_and_exporters_are_units() -> None:
    """Segments under their deployment's names and shards, and an operator for each exporter."""
    units = unit_graph(TOPOLOGY)
    assert [(one.name, one.parallelism) for one in units.operators] == [
        ("a", 1),
        ("b", 1),
        ("clean", 1),
        ("meet", 2),
        ("top", 1),
        ("out", 1),
    ]
    fused = unit_graph(
        Topology(
            name="chain",
            operators=(Operator(name="x", selectivity=3.0), Operator(name="y", selectivity=0.5)),
            edges=(Edge(source="x", target="y", partitioning="one-to-one"),),
            queries=(Query(name="result", sink="y"),),
        )
    )
    assert [one.name for one in fused.operators] == ["y", "result"]
    assert fused.operators[0].selectivity == pytest.approx(1.5)
    assert [query.sink for query in fused.queries] == ["result"]


def test_joins_and_rates_are_kept() -> None:
    """A segment that joins needs all its inputs; sources keep their rates."""
    units = unit_graph(TOPOLOGY)
    assert units.operator("meet").input == "correlated"
    assert units.rates == {"a": 100.0, "b": 50.0}
    assert units.operator("meet").selectivity == pytest.approx(1.0)


def test_measured_rates_go_before_those_of_the_topology() -> None:
    """With statistics, rates and selectivities are what was measured."""
    found = Statistics(
        operators={
            "a": OperatorStatistics(input_rate=Measure(value=10.0)),
            "clean": OperatorStatistics(
                input_rate=Measure(value=10.0), output_rate=Measure(value=2.0)
            ),
        }
    )
    units = unit_graph(TOPOLOGY, found)
    assert units.rates["a"] == pytest.approx(10.0)
    assert units.operator("clean").selectivity == pytest.approx(0.2)


def test_the_smallest_useful_budget_is_a_whole_path_of_units() -> None:
    """With one unit too few nothing survives, and the plan says how many it takes."""
    units = unit_graph(TOPOLOGY)
    found = PLANNER.plan(units, PlanRequest(replicas=5), Solve())
    assert found.objective == 0
    assert "the smallest that does is 6" in found.note
    assert "out" in found.note
    enough = PLANNER.plan(units, PlanRequest(replicas=6), Solve())
    assert enough.objective is not None
    assert enough.objective > 0
