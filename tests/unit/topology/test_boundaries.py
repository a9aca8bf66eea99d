"""Forced boundaries: each rule on the smallest topology that shows it."""

from __future__ import annotations

from typing import get_args

import pytest

from holdfast.topology.boundaries import REASONS, Reason, forced_boundaries, own_boundaries
from holdfast.topology.graph import Edge, Operator, Query, Topology

pytestmark = pytest.mark.unit


def forced(edges, *, stateful="", queries="", **operators):
    """Names and reasons; `ab` is an edge, operators are a, b, ... unless described."""
    names = sorted({name for edge in edges for name in edge})
    topology = Topology(
        name="t",
        operators=tuple(Operator(name=name, **operators.get(name, {})) for name in names),
        edges=tuple(Edge(source=a, target=b) for a, b in edges),
        queries=tuple(Query(name=name, sink=name) for name in queries),
    )
    found = forced_boundaries(topology, stateful=[name in stateful for name in names])
    return {names[i]: reason for i, reason in found.items()}


@pytest.mark.parametrize(
    ("edges", "options", "expected"),
    [
        (["ab", "bc"], {}, {"c": "sink"}),
        (["ab", "bc"], {"queries": "bc"}, {"b": "sink", "c": "sink"}),
        (["ab", "ac"], {}, {"a": "consumers", "b": "sink", "c": "sink"}),
        (["ab", "bc"], {"a": {"backup": "required"}}, {"a": "required", "c": "sink"}),
        (["ab", "bc"], {"b": {"parallelism": 2}}, {"a": "exchange", "b": "exchange", "c": "sink"}),
        (["ab", "bc"], {"stateful": "ac"}, {"a": "state", "c": "sink"}),
        (["ab", "bc", "dc"], {"stateful": "a"}, {"a": "state", "c": "sink"}),
        (["ab", "bc"], {"stateful": "ac", "queries": "bc"}, {"b": "sink", "c": "sink"}),
    ],
)
def test_each_rule(edges, options, expected):
    """A boundary that is forced anyway ends the segment, so that no state meets another one."""
    assert forced(edges, **options) == expected


def test_what_an_operator_declares_goes_before_who_reads_it():
    """Sources and nondeterministic operators name their own reason."""
    readers = [[2], [2, 3], [4], [4], []]
    declared = {0: "source", 1: "nondeterministic"}
    assert own_boundaries(readers, declared=declared, results={2}) == {
        0: "source",
        1: "nondeterministic",
        2: "sink",
        4: "sink",
    }


def test_every_reason_has_words():
    """Plans are explained with them."""
    assert set(REASONS) == set(get_args(Reason))
