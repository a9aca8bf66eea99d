"""Minimal complete trees: counted, listed, and what they say about fidelity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks._ppa_common import small_topology
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planners.ppa.shapes import few_trees, fig1a, fig3a, fig3b, fig5, shape

from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.mc_trees import TooManyTreesError, count_trees, list_trees

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("topology", "count"),
    [
        (fig1a(joined=False), 16),
        (fig1a(joined=True), 8),
        (fig3a(), 8),
        (fig3b(), 4),
        (fig5(), 4),
    ],
)
def test_the_papers_examples(topology, count):
    """Figures 1(a), 3(a), 3(b) and 5 have as many trees as the text says."""
    model = fidelity_model(topology)
    assert sum(count_trees(model).values()) == count
    assert len(list_trees(model)) == count


def test_full_chains_are_counted_without_listing():
    """30 operators of 100 tasks have 100^30 trees; counting them is instant, listing refused."""
    topology = shape([100] * 30, [(i, i + 1, "full") for i in range(29)])
    model = fidelity_model(topology)
    assert sum(count_trees(model).values()) == 100**30
    with pytest.raises(TooManyTreesError, match=r"10\^60"):
        list_trees(model)


@given(st.integers(0, 2**32 - 1))
def test_fidelity_is_the_weight_of_the_living_trees(seed):
    """OF of any set is the sum over the trees inside it, and no tree contains another's task
    needlessly: without any one of its tasks a tree alone carries nothing."""
    rng = np.random.default_rng(seed)
    model = fidelity_model(small_topology(rng))
    trees = few_trees(model)
    assert math.fsum(tree.weight for tree in trees) == pytest.approx(1)
    for alive in rng.random((10, model.size)) < 0.8:
        wanted = math.fsum(tree.weight for tree in trees if alive[list(tree.tasks)].all())
        assert model.fidelity(alive) == pytest.approx(wanted, abs=1e-12)
    distinct = {tree.tasks for tree in trees}
    assert len(distinct) == len(trees) <= sum(count_trees(model).values())
