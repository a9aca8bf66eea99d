"""Which part of a pipeline a loss concerns."""

from __future__ import annotations

import pytest

from holdfast.control.concern import Concern

pytestmark = pytest.mark.unit

READS = {
    "a": (),
    "b": (),
    "c": (),
    "join": ("a", "b"),
    "sum": ("join", "c"),
    "sums": ("sum",),
    "others": ("b",),
}


def test_a_fork_covers_what_is_down_above_its_own_sinks():
    """A sink that only concerns what may still be waited for is not in it."""
    concern = Concern(READS, {})
    assert concern.sinks == ("sums", "others")
    assert concern.covers(["c"], ["c"]) == {"sum", "sums"}
    assert concern.covers(["c"], ["b", "c"]) == {"join", "sum", "sums"}
    assert concern.covers(["b"], ["b"]) == {"join", "sum", "sums", "others"}


def test_a_larger_fork_is_wanted_where_something_goes_on_with_less():
    """The join has an input left, or it has none; another sink always counts."""
    concern = Concern(READS, {"others": 0.0})
    covered = concern.downstream(["c"])
    assert concern.uncovered(["a"], {"a", "c"}, covered) == "more than it covers"
    assert concern.uncovered(["a", "b"], {"a", "b", "c"}, covered) == ""
    assert concern.uncovered(["a"], {"a", "c", "join"}, covered) == ""
    assert Concern(READS, {}).uncovered(["b"], {"b", "c"}, covered) == "more sinks"


def test_sinks_worth_nothing_and_what_only_they_need_are_not_concerned():
    """Priorities count upstream."""
    concern = Concern(READS, {"sums": 0.0, "others": 3.0})
    assert concern.worth == {
        "a": 0.0,
        "b": 3.0,
        "c": 0.0,
        "join": 0.0,
        "sum": 0.0,
        "sums": 0.0,
        "others": 3.0,
    }
    assert concern.downstream(["a", "b"]) == {"others"}
