"""The fidelity model against the paper's examples and against the definition spelled out."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._ppa_common import all_sets, judge, small_topology
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.planners.ppa.fidelity import FidelityModel, fidelity_model
from holdfast.planners.ppa.fidelity_streams import stream_rates
from holdfast.topology.graph import Edge, Operator, Query, Topology
from holdfast.topology.rates import task_rates

pytestmark = pytest.mark.unit
seeds = st.integers(0, 2**32 - 1)


def fig2(kind: str) -> Topology:
    """t11, t12 (1.5 each) and t21 (3), t22 (2) feed one task t31."""
    return Topology(
        name="fig2",
        operators=(
            Operator(name="t1", parallelism=2),
            Operator(name="t2", parallelism=2),
            Operator(name="t3", input=kind),
        ),
        edges=(Edge(source="t1", target="t3"), Edge(source="t2", target="t3")),
        task_rates={"t1": (1.5, 1.5), "t2": (3.0, 2.0)},
    )


def alive_but(model: FidelityModel, *failed: str) -> np.ndarray:
    alive = np.ones(model.size, bool)
    for name in failed:
        alive[list(model.resolve(name))] = False
    return alive


def random_model(seed: int) -> tuple[np.random.Generator, FidelityModel]:
    rng = np.random.default_rng(seed)
    return rng, fidelity_model(small_topology(rng))


@pytest.mark.parametrize(("kind", "loss"), [("correlated", 0.4), ("independent", 0.25)])
def test_figure_2(kind, loss):
    """The information losses printed for a failure of t22: 2/5 for a join, 1/4 otherwise."""
    model = fidelity_model(fig2(kind))
    alive = alive_but(model, "t2.1")
    assert 1 - model.propagate(alive.astype(float))[-1] == pytest.approx(loss)
    assert model.fidelity(alive) == pytest.approx(1 - loss)


@given(seeds)
def test_fidelity_is_what_the_definition_says(seed):
    """OF equals eq. 1 to 4 evaluated task by task, for single sets and for many at once."""
    rng, model = random_model(seed)
    sets = all_sets(model.size)[rng.integers(0, 1 << model.size, 40)]
    wanted = judge(model.topology, sets)
    assert model.fidelities(sets) == pytest.approx(wanted, abs=1e-12)
    assert [model.fidelity(row) for row in sets[:5]] == pytest.approx(wanted[:5], abs=1e-12)
    judged = model.evaluate(sets)
    assert judged.fidelity == pytest.approx(wanted, abs=1e-12)
    weights = np.asarray([query.weight for query in model.queries])
    assert judged.per_query @ weights == pytest.approx(wanted, abs=1e-12)


@given(seeds)
def test_fidelity_is_monotone_and_supermodular(seed):
    """More alive never hurts, and f(A | B) + f(A & B) >= f(A) + f(B)."""
    rng, model = random_model(seed)
    a, b = rng.random((2, 50, model.size)) < 0.7
    union, common = model.fidelities(a | b), model.fidelities(a & b)
    own, other = model.fidelities(a), model.fidelities(b)
    assert (union >= np.maximum(own, other) - 1e-12).all()
    assert (union + common >= own + other - 1e-12).all()


@given(seeds)
def test_marginals_are_differences(seed):
    """One backward pass gives for every task what failing or returning changes."""
    rng, model = random_model(seed)
    alive = rng.random(model.size) < 0.7
    with_it = np.repeat(alive[None, :], model.size, axis=0)
    without = with_it.copy()
    np.fill_diagonal(with_it, val=True)
    np.fill_diagonal(without, val=False)
    wanted = model.fidelities(with_it) - model.fidelities(without)
    assert model.marginals(alive) == pytest.approx(wanted, abs=1e-12)


@given(seeds)
def test_everything_alive_loses_nothing_and_everything_failed_all(seed):
    """OF and IC run from 0 to 1."""
    _, model = random_model(seed)
    judged = model.evaluate(np.asarray([np.ones(model.size, bool), np.zeros(model.size, bool)]))
    assert judged.fidelity.tolist() == pytest.approx([1, 0])
    assert judged.completeness.tolist() == pytest.approx([1, 0])


@given(seeds)
def test_rates_agree_with_the_task_graph(seed):
    """Rates by stream are those of model.rates, which spells out every link."""
    topology = small_topology(np.random.default_rng(seed))
    own, other = stream_rates(topology), task_rates(topology)
    assert own.input == pytest.approx(other.input)
    assert own.output == pytest.approx(other.output)


def test_completeness_does_not_know_joins():
    """IC counts tuples processed: the join still processes what one side brings, OF is zero."""
    model = fidelity_model(fig2("correlated"))
    alive = alive_but(model, "t2")
    assert model.fidelity(alive) == 0
    # t1 processes 3, t3 processes 3 of 8; without failures 3 + 5 + 8.
    assert model.completeness(alive) == pytest.approx(6 / 16)


def test_queries_are_weighed_by_priority_as_by_a_virtual_sink():
    """Figure 5: OF of three queries on one chain, one inside the other's topology."""
    topology = Topology(
        name="fig5",
        operators=(
            Operator(name="a", parallelism=4),
            Operator(name="b", parallelism=2),
            Operator(name="c"),
        ),
        edges=(
            Edge(source="a", target="b", partitioning="merge"),
            Edge(source="b", target="c", partitioning="merge"),
        ),
        rates={"a": 8.0},
        queries=(
            Query(name="q1", sink="a", priority=5),
            Query(name="q2", sink="b", priority=3),
            Query(name="q3", sink="c", priority=2),
        ),
    )
    model = fidelity_model(topology)
    alive = np.zeros(7, bool)
    alive[[0, 1, 4]] = True
    assert model.fidelity_per_query(alive) == pytest.approx({"q1": 0.5, "q2": 0.5, "q3": 0.0})
    assert model.fidelity(alive) == pytest.approx((5 * 0.5 + 3 * 0.5) / 10)


