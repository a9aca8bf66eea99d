"""Tasks, partitionings and rates derived from operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.topology.graph import Edge, Operator, Topology
from holdfast.topology.rates import operator_rates, task_rates
from holdfast.topology.tasks import task_graph

pytestmark = pytest.mark.unit


def pair(a: int, b: int, partitioning: str, **more) -> Topology:
    return Topology(
        name="pair",
        operators=(Operator(name="u", parallelism=a), Operator(name="v", parallelism=b)),
        edges=(Edge(source="u", target="v", partitioning=partitioning, **more),),
        rates={"u": 12.0},
    )


def links(topology: Topology) -> set[tuple[str, str]]:
    graph = task_graph(topology)
    return {
        (graph.names[u], graph.names[v])
        for u, v in zip(graph.link_source, graph.link_target, strict=True)
    }


def test_task_ids() -> None:
    """A lone task has its operator's name, several are numbered."""
    assert task_graph(pair(1, 3, "full")).names == ("u", "v.0", "v.1", "v.2")


def test_partitionings_by_their_definition() -> None:
    """Split and merge follow the floor rule, also where sizes do not divide."""
    assert links(pair(2, 2, "one-to-one")) == {("u.0", "v.0"), ("u.1", "v.1")}
    assert links(pair(2, 5, "split")) == {
        ("u.0", "v.0"),
        ("u.0", "v.1"),
        ("u.0", "v.2"),
        ("u.1", "v.3"),
        ("u.1", "v.4"),
    }
    assert links(pair(5, 2, "merge")) == {
        ("u.0", "v.0"),
        ("u.1", "v.0"),
        ("u.2", "v.0"),
        ("u.3", "v.1"),
        ("u.4", "v.1"),
    }
    assert len(links(pair(3, 4, "full"))) == 12


@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from(["split", "merge", "full", "one-to-one"])
)
def test_partitionings_lose_no_task_and_no_tuple(a, b, partitioning) -> None:
    """Every task is linked, each side's degree is as the name says, and rates add up."""
    fits = {"split": b >= a, "merge": a >= b, "one-to-one": a == b, "full": True}
    if not fits[partitioning]:
        with pytest.raises(BadInputError, match="impossible"):
            pair(a, b, partitioning)
        return
    topology = pair(a, b, partitioning)
    graph = task_graph(topology)
    assert not graph.is_source[a:].any()
    assert set(graph.link_source.tolist()) == set(range(a))
    if partitioning in ("split", "one-to-one"):
        assert (np.bincount(graph.link_target, minlength=a + b)[a:] == 1).all() or b == 1
    if partitioning in ("merge", "one-to-one"):
        assert (np.bincount(graph.link_source, minlength=a + b)[:a] == 1).all() or b == 1
    rates = task_rates(topology)
    assert rates.input[a:].sum() == pytest.approx(12.0)
    assert rates.link.sum() == pytest.approx(12.0)
    incoming = np.bincount(graph.link_target, weights=rates.link, minlength=a + b)
    assert incoming[a:] == pytest.approx(rates.input[a:])


def test_merge_into_one_task_is_full() -> None:
    """A link into a single task is full by whatever name."""
    assert links(pair(4, 1, "merge")) == links(pair(4, 1, "full"))


def test_shares_divide_a_producers_output() -> None:
    """Shares are given per consumer, or per producer over the tasks it feeds."""
    topology = pair(2, 3, "full", shares=(0.5, 0.3, 0.2))
    assert task_rates(topology).input[2:] == pytest.approx([6.0, 3.6, 2.4])
    topology = pair(2, 2, "full", shares=((1.0, 0.0), (0.5, 0.5)))
    assert task_rates(topology).input[2:] == pytest.approx([9.0, 3.0])
    topology = pair(2, 5, "split", shares=(0.5, 0.25, 0.25, 0.9, 0.1))
    assert task_rates(topology).input[2:] == pytest.approx([3.0, 1.5, 1.5, 5.4, 0.6])
    with pytest.raises(BadInputError, match="add up to 1"):
        pair(2, 2, "full", shares=(0.5, 0.6))
    with pytest.raises(BadInputError, match="3 numbers"):
        pair(2, 3, "full", shares=(0.5, 0.5))


def test_rates_follow_selectivity_and_go_whole_to_each_consumer() -> None:
    """The thesis' example: 1000 * 1 * 0.1 * 0.5 = 50 at the fourth operator; joins add up."""
    selectivity = [1.0, 0.1, 0.5, 1.0]
    operators = [Operator(name=f"o{i}", selectivity=s) for i, s in enumerate(selectivity)]
    edges = [Edge(source=f"o{i}", target=f"o{i + 1}") for i in range(3)]
    operators.append(Operator(name="join", input="correlated", parallelism=2))
    edges += [Edge(source="o1", target="join"), Edge(source="o3", target="join")]
    topology = Topology(
        name="t", operators=tuple(operators), edges=tuple(edges), rates={"o0": 1000}
    )
    assert operator_rates(topology).input == pytest.approx([1000, 1000, 100, 50, 150])
    assert task_rates(topology).input[-2:] == pytest.approx([75, 75])


def test_task_rates_are_source_outputs() -> None:
    """Given task rates replace the even spread and are what a source emits."""
    topology = Topology(
        name="t",
        operators=(Operator(name="s", parallelism=2, selectivity=0.5), Operator(name="t")),
        edges=(Edge(source="s", target="t"),),
        task_rates={"s": (1.0, 3.0)},
    )
    rates = task_rates(topology)
    assert rates.output[:2] == pytest.approx([1.0, 3.0])
    assert rates.input == pytest.approx([2.0, 6.0, 4.0])
    assert operator_rates(topology).input == pytest.approx([8.0, 4.0])


def test_resolve_takes_tasks_and_operators() -> None:
    """An operator's name means all its tasks."""
    graph = task_graph(pair(2, 3, "full"))
    assert graph.resolve("v") == (2, 3, 4)
    assert graph.resolve("u.1") == (1,)
    with pytest.raises(BadInputError, match=r"no task or operator 'x'"):
        graph.resolve("x")


def test_values_spread_extensive_numbers() -> None:
    """One value of state is the operator's and is spread; of a cost it holds for each task."""
    topology = Topology(
        name="t",
        operators=(Operator(name="a", parallelism=4, state_size=8.0, cost=2.0),),
    )
    graph = task_graph(topology)
    assert graph.values("state_size", extensive=True) == pytest.approx([2.0] * 4)
    assert graph.values("cost") == pytest.approx([2.0] * 4)
    with pytest.raises(BadInputError, match="has no reprocess_time"):
        graph.values("reprocess_time")
