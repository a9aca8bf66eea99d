"""Bisecting for poison rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

quarantine = pytest.importorskip("holdfast.runtime.spark.units.quarantine")

pytestmark = pytest.mark.unit


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=6))
def test_exactly_the_bad_rows_are_found(size, poison):
    """Rows that fail on their own are found, all of them and in order, in few runs."""
    places = [("b", at) for at in range(size)]
    bad = [place for place in places if place[1] in poison]
    runs = []

    def succeeds(part):
        runs.append(part)
        return not set(bad) & set(part)

    assert quarantine.isolate(places, succeeds) == bad
    assert len(runs) <= 1 + 8 * 4 * len(bad)


def test_rows_that_fail_only_together_are_not_skipped():
    """If no single row is to blame, none is skipped."""
    places = [("a", 0), ("b", 0)]
    assert quarantine.isolate(places, lambda part: len(part) < 2) == []


def test_a_hopeless_search_is_given_up():
    """A batch in which everything fails does not run for ever."""
    places = [("a", at) for at in range(5000)]
    with pytest.raises(quarantine.TooManyRunsError):
        quarantine.isolate(places, lambda part: False)


def test_a_search_that_finds_nothing_is_given_up():
    """Rows that fail only together would be divided for ever."""
    places = [("a", at) for at in range(5000)]
    with pytest.raises(quarantine.TooManyRunsError):
        quarantine.isolate(places, lambda part: len(part) < 2, max_runs=50)


@pytest.mark.parametrize(("size", "every"), [(5_120, 100), (51_200, 1_000)])
def test_a_large_batch_is_searched_as_small_ones_would_be(size, every):
    """After a pause one batch holds what many would have held, and as many bad rows."""
    places = [("a", at) for at in range(size)]
    found = quarantine.isolate(places, lambda part: not any(at % every == 0 for _, at in part))
    assert found == [("a", at) for at in range(0, size, every)]
