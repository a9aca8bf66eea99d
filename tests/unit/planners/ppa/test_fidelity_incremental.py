"""Fidelity kept up to date equals fidelity computed afresh."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._ppa_common import small_topology
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.fidelity_incremental import FidelityState

pytestmark = pytest.mark.unit


@given(st.integers(0, 2**32 - 1))
def test_any_sequence_of_failures_and_returns(seed):
    """After every change the state knows OF; trials leave no trace, also nested ones."""
    rng = np.random.default_rng(seed)
    model = fidelity_model(small_topology(rng))
    alive = rng.random(model.size) < 0.5
    state = FidelityState(model, alive)
    for _ in range(12):
        tasks = rng.choice(model.size, min(3, model.size), replace=False).tolist()
        returns = bool(rng.random() < 0.5)
        trial = alive.copy()
        trial[tasks] = returns
        with state.trial():
            tried = (state.revive if returns else state.fail)(tasks)
        assert tried == pytest.approx(model.fidelity(trial), abs=1e-12)
        assert state.fidelity == pytest.approx(model.fidelity(alive), abs=1e-12)
        with state.trial():
            state.revive(range(model.size))
            with state.trial():
                assert state.fail(range(model.size)) == pytest.approx(0, abs=1e-12)
            assert state.fidelity == pytest.approx(1, abs=1e-12)
        (state.revive if returns else state.fail)(tasks)
        alive = trial
        assert state.fidelity == pytest.approx(model.fidelity(alive), abs=1e-12)
        assert (state.alive == alive).all()
