"""The generators keep their promises: sizes, parameter rules, seeds."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.testing import (
    GENERATORS,
    chain,
    in_tree,
    layered_dag,
    out_tree,
    parallel_lines,
    ppa_random,
    random_dag,
    sentiment,
    signalguru,
    thesis_chain,
    thesis_tree,
)
from holdfast.topology.graph import Topology, per_task
from holdfast.topology.links import effective_partitioning
from holdfast.topology.rates import task_rates
from holdfast.topology.tasks import task_graph

pytestmark = pytest.mark.unit

seeds = st.integers(0, 2**32 - 1)


def degrees(topology: Topology) -> tuple[list[int], list[int]]:
    return [len(x) for x in topology.upstream], [len(x) for x in topology.downstream]


def depth(topology: Topology) -> int:
    level = [0] * len(topology.operators)
    for i in topology.order:
        level[i] = 1 + max((level[u] for u in topology.upstream[i]), default=0)
    return max(level)


@pytest.mark.parametrize("name", GENERATORS)
@given(seed=seeds)
@settings(max_examples=15)
def test_a_seed_reproduces_and_a_generator_is_drawn_from(name, seed):
    """The same seed gives the same topology, whether as a number or as a Generator."""
    make = GENERATORS[name]
    assert make(seed=seed) == make(seed=seed)
    rng = np.random.default_rng(seed)
    assert make(seed=rng) == make(seed=seed)


@pytest.mark.parametrize("name", sorted(set(GENERATORS) - {"signalguru", "sentiment"}))
def test_random_weights_depend_on_the_seed(name):
    """Two seeds give two topologies once anything is random."""
    make = GENERATORS[name]
    assert make(weights="random", seed=1) != make(weights="random", seed=2)


@pytest.mark.parametrize("name", GENERATORS)
def test_weights_are_one_or_from_one_to_ten(name):
    """Uniform reprocessing times are 1; random ones are whole, within 1..10, and reach both."""
    make = GENERATORS[name]
    seen: set[float] = set()
    for seed in range(40):
        for operator in make(weights="random", seed=seed).operators:
            assert operator.reprocess_time is not None
            seen |= set(per_task(operator.reprocess_time, operator.parallelism))
    assert seen == set(range(1, 11))
    assert {operator.reprocess_time for operator in make().operators} == {1.0}


@pytest.mark.parametrize("name", GENERATORS)
def test_sources_have_rates(name):
    """Every source has an input rate, so that any method can plan what was generated."""
    topology = GENERATORS[name]()
    assert set(topology.rates) == {topology.operators[i].name for i in topology.sources}
    assert all(rate > 0 for rate in topology.rates.values())


@given(n=st.integers(1, 60), seed=seeds)
def test_chain_is_one_line(n, seed):
    """A chain has n operators in n steps."""
    topology = chain(n, seed=seed)
    assert len(topology.operators) == depth(topology) == n
    assert len(topology.edges) == n - 1


@given(lines=st.integers(1, 8), low=st.integers(1, 4), more=st.integers(0, 4), seed=seeds)
def test_parallel_lines_join_at_one_sink(lines, low, more, seed):
    """Each line is a chain of a length within the range, and all end in the sink."""
    topology = parallel_lines(lines, (low, low + more), seed=seed)
    into, out = degrees(topology)
    assert len(topology.sources) == lines == into[topology.index["sink"]]
    assert [topology.operators[i].name for i in topology.sinks] == ["sink"]
    assert all(x == 1 for i, x in enumerate(out) if i != topology.index["sink"])
    assert 1 + low <= depth(topology) <= 1 + low + more


@given(n=st.integers(1, 60), fan=st.integers(1, 4), seed=seeds)
def test_trees_keep_their_fan(n, fan, seed):
    """In-trees have one sink, out-trees one source, and no operator exceeds the fan."""
    into, out = degrees(in_tree(n, fan_in=fan, seed=seed))
    assert out.count(0) == 1
    assert max(out) <= 1
    assert max(into) <= fan
    into, out = degrees(out_tree(n, fan_out=fan, seed=seed))
    assert into.count(0) == 1
    assert max(into) <= 1
    assert max(out) <= fan


@given(layers=st.integers(1, 6), width=st.integers(1, 6), density=st.floats(0, 1), seed=seeds)
def test_layered_dag_links_neighbours_only(layers, width, density, seed):
    """Every edge crosses one layer; only the first layer has sources, only the last sinks."""
    topology = layered_dag(layers, width, density=density, seed=seed)
    assert len(topology.operators) == layers * width
    layer_of = {o.name: int(o.name[1:].split("n")[0]) for o in topology.operators}
    assert all(layer_of[e.target] - layer_of[e.source] == 1 for e in topology.edges)
    assert {layer_of[topology.operators[i].name] for i in topology.sources} == {1}
    assert {layer_of[topology.operators[i].name] for i in topology.sinks} == {layers}


@given(n=st.integers(1, 40), sources=st.integers(1, 4), density=st.floats(0, 1), seed=seeds)
def test_random_dag_has_few_sources(n, sources, density, seed):
    """Edges lead from earlier to later operators and at most `sources` have no producer."""
    topology = random_dag(n, sources=sources, density=density, seed=seed)
    index = topology.index
    assert all(index[e.source] < index[e.target] for e in topology.edges)
    assert len(topology.sources) <= sources


@given(low=st.integers(1, 5), more=st.integers(0, 5), seed=seeds)
def test_structured_links_are_never_full_between_wide_operators(low, more, seed):
    """Structured links are one-to-one, split or merge as the counts allow."""
    topology = random_dag(10, parallelism=(low, low + more), links="structured", seed=seed)
    assert all(low <= o.parallelism <= low + more for o in topology.operators)
    assert all(e.partitioning != "full" for e in topology.edges)


def test_mixed_links_have_both_kinds():
    """Mixed links are full about as often as not."""
    topology = chain(200, parallelism=(2, 4), links="mixed")
    full = sum(e.partitioning == "full" for e in topology.edges)
    assert 60 < full < 140


@pytest.mark.parametrize(("sizes", "links"), [((50, 20, 20), 560), ((30, 30, 30), 1050)])
def test_sentiment_has_the_printed_number_of_links(sizes, links):
    """The FTC paper prints 560 and 1050 edges."""
    graph = task_graph(sentiment(*sizes))
    assert len(graph.link_source) == links
    assert graph.size == sum(sizes) + 3


@given(a=st.integers(1, 12), b=st.integers(1, 12), c=st.integers(1, 12))
def test_sentiment_links_follow_the_formula(a, b, c):
    """There are 2a + 2b + bc + c task links."""
    assert len(task_graph(sentiment(a, b, c)).link_source) == 2 * a + 2 * b + b * c + c


def test_signalguru_has_55_tasks_in_nine_steps():
    """SignalGuru's printed size, and a graph that is no tree."""
    topology = signalguru()
    graph = task_graph(topology)
    assert graph.size == 55
    assert depth(topology) == 9
    assert len(graph.link_source) > 54
    assert len(topology.sinks) == 1


