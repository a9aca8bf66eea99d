"""Batches of a measurement grow until they can be seen, then small and large ones alternate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.profile.sizing import Sizing, Tried

pytestmark = pytest.mark.unit


def played(sizing, cost_s, fixed_s=0.1, first_s=3.0):
    """All batches that sizing asks for, at a cost per row and a start that is slow."""
    tried = []
    while (rows := sizing.next(tried)) is not None:
        cpu = fixed_s + cost_s * rows + (first_s if not tried else 0.0)
        tried.append(Tried(rows=rows, cpu_s=cpu, wall_s=cpu))
        assert len(tried) < 100
    return tried


@given(cost=st.floats(1e-9, 1e-2), pairs=st.integers(1, 8))
def test_pairs_follow_growth(cost, pairs):
    """As many pairs as asked for are measured, in turn small and large."""
    sizing = Sizing(first=100, enough_s=0.3, most=100_000, pairs=pairs, budget_s=1e9)
    tried = played(sizing, cost)
    measured = [tried[index].rows for index in sizing.measured(tried)]
    assert len(measured) == 2 * pairs
    assert len(set(measured[::2])) == len(set(measured[1::2])) == 1
    assert measured[1] == pytest.approx(4 * measured[0], rel=0.01)
    assert measured[1] <= sizing.most
    # Large enough to be seen, unless that would be too many rows.
    assert cost * measured[1] > 0.2 or measured[1] == sizing.most


def test_the_first_batch_never_counts():
    """What is paid once does not make the first batch look large enough."""
    sizing = Sizing(first=1000, enough_s=0.5, most=10**6, pairs=2)
    tried = played(sizing, 1e-5, first_s=30.0)
    assert min(sizing.measured(tried)) >= 2
    assert tried[1].rows > tried[0].rows


def test_a_slow_operator_ends_within_its_budget():
    """An operator that takes seconds per row is not tried for ever."""
    sizing = Sizing(first=10, enough_s=5.0, most=10**6, pairs=50, budget_s=20.0)
    tried = played(sizing, 0.05, first_s=0.0)
    assert sum(one.wall_s for one in tried[:-1]) <= 20.0
    assert len(sizing.measured(tried)) < 100
