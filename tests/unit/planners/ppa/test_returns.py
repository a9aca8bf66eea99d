"""The order in which units come back: better on average than upstream first."""

import numpy as np
import pytest

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.recovery import Recovery, inc
from holdfast.planners.ppa.returns import return_order
from holdfast.planners.ppa.units import unit_graph
from holdfast.testing.generators.ppa import ppa_random
from holdfast.topology.graph import Edge, Operator, Query, Topology

pytestmark = pytest.mark.unit

# Two results of unlike weight: upstream first begins with all sources, which nobody sees.
UNITS = unit_graph(
    Topology(
        name="two",
        operators=(
            *(Operator(name=name, backup="required") for name in "abc"),
            *(Operator(name=name) for name in "xy"),
        ),
        edges=(
            Edge(source="a", target="x"),
            Edge(source="b", target="y"),
            Edge(source="c", target="y"),
        ),
        rates={"a": 100.0, "b": 1.0, "c": 1.0},
        queries=(Query(name="big", sink="x", priority=5.0), Query(name="small", sink="y")),
    )
)


def average(order):
    model = fidelity_model(UNITS)
    times = tuple(float(k + 1) for k in range(model.size))
    recovery = Recovery(model=model, alive=np.zeros(model.size, bool), times=times)
    places = [model.names.index(name) for name in order]
    return recovery.average(recovery.curve(places))


def test_every_unit_comes_back_once():
    """Both orders are permutations of all units."""
    names = sorted(fidelity_model(UNITS).names)
    assert sorted(return_order(UNITS, "inc")) == names
    assert sorted(return_order(UNITS, "topological")) == names


def test_what_completes_a_result_comes_first():
    """The path of the result that matters most is back before anything else."""
    order = return_order(UNITS, "inc")
    assert set(order[:3]) == {"a", "x", "big"}
    assert average(order) > average(return_order(UNITS, "topological"))


def test_of_what_completes_a_result_together_the_upstream_comes_first():
    """Only all of it together is seen, and nothing can begin before what it reads."""
    assert return_order(UNITS, "inc")[:3] == ("a", "x", "big")


@pytest.mark.sample(seed={3, 5})
@pytest.mark.parametrize("seed", range(20))
def test_sorting_upstream_first_costs_no_fidelity(seed):
    """At every moment results are as complete as by the order that was planned."""
    units = ppa_random(seed=seed, operators=6)
    model = fidelity_model(units)
    times = tuple(float(k + 1) for k in range(model.size))
    recovery = Recovery(model=model, alive=np.zeros(model.size, bool), times=times)
    planned = inc(recovery, Solve())
    places = [model.names.index(name) for name in return_order(units, "inc")]
    assert sorted(places) == sorted(planned)
    assert recovery.curve(places) == pytest.approx(recovery.curve(planned))


def test_cuts_are_boundaries_of_the_unit_graph():
    """What a plan cuts is a unit of its own."""
    chain = Topology(
        name="chain",
        operators=(Operator(name="x"), Operator(name="y")),
        edges=(Edge(source="x", target="y", partitioning="one-to-one"),),
        queries=(Query(name="out", sink="y"),),
    )
    assert [one.name for one in unit_graph(chain, cuts=["x"]).operators] == ["x", "y", "out"]