@pytest.mark.parametrize("make", [thesis_chain, thesis_tree])
def test_thesis_parameters_hold(make):
    """Every parameter rule of section 4.1 holds for every operator of many topologies."""
    frequencies: list[float] = []
    for seed in range(300):
        topology = make(15, seed=seed)
        per_instance = {o.failure_rate / o.parallelism for o in topology.operators}
        assert max(per_instance) == pytest.approx(min(per_instance))
        frequencies.append(4 * per_instance.pop())
        for operator in topology.operators:
            assert 2 <= operator.parallelism <= 6
            assert 0.1 <= operator.selectivity <= 1.0
            assert 10_000 <= operator.state_size <= 20_000
            assert operator.cost == 1e-5
            assert operator.tuple_size == 1.0
        assert topology.unit.time == "min"
    assert mean(frequencies) == pytest.approx(0.1, abs=0.006)
    assert stdev(frequencies) == pytest.approx(0.03, abs=0.004)


def test_thesis_failures_can_be_drawn_per_operator():
    """Drawn per operator, frequencies per instance differ within a topology."""
    operators = thesis_chain(15, failures="operator").operators
    assert len({round(o.failure_rate / o.parallelism, 9) for o in operators}) == 15


def test_thesis_shapes_and_rates():
    """Chains take 3000 tuples a minute, trees 1000 with at most three consumers."""
    line, tree = thesis_chain(), thesis_tree(40)
    assert line.rates == {"op1": 3000.0}
    assert [(e.source, e.target) for e in line.edges] == [
        (a.name, b.name) for a, b in pairwise(line.operators)
    ]
    assert tree.rates == {"op1": 1000.0}
    assert max(len(x) for x in tree.downstream) == 3


