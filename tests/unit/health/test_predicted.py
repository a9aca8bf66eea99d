"""What share of the input tentative results reflect, by what was computed before."""

from __future__ import annotations

import statistics
from itertools import combinations

import pytest

from holdfast.health.policy import Tentative
from holdfast.planners.ppa.without import shares_without
from holdfast.topology.graph import Edge, Operator, Topology

pytestmark = pytest.mark.unit


def policy(shares):
    return Tentative(fidelity={"out": shares})


def known_up_to(shares, size):
    """What is computed of larger pipelines: single units and pairs."""
    return {" ".join(names): share for names, share in shares.items() if len(names) <= size}


def test_what_was_computed_is_said():
    """Nothing missing is all there; of strangers nothing is known."""
    told = policy({"a": 0.5, "a b": 0.25})
    assert told.predicted("out", ()) == 1.0
    assert told.predicted("out", ["b", "a"]) == 0.25
    assert told.predicted("out", ["z"]) is None
    assert told.predicted("other", ["a"]) is None
    assert told.predicted("out", ["a", "z"]) == 0.5


def test_three_of_twelve_sources_take_a_quarter():
    """More are missing at once than sets were computed for."""
    names = [f"s{number:02d}" for number in range(12)]
    shares = dict.fromkeys(names, 11 / 12)
    shares |= {" ".join(pair): 10 / 12 for pair in combinations(names, 2)}
    assert policy(shares).predicted("out", names[:3]) == pytest.approx(9 / 12)
    assert policy(shares).predicted("out", names) == pytest.approx(0.0)


def test_who_only_reads_what_is_missing_takes_nothing_more():
    """Two of three lanes, each a source and what reads it."""
    shares = {"a": 2 / 3, "a-once": 2 / 3, "b": 2 / 3, "b-once": 2 / 3}
    shares |= {" ".join(pair): 1 / 3 for pair in combinations(sorted(shares), 2)}
    shares |= {"a a-once": 2 / 3, "b b-once": 2 / 3}
    assert policy(shares).predicted("out", ["a", "a-once", "b", "b-once"]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", ["independent", "correlated"])
def test_it_is_close_to_the_model_where_that_can_be_asked(kind):
    """Sources of two streams in shards, brought together by a union or a join, and what follows."""
    topology = Topology(
        name="t",
        operators=(
            Operator(name="left", parallelism=3),
            Operator(name="right", parallelism=2),
            Operator(name="both", parallelism=2, input=kind),
            Operator(name="out", parallelism=1),
        ),
        edges=(
            Edge(source="left", target="both"),
            Edge(source="right", target="both"),
            Edge(source="both", target="out"),
        ),
        rates={"left": 3.0, "right": 2.0},
    )
    shares = shares_without(topology)["out"]
    told = policy(known_up_to(shares, 2))
    errors = [
        abs((told.predicted("out", names) or 0.0) - share)
        for names, share in shares.items()
        if len(names) > 2
    ]
    assert len(errors) > 50
    assert statistics.fmean(errors) < 0.03
    assert max(errors) < 0.15
