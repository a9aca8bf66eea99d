"""Sub-topologies, units and segments."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._ppa_common import small_topology
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planners.ppa.shapes import fig3a, fig3b, shape

from holdfast.planners.ppa.structure import SubTopology, decompose, units_of
from holdfast.topology.graph import iter_links

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("topology", "units"),
    [(fig3a(), [((0,), 4), ((1, 2), 4)]), (fig3b(), [((0,), 4), ((1, 2), 2)])],
)
def test_units_of_figure_3(topology, units):
    """The unit boundary and the segments per unit that the figure shows."""
    (part,) = decompose(topology)
    assert part.kind == "structured"
    found = units_of(topology, part)
    assert [(unit.operators, len(unit.segments)) for unit in found] == units


def test_figure_4_has_two_structured_parts():
    """A Full link between two structured halves separates them."""
    topology = shape(
        [4, 4, 2, 4, 4, 2],
        [
            (0, 2, "merge"),
            (1, 2, "merge"),
            (2, 3, "full"),
            (2, 4, "full"),
            (3, 5, "merge"),
            (4, 5, "merge"),
        ],
    )
    assert decompose(topology) == (
        SubTopology(kind="structured", operators=(0, 1, 2)),
        SubTopology(kind="structured", operators=(3, 4, 5)),
    )


def test_operators_with_full_links_alone_form_a_full_part():
    """Full links in a row are one full sub-topology; what is structured around it stays apart."""
    topology = shape(
        [4, 4, 3, 3, 2, 4],
        [(0, 1, "one-to-one"), (1, 2, "full"), (2, 3, "full"), (3, 4, "full"), (4, 5, "split")],
    )
    assert decompose(topology) == (
        SubTopology(kind="structured", operators=(0, 1)),
        SubTopology(kind="full", operators=(2, 3)),
        SubTopology(kind="structured", operators=(4, 5)),
    )


def test_each_query_has_its_own_parts():
    """A query is decomposed over the operators it depends on only."""
    topology = shape([2, 2, 2], [(0, 1, "one-to-one"), (0, 2, "full")])
    assert decompose(topology, "o2") == (SubTopology(kind="full", operators=(0, 2)),)
    assert decompose(topology, "o1") == (SubTopology(kind="structured", operators=(0, 1)),)


@given(st.integers(0, 2**32 - 1))
def test_parts_cover_all_and_only_full_links_join_them(seed):
    """Every operator is in one part, in one unit; links between parts are Full."""
    topology = small_topology(np.random.default_rng(seed))
    parts = decompose(topology)
    owner = {i: k for k, part in enumerate(parts) for i in part.operators}
    assert sorted(i for part in parts for i in part.operators) == list(
        range(len(topology.operators))
    )
    for _, u, v, kind in iter_links(topology):
        assert owner[u] == owner[v] or kind == "full"
        if parts[owner[u]].kind == "full" and owner[u] == owner[v]:
            assert kind == "full"
    for part in parts:
        units = units_of(topology, part)
        assert sorted(i for unit in units for i in unit.operators) == list(part.operators)
        assert all(unit.segments for unit in units)