def test_without_rates_every_source_counts_alike():
    """A file that states no rates is planned as if all sources had the same."""
    topology = Topology(
        name="quiet",
        operators=(
            Operator(name="a", parallelism=3),
            Operator(name="b"),
            Operator(name="c"),
        ),
        edges=(Edge(source="a", target="c"), Edge(source="b", target="c")),
    )
    model = fidelity_model(topology)
    assert model.fidelity(alive_but(model, "b")) == pytest.approx(0.5)
    assert model.fidelity(alive_but(model, "a.0")) == pytest.approx(1 - 1 / 6)


def test_where_nothing_flows_parts_count_alike():
    """A filter that lets nothing through leaves no rates below it, but fidelity stays defined."""
    topology = Topology(
        name="dry",
        operators=(
            Operator(name="a", parallelism=2, selectivity=0.0),
            Operator(name="b", parallelism=2),
        ),
        edges=(Edge(source="a", target="b"),),
        rates={"a": 10.0},
    )
    model = fidelity_model(topology)
    assert model.fidelity(np.ones(4, bool)) == pytest.approx(1)
    assert model.fidelity(alive_but(model, "a.1", "b.0")) == pytest.approx(0.25)


def test_wide_full_links_are_not_spelled_out():
    """Two operators of 20,000 tasks have 400 million links; the model keeps none of them."""
    wide = 20_000
    topology = Topology(
        name="wide",
        operators=(Operator(name="a", parallelism=wide), Operator(name="b", parallelism=wide)),
        edges=(Edge(source="a", target="b"),),
        rates={"a": 1.0},
    )
    model = fidelity_model(topology)
    alive = np.arange(2 * wide) % 2 == 0
    assert model.fidelity(alive) == pytest.approx(0.25)


def test_names_and_domains_are_found_or_refused_in_one_line():
    """Tasks, operators and failure domains resolve; anything else says what to write."""
    topology = Topology(
        name="named",
        operators=(
            Operator(name="a.b", parallelism=2, failure_domain=("r1", "r2")),
            Operator(name="c", failure_domain="r2"),
        ),
        edges=(Edge(source="a.b", target="c"),),
    )
    model = fidelity_model(topology)
    assert list(model.resolve("a.b")) == [0, 1]
    assert list(model.resolve("a.b.1")) == [1]
    assert list(model.resolve("c")) == [2]
    assert model.domain("r2") == [1, 2]
    for wrong in ("a.b.2", "c.0", "a.b.01", "d"):
        with pytest.raises(BadInputError, match="no task or operator"):
            model.resolve(wrong)
    with pytest.raises(BadInputError, match="r3"):
        model.domain("r3")