@given(
    low=st.integers(2, 12),
    more=st.integers(0, 10),
    joins=st.floats(0, 1),
    full=st.floats(0, 1),
    queries=st.integers(1, 10),
    seed=seeds,
)
def test_ppa_random_meets_its_options(*, low, more, joins, full, queries, seed):
    """Sizes, queries, joins and partitionings of a PPA topology are what was asked for."""
    topology = ppa_random(
        (low, low + more), joins=joins, full=full, queries=(1, queries), seed=seed
    )
    assert low <= len(topology.operators) <= low + more
    assert 1 <= len(topology.queries) <= queries
    assert {topology.index[q.sink] for q in topology.queries} == set(topology.sinks)
    assert not set(topology.sinks) & set(topology.sources)
    joined = [i for i, o in enumerate(topology.operators) if o.input == "correlated"]
    assert all(len(topology.upstream[i]) == 2 for i in joined)
    fed = len(topology.operators) - len(topology.sources)
    assert joins * fed - 2 <= len(joined) <= joins * fed + 1
    wide = sum(e.partitioning == "full" for e in topology.edges)
    assert wide == round(full * len(topology.edges))


@given(seed=seeds, skew=st.sampled_from([0.1, 0.5, 1.0]))
def test_ppa_zipf_loads_sources_and_full_links(seed, skew):
    """With Zipf loads a source's tasks, and consumers of one full link, get 1/k^s parts."""
    topology = ppa_random(6, parallelism=(3, 6), full=1.0, skew=skew, seed=seed)
    rates = task_rates(topology)
    graph = task_graph(topology)
    for i, operator in enumerate(topology.operators):
        own = np.sort(rates.output[list(graph.tasks_of(i))])[::-1]
        zipf = np.arange(1, operator.parallelism + 1) ** -skew
        assert np.allclose(own / own.sum(), zipf / zipf.sum())


def test_ppa_uniform_loads_have_no_shares():
    """Without skew, everything is spread evenly."""
    topology = ppa_random(8, parallelism=(2, 4), seed=3)
    assert all(e.shares is None for e in topology.edges)
    assert not topology.task_rates


@given(seed=seeds)
def test_ppa_priorities_follow_query_size(seed):
    """Positive priorities grow with the tasks behind a query, inverse ones shrink with them."""
    options = {"operators": (10, 20), "queries": (2, 10), "seed": seed}
    positive = ppa_random(priorities="positive", **options).queries
    inverse = ppa_random(priorities="inverse", **options).queries
    for up, down in zip(positive, inverse, strict=True):
        assert up.priority * down.priority == pytest.approx(1.0)
    uniform = ppa_random(priorities="uniform", **options).queries
    assert all(0 < q.priority <= 1 for q in uniform)


def test_ppa_structured_topologies_have_no_full_link_between_wide_operators():
    """full=0 leaves full links only where the definition makes them: into single tasks."""
    topology = ppa_random(20, parallelism=(1, 6), full=0.0, seed=5)
    for edge in topology.edges:
        a, b = (topology.operator(x).parallelism for x in (edge.source, edge.target))
        assert (effective_partitioning(edge.partitioning, a, b) == "full") == (b == 1)


@pytest.mark.parametrize(
    ("name", "options", "where"),
    [
        ("chain", {"n": 0}, "n"),
        ("chain", {"parallelism": (3, 2)}, "parallelism"),
        ("layered-dag", {"density": 1.5}, "density"),
        ("sentiment", {"a": 0}, "tasks of hot-topics"),
        ("signalguru", {"tasks": (1, 2)}, "tasks"),
        ("ppa-random", {"operators": 4, "queries": 3}, "queries"),
        ("ppa-random", {"joins": -0.1}, "joins"),
        ("thesis-tree", {"n": 0}, "n"),
    ],
)
def test_impossible_options_are_named(name, options, where):
    """An option that cannot be is refused with its name."""
    with pytest.raises(BadInputError) as caught:
        GENERATORS[name](**options)
    assert caught.value.where == where


def test_options_as_text_mean_the_same():
    """What the command line passes as text is what code passes as values."""
    parsed = GENERATORS["ppa-random"].parse(
        {"operators": "6-8", "--joins": "0.5", "priorities": "inverse", "seed": "7"}
    )
    assert parsed == ppa_random((6, 8), joins=0.5, priorities="inverse", seed=7)
    tasks = GENERATORS["signalguru"].parse({"tasks": "1,1,2,2,2,1,1,1,1"})
    assert tasks.task_count == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": "ten"}, "whole number"),
        ({"links": "partial"}, "full or structured or mixed"),
        ({"depth": "3"}, "no option"),
        ({"parallelism": "2-x"}, "MIN-MAX"),
    ],
)
def test_bad_text_says_what_to_write(options, said):
    """Bad option text is refused in one line that says what to write."""
    with pytest.raises(BadInputError, match=said):
        GENERATORS["chain"].parse(options)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_option_has_help_and_its_default_parses(name):
    """The registry's table is complete: help for each, and defaults that round-trip."""
    generator = GENERATORS[name]
    assert generator.help
    for parameter in generator.parameters:
        assert parameter.help
        assert parameter.parse(parameter.shown_default) == parameter.default
