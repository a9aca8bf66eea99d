"""What an event costs depends on what it concerns, not on how many units there are.

Counted, not timed: the tables of units and nodes count how often they are asked and how many of
their entries are looked at.
"""

from collections import Counter
from typing import ClassVar

import pytest
from benchmarks.coordinator import Fleet

from holdfast.control import events as e
from holdfast.control.membership import MAX_CHECKS

pytestmark = pytest.mark.unit

SIZES = (200, 2000)


class Counting(dict):
    """A table that counts looks: one for a question, as many as it has entries for a walk."""

    looks: ClassVar[Counter] = Counter()

    def __init__(self, name, content):
        super().__init__(content)
        self.name = name

    def get(self, key, default=None):
        self.looks[self.name] += 1
        return super().get(key, default)

    def __getitem__(self, key):
        self.looks[self.name] += 1
        return super().__getitem__(key)

    def _walk(self, walk):
        for item in walk:
            self.looks[self.name] += 1
            yield item

    def __iter__(self):
        return self._walk(super().__iter__())

    def values(self):
        return self._walk(super().values())

    def items(self):
        return self._walk(super().items())

    def keys(self):
        return self._walk(super().keys())


def looks_per_event(size):
    """Kind of event to the most looks one such event took at any of the tables."""
    fleet = Fleet(size)
    state, vitals = fleet.coordinator.state, fleet.coordinator.vitals
    for holder, name in (
        (state.unit_state, "units"),
        (state.node_state, "nodes"),
        (state.recovery_state, "under_way"),
        (vitals.unit_signs, "units"),
        (vitals.node_signs, "nodes"),
        (vitals.pool, "_nodes"),
    ):
        setattr(holder, name, Counting(name, getattr(holder, name)))
    most = Counter()
    original = fleet.feed

    def feed(kind, event):
        Counting.looks.clear()
        decided = original(kind, event)
        most[kind] = max(most[kind], sum(Counting.looks.values()))
        return decided

    fleet.feed = feed
    fleet.now += 0.01
    for _ in range(3):
        fleet.round(_)
    fleet.feed("tick", e.Tick(cause="t"))
    return most


def test_looks_do_not_grow_with_the_units():
    """Heartbeats, failures, deaths and joins look at as much with ten times the units."""
    small, large = (looks_per_event(size) for size in SIZES)
    assert set(small) == {
        "heartbeat, news",
        "heartbeat, no news",
        "unit fails",
        "node dies",
        "node joins",
        "tick",
    }
    for kind, looks in large.items():
        # Ten units a node, at most sixteen after a takeover; forty looks for each.
        assert looks <= 640, (kind, looks)
        # With many nodes placement passes over more entries that are out of date.
        assert looks <= 2 * small[kind] + 20, (kind, small[kind], looks)


def test_many_losses_at_once_are_spread_over_ticks():
    """However many nodes fall silent at once, one tick gives up a bounded number of them."""
    fleet = Fleet(4000)
    nodes = fleet.coordinator.state.nodes
    total, lost = len(nodes), []
    assert total > MAX_CHECKS
    for _ in range(20):
        fleet.now += 0.9
        before = len(nodes)
        fleet.feed("", e.Tick(cause="t"))
        lost.append(before - len(nodes))
    assert 0 < max(lost) <= MAX_CHECKS
    assert sum(lost) == total


def test_units_without_room_cost_nothing_while_nothing_changes():
    """A thousand units wait for a node: heartbeats of the others do not look at them."""
    fleet = Fleet(2000)
    names = [name for name in fleet.coordinator.state.nodes if fleet.reports[name]]
    for name in [*names[:150], *(n for n in fleet.coordinator.state.nodes if n[0] == "x")]:
        pid = fleet.coordinator.state.nodes[name].pid
        del fleet.reports[name]
        fleet.feed("dies", e.NodeExited(cause=fleet.cause(), node=name, pid=pid))
    state = fleet.coordinator.state
    assert len(state.unit_state.stuck) > 1000
    state.unit_state.units = Counting("units", state.units)
    Counting.looks.clear()
    fleet.feed("beat", fleet.beat(names[-1]))
    fleet.feed("tick", e.Tick(cause="t"))
    assert Counting.looks["units"] <= 100
