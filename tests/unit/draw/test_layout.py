"""Layers, orders and places: what makes a drawing readable holds for every graph."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.draw.channel import Net, assign_tracks, route
from holdfast.draw.layers import Layered, arrange, assign_layers, crossings
from holdfast.draw.measure import shorten, text_width
from holdfast.draw.place import align, place
from holdfast.draw.relax import project, relax

pytestmark = pytest.mark.unit


@st.composite
def dags(draw, most=14):
    size = draw(st.integers(1, most))
    pairs = [(u, v) for v in range(size) for u in range(v)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=40)) if pairs else []
    return size, edges


@given(dags())
def test_layers_point_downwards(dag):
    """Every edge leads to a later layer, and the first layer is 0."""
    size, edges = dag
    layer = assign_layers(size, edges, range(size))
    assert all(layer[u] < layer[v] for u, v in edges)
    assert min(layer) == 0


@given(dags())
def test_arranged_graph_is_proper(dag):
    """Each node is in one layer once, and every route steps from layer to layer."""
    size, edges = dag
    graph = arrange(size, edges, range(size))
    listed = [v for row in graph.order for v in row]
    assert sorted(listed) == list(range(len(graph.layer)))
    for (u, v), route_of in zip(edges, graph.routes, strict=True):
        assert (route_of[0], route_of[-1]) == (u, v)
        assert all(graph.layer[b] == graph.layer[a] + 1 for a, b in pairwise(route_of))
        assert all(node >= size for node in route_of[1:-1])


@given(dags(most=7))
def test_crossings_are_counted_right(dag):
    """The fast count equals the count over all pairs of edges."""
    size, edges = dag
    graph = arrange(size, edges, range(size))
    at = {v: i for row in graph.order for i, v in enumerate(row)}
    slow = 0
    for row in graph.order:
        own = [(at[u], at[v]) for u in row for v in graph.down[u]]
        slow += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(own) for c, d in own[:i])
    assert crossings(graph.order, graph.down) == slow


def test_two_crossed_edges_are_uncrossed():
    """Crossing reduction finds the order without crossings."""
    graph = arrange(4, [(0, 3), (1, 2)], range(4))
    assert crossings(graph.order, graph.down) == 0


@pytest.mark.parametrize("inward", [False, True])
def test_trees_are_drawn_without_crossings(inward):
    """A complete binary tree has no crossings in either direction."""
    edges = [((v - 1) // 2, v) for v in range(1, 31)]
    if inward:
        edges = [(30 - v, 30 - u) for u, v in edges]
    graph = arrange(31, edges, range(31))
    assert crossings(graph.order, graph.down) == 0


def _separated(graph: Layered, x, sizes, gap, dummy_gap):
    for row in graph.order:
        for a, b in pairwise(row):
            space = gap if max(a, b) < graph.size else dummy_gap
            assert x[b] - x[a] >= (sizes[a] + sizes[b]) / 2 + space - 1e-6


@pytest.mark.parametrize("method", [align, relax, place])
@given(dag=dags(), data=st.data())
def test_places_keep_order_and_distance(method, dag, data):
    """Whatever the sizes, nodes of a layer stay in order and apart, and start at 0."""
    size, edges = dag
    graph = arrange(size, edges, range(size))
    own = data.draw(st.lists(st.floats(1, 100), min_size=size, max_size=size))
    sizes = own + [2.0] * (len(graph.layer) - size)
    x = method(graph, sizes, 10.0, 4.0)
    _separated(graph, x, sizes, 10.0, 4.0)
    assert min(at - s / 2 for at, s in zip(x, sizes, strict=True)) == pytest.approx(0, abs=1e-6)


def test_a_line_is_straight():
    """The nodes of a line share one place across."""
    graph = arrange(5, [(i, i + 1) for i in range(4)], range(5))
    assert len(set(place(graph, [10.0, 30.0, 10.0, 20.0, 8.0], 5.0, 5.0))) == 1


def test_a_parent_stands_over_the_middle_of_its_children():
    """Two children are placed symmetrically around their parent."""
    graph = arrange(3, [(0, 1), (0, 2)], range(3))
    x = place(graph, [10.0] * 3, 10.0, 5.0)
    assert x[0] == pytest.approx((x[1] + x[2]) / 2)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 5)), min_size=1, max_size=12))
def test_projection_is_monotone_and_no_worse_than_constants(pairs):
    """Pooling gives a non-decreasing sequence at least as near as the best constant."""
    values, weights = map(list, zip(*pairs, strict=True))
    found = project(values, weights)
    assert all(a <= b + 1e-9 for a, b in pairwise(found))

    def far(xs):
        return sum(w * (v - x) ** 2 for v, w, x in zip(values, weights, xs, strict=True))

    mean = sum(v * w for v, w in pairs) / sum(weights)
    assert far(found) <= far([mean] * len(values)) + 1e-6
    assert project(sorted(values), weights) == pytest.approx(sorted(values))


@st.composite
def channels(draw):
    columns = draw(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=6))
    free = draw(st.permutations(range(41)))
    nets, used = [], 0
    for source in columns:
        count = draw(st.integers(1, 3))
        nets.append(Net(source=source, targets=tuple(free[used : used + count])))
        used += count
    return nets


@given(channels())
def test_nets_on_one_track_do_not_touch(nets):
    """Two nets share a track only with a free column between them."""
    tracks = assign_tracks(nets)
    for i, a in tracks.items():
        for j, b in tracks.items():
            if i < j and a == b:
                (low_i, high_i), (low_j, high_j) = nets[i].span, nets[j].span
                assert high_i + 1 < low_j or high_j + 1 < low_i
    assert set(tracks) == {i for i, net in enumerate(nets) if not net.straight}


def test_route_draws_a_fan_out():
    """One source to three targets: a bus with a drop to each."""
    lines = route([Net(source=4, targets=(0, 4, 8))], 9, [0, 4, 8])
    assert lines == ["┌───┼───┐", "▼   ▼   ▼"]


def test_route_draws_crossings_through():
    """Where two nets cross, the vertical line is drawn through the other."""
    lines = route([Net(source=0, targets=(6,)), Net(source=3, targets=(3,))], 7, [6, 3])
    assert lines == ["└──│──┐", "   ▼  ▼"]


@given(st.text(max_size=40), st.floats(20, 200))
def test_shortened_text_fits(text, room):
    """Shortened text fits its room, and text that fits is left alone."""
    short = shorten(text, 12, room)
    assert text_width(short, 12) <= room or short == "…"
    if text_width(text, 12) <= room:
        assert short == text


def test_wide_characters_are_wider():
    """Width follows the characters, not their number."""
    assert text_width("mmmm", 10) > text_width("iiii", 10)
    assert text_width("流水线", 10) > text_width("abc", 10)
    assert text_width("name", 10, bold=True) > text_width("name", 10)
