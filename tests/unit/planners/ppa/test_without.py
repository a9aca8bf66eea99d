"""What share of the input results reflect without some tasks."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.without import ALL_SETS, shares_without
from holdfast.topology.graph import Edge, Operator, Query, Topology

pytestmark = pytest.mark.unit


def joined(shards: int = 1) -> Topology:
    """Two sources, three rows of one for one of the other, united and then joined with a third."""
    return Topology(
        name="t",
        operators=(
            Operator(name="a", parallelism=shards),
            Operator(name="b"),
            Operator(name="c"),
            Operator(name="u"),
            Operator(name="j", input="correlated"),
            Operator(name="out"),
        ),
        edges=(
            Edge(source="a", target="u"),
            Edge(source="b", target="u"),
            Edge(source="u", target="j"),
            Edge(source="c", target="j"),
            Edge(source="j", target="out"),
        ),
        rates={"a": 3.0, "b": 1.0, "c": 1.0},
        queries=(Query(name="out", sink="out"),),
    )


def test_shares_are_those_of_the_fidelity_model():
    """A union loses what its input gave, a join everything without one side."""
    found = shares_without(joined())
    assert found["u"]["a",] == pytest.approx(0.25)
    assert found["u"]["b",] == pytest.approx(0.75)
    assert found["out"]["b",] == pytest.approx(0.75)
    assert found["out"]["c",] == 0.0
    assert found["u"]["c",] == 1.0
    model = fidelity_model(joined())
    for missing, share in found["out"].items():
        alive = np.array([name not in missing for name in model.names])
        assert share == pytest.approx(model.fidelity(alive), abs=1e-6)


def test_sinks_are_never_missing_and_many_tasks_go_by_pairs():
    """Nobody would notice the first; the second would be more sets than anyone asks for."""
    few = shares_without(joined())["out"]
    assert len(few) == 2**5 - 1
    many = shares_without(joined(shards=ALL_SETS))["out"]
    tasks = ALL_SETS + 4
    assert len(many) == tasks + tasks * (tasks - 1) // 2
