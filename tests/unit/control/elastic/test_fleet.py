"""Nodes are added with shards and retired without them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.elastic.fleet import FleetPolicy, NodeLoad

pytestmark = pytest.mark.unit


def nodes(*units):
    return [NodeLoad(node=f"n{at}", units=number) for at, number in enumerate(units)]


def test_nodes_grow_with_units_in_the_proportion_of_the_beginning():
    """Five units on two nodes: three a node."""
    policy = FleetPolicy(nodes=2, units=5)
    assert [policy.wanted(units) for units in (4, 5, 6, 7, 9, 10)] == [2, 2, 2, 3, 3, 4]
    assert policy.missing(8, nodes(3, 2)) == 1
    assert policy.missing(8, nodes(3, 2, 0)) == 0


def test_only_added_nodes_without_units_are_retired():
    """And only as many as are not needed."""
    policy = FleetPolicy(nodes=1, units=3)
    assert policy.idle(nodes(3, 0, 0), {"n1", "n2"}) == ["n1", "n2"]
    assert policy.idle(nodes(2, 1, 0), {"n1", "n2"}) == ["n2"]
    assert policy.idle(nodes(0, 3), {"n1"}) == []
    assert policy.idle(nodes(4, 0), {"n1"}) == []


@given(st.integers(1, 5), st.integers(1, 20), st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_what_is_retired_is_not_missed(begun, units, loads):
    """After retiring, nothing has to be added for the same units, and nodes do not swing."""
    policy = FleetPolicy(nodes=begun, units=units)
    there = nodes(*loads)
    gone = policy.idle(there, {node.node for node in there[begun:]})
    left = [node for node in there if node.node not in gone]
    assert policy.missing(sum(loads), left) <= max(0, policy.missing(sum(loads), there))
    assert all(not node.units for node in there if node.node in gone)
