"""Passes by level give what passes by operator give."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._ppa_common import small_topology
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planners.ppa import fidelity_levels
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.fidelity_levels import level_passes
from holdfast.testing.generators import ppa_random

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module", autouse=True)
def _always():
    """Use levels on the smallest topologies too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fidelity_levels, "FEWEST_OPERATORS", 0)
        patch.setattr(fidelity_levels, "OPERATORS_PER_LEVEL", 0)
        yield


@given(st.integers(0, 2**32 - 1))
def test_levels_agree_with_operators(seed):
    """Completeness, its union form and sensitivities are the same, with zeros at joins too."""
    rng = np.random.default_rng(seed)
    model = fidelity_model(small_topology(rng))
    model.__dict__["_levels"] = None
    passes = level_passes(model)
    assert passes is not None
    sinks = np.zeros(model.size)
    for query in model.queries:
        sinks[model.spans[query.operator]] += query.weight * query.parts
    state = (rng.random((model.size, 7)) < 0.6).astype(float)
    for joins in (True, False):
        wanted = model.propagate(state, joins=joins)
        assert passes.propagate(state, joins=joins) == pytest.approx(wanted, abs=1e-12)
    for column in state.T:
        complete = model.propagate(column)
        wanted = model.sensitivity(column, complete)
        assert passes.sensitivity(column, complete, sinks) == pytest.approx(wanted, abs=1e-12)


def test_levels_are_for_topologies_that_are_wide():
    """Many operators side by side are grouped; a chain is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fidelity_levels, "FEWEST_OPERATORS", 30)
        patch.setattr(fidelity_levels, "OPERATORS_PER_LEVEL", 3)
        wide = fidelity_model(ppa_random(60, parallelism=2, seed=1))
        narrow = fidelity_model(ppa_random(6, parallelism=2, seed=1))
        assert level_passes(wide) is not None
        assert level_passes(narrow) is None
