"""Which sizes are looked at when one of them had no plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planners.joint.problem import Size
from holdfast.planners.joint.sizes import narrow

pytestmark = pytest.mark.unit


def _sizes(nodes: int, spares: int) -> list[Size]:
    found = [Size(nodes=n, spares=s) for n in range(1, nodes + 1) for s in range(spares + 1)]
    return sorted(found, key=lambda size: (size.nodes + size.spares, size))


@given(nodes=st.integers(1, 64), spares=st.integers(0, 3))
def test_without_a_plan_few_sizes_are_looked_at(nodes: int, spares: int) -> None:
    """As many as halving takes, not all."""
    looked: list[Size] = []

    def never(size: Size) -> bool:
        looked.append(size)
        return False

    narrow(_sizes(nodes, spares), never)
    assert looked[0] == Size(nodes=nodes, spares=spares)
    assert len(looked) <= nodes.bit_length() + 1


@given(nodes=st.integers(1, 64), need=st.integers(1, 64), spares=st.integers(0, 3))
def test_the_fewest_nodes_are_found(nodes: int, need: int, spares: int) -> None:
    """Where more nodes always help and each costs, the cheapest size with a plan is looked at."""
    best = [float("inf")]

    def better(size: Size) -> bool:
        cost = size.nodes + size.spares
        if size.nodes < need or cost >= best[0]:
            return False
        best[0] = cost
        return True

    narrow(_sizes(nodes, spares), better)
    assert best[0] == (need if need <= nodes else float("inf"))
