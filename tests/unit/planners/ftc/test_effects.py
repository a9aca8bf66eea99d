"""The failure-effect model: the paper's worked examples, both source conventions, hubs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.planners.ftc.effects import (
    effect_graph,
    overall_latency,
    plain_graph,
    recovery_latencies,
    reprocess_times,
    slack,
)
from holdfast.topology.graph import Edge, Operator, Topology
from holdfast.topology.links import Partitioning

pytestmark = pytest.mark.unit


def tasks(times: list[float], edges: list[tuple[int, int]]) -> Topology:
    return Topology(
        name="tasks",
        operators=tuple(
            Operator(name=str(v), reprocess_time=float(time)) for v, time in enumerate(times)
        ),
        edges=tuple(Edge(source=str(u), target=str(v)) for u, v in edges),
    )


def latency(topology: Topology, backups: list[int], **options: str) -> list[float]:
    return recovery_latencies(effect_graph(topology), reprocess_times(topology), backups, **options)


def line(times: list[float]) -> Topology:
    return tasks(times, [(v, v + 1) for v in range(len(times) - 1)])


FIGURE_2 = tasks(
    [1.0] * 8, [(0, 1), (1, 2), (1, 3), (0, 4), (2, 5), (3, 5), (5, 7), (4, 6), (6, 7)]
)
A, B, C, D, E, F, G, H = range(8)
BACKUPS_2 = [A, C, D, E]


def test_figure_4a() -> None:
    """Every latency printed in figure 4A comes out."""
    assert latency(line([2, 1, 4, 3, 3]), [2]) == [2, 3, 7, 3, 6]


def test_figure_4b() -> None:
    """Two lines that join: the sink waits for the slower of the two."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 7), (4, 5), (5, 6), (6, 7)]
    found = latency(tasks([3, 1, 3, 2, 3, 5, 1, 1], edges), [2, 5])
    assert found == [3, 4, 7, 2, 3, 8, 1, 3]
    assert overall_latency(found) == 8


def test_figure_2_latencies() -> None:
    """With the backups drawn in figure 2."""
    assert latency(FIGURE_2, BACKUPS_2) == [1, 1, 2, 2, 1, 1, 1, 2]


@pytest.mark.parametrize(("backups", "overall"), [([8], 9), ([4], 5), ([4, 6], 5)])
def test_place_matters_more_than_number(backups: list[int], overall: float) -> None:
    """As in figure 1: a backup at the end is useless, and a second one may add nothing."""
    assert overall_latency(latency(line([1.0] * 9), backups)) == overall


def test_durable_sources_are_waited_for_by_nobody() -> None:
    """A source's output is free to read again, its own recovery still takes its T."""
    topology = line([4, 1, 1])
    assert latency(topology, []) == [4, 5, 6]
    assert latency(topology, [], sources="durable") == [4, 1, 2]


def test_overall_of_nothing_is_zero() -> None:
    """Without tasks there is nothing to wait for."""
    assert overall_latency([]) == 0.0


def test_slack_forgives_rounding_only() -> None:
    """A sum that misses a bound by rounding is within it; a real excess is not."""
    assert slack(0.3) >= 0.1 + 0.2
    assert slack(0.3) < 0.3001


def one(**fields: object) -> Topology:
    return Topology(name="one", operators=(Operator(name="a", **fields),), rates={"a": 100.0})


def test_given_time_wins_over_an_interval() -> None:
    """`reprocess_time` is taken as it is, also when an expectation is asked for."""
    topology = one(reprocess_time=3.0, checkpoint_interval=60.0)
    assert reprocess_times(topology).tolist() == [3.0]
    assert reprocess_times(topology, expected=True).tolist() == [3.0]


def test_interval_without_cost_is_replayed_in_full() -> None:
    """A bound takes the whole interval, an expectation half of it."""
    topology = one(checkpoint_interval=60.0)
    assert reprocess_times(topology).tolist() == [60.0]
    assert reprocess_times(topology, expected=True).tolist() == [30.0]


def test_interval_with_rate_and_cost_is_replayed_at_full_speed() -> None:
    """60 time units at 100 tuples each, 2 ms a tuple: 12 time units of work."""
    topology = one(checkpoint_interval=60.0, cost=0.002)
    assert reprocess_times(topology).tolist() == pytest.approx([12.0])
    assert reprocess_times(topology, expected=True).tolist() == pytest.approx([6.0])


def test_no_time_at_all_is_zero() -> None:
    """Without either field nothing has to be reprocessed."""
    assert reprocess_times(one()).tolist() == [0.0]


def test_names_resolve_to_tasks_and_operators() -> None:
    """A task id means one task, an operator's name all its tasks."""
    graph = effect_graph(
        Topology(name="wide", operators=(Operator(name="a"), Operator(name="b", parallelism=3)))
    )
    assert list(graph.resolve("b")) == [1, 2, 3]
    assert list(graph.resolve("b.1")) == [2]
    with pytest.raises(BadInputError, match="no operator 'c'"):
        graph.resolve("c")


def test_full_links_cost_nodes_not_pairs() -> None:
    """A Full link of 1,000 by 1,000 tasks is kept as 2,000 links through one hub."""
    wide = Topology(
        name="wide",
        operators=(Operator(name="a", parallelism=1000), Operator(name="b", parallelism=1000)),
        edges=(Edge(source="a", target="b"),),
    )
    graph = effect_graph(wide)
    assert graph.nodes == graph.tasks + 1
    assert sum(map(len, graph.predecessors)) == 2000


@st.composite
def wide_topologies(draw: st.DrawFn) -> tuple[Topology, list[int]]:
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    operators = tuple(
        Operator(
            name=f"o{i}",
            parallelism=width,
            reprocess_time=tuple(
                float(t) for t in draw(st.lists(st.integers(0, 9), min_size=width, max_size=width))
            ),
        )
        for i, width in enumerate(widths)
    )
    edges = []
    for v in range(len(widths)):
        for u in range(v):
            if draw(st.booleans()):
                fitting: Partitioning = "split" if widths[v] >= widths[u] else "merge"
                kind = draw(st.sampled_from(["full", fitting]))
                edges.append(Edge(source=f"o{u}", target=f"o{v}", partitioning=kind))
    topology = Topology(name="wide", operators=operators, edges=tuple(edges))
    backups = draw(st.sets(st.integers(0, topology.task_count - 1)))
    return topology, sorted(backups)


@given(wide_topologies(), st.sampled_from(["replayed", "durable"]))
def test_hubs_change_nothing(case: tuple[Topology, list[int]], sources: str) -> None:
    """Latencies, sources and sinks are those of the graph with every pair spelled out."""
    topology, backups = case
    hubs, plain = effect_graph(topology), plain_graph(topology)
    times = reprocess_times(topology)
    assert recovery_latencies(hubs, times, backups, sources=sources) == recovery_latencies(
        plain, times, backups, sources=sources
    )
    assert hubs.sources == plain.sources
    assert hubs.sinks == plain.sinks


@given(wide_topologies())
def test_more_backups_never_slow_anyone(case: tuple[Topology, list[int]]) -> None:
    """With every task a backup, L is T; and one backup more never raises any L."""
    topology, backups = case
    graph, times = effect_graph(topology), reprocess_times(topology).tolist()
    found = recovery_latencies(graph, times, backups)
    everything = recovery_latencies(graph, times, range(graph.tasks))
    assert everything == times
    for extra in range(graph.tasks):
        more = recovery_latencies(graph, times, [*backups, extra])
        assert all(a <= b for a, b in zip(more, found, strict=True))
