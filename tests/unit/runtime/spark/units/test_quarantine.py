"""Dividing rows until those that fail are found."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.spark.units.isolate import (
    SAMPLE,
    SUSPICIOUS,
    TOGETHER,
    SearchEndedError,
    isolate,
)
from holdfast.runtime.spark.units.quarantine import Trial, suspects

pytestmark = pytest.mark.unit


def rows(number):
    return [("b", at) for at in range(number)]


def failing(is_bad, runs):
    """Parts fail that hold a bad row; every run is noted."""

    def fail(parts):
        assert len(parts) <= max(TOGETHER, SAMPLE)
        runs.extend(parts)
        return [any(is_bad(at) for _, at in part) for part in parts]

    return fail


def still():
    return 0.0


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=6))
def test_exactly_the_bad_rows_are_found(size, poison):
    """Rows that fail on their own are found, all of them and in order, in few runs."""
    runs = []
    found = isolate(rows(size), failing(poison.__contains__, runs), now=still)
    assert found == [("b", at) for at in sorted(poison) if at < size]
    assert len(runs) <= 1 + 8 * 4 * len(found)


def test_rows_that_fail_only_together_are_not_skipped():
    """If no single row is to blame, none is skipped."""
    found = isolate(
        [("a", 0), ("b", 0)], lambda parts: [len(part) > 1 for part in parts], now=still
    )
    assert found == []


def test_a_function_that_fails_on_everything_is_given_up():
    """After some bad rows, others from all over the batch fail too: it is not worth going on."""
    runs = []
    with pytest.raises(SearchEndedError, match="all over the batch"):
        isolate(rows(5000), failing(lambda _: True, runs), now=still)
    assert len(runs) < 10 * (SUSPICIOUS + SAMPLE)


def test_a_search_that_finds_nothing_is_given_up():
    """Rows that fail only together would be divided for ever."""
    with pytest.raises(SearchEndedError, match="no row fails on its own"):
        isolate(rows(5000), lambda parts: [len(part) > 1 for part in parts], now=still, max_runs=50)


@pytest.mark.parametrize(("size", "every"), [(5_120, 100), (51_200, 1_000), (6_000, 3)])
def test_a_large_batch_is_searched_as_small_ones_would_be(size, every):
    """After a pause one batch holds what many would have held, and as many bad rows."""
    found = isolate(rows(size), failing(lambda at: at % every == 0, []), now=still)
    assert found == [("b", at) for at in range(0, size, every)]


def test_a_long_search_ends_with_what_it_has_found():
    """Those rows are bad for certain, and the next search goes on with the others."""
    poison, left, searches = set(range(0, 4000, 50)), rows(4000), 0
    while True:
        clock = itertools.count(0, 5)
        found = isolate(left, failing(poison.__contains__, []), now=clock.__next__)
        if not found:
            break
        searches += 1
        assert {at for _, at in found} <= poison
        poison -= {at for _, at in found}
        left = [place for place in left if place not in set(found)]
    assert not poison
    assert 1 < searches < 64


def test_the_search_tells_how_far_it_is():
    """Rows found only grow, and there is less and less to look at."""
    told = []
    isolate(rows(100), failing({7, 90}.__contains__, []), now=still, tell=told.append)
    assert (told[0].found, told[0].left) == (0, 100)
    assert [item.found for item in told] == sorted(item.found for item in told)
    assert told[-1].left < 20


class FakeTrial:
    """Fails on bad rows, and on everything while the disk is full."""

    def __init__(self, bad, full_runs=0):
        self.bad = bad
        self.full_runs = full_runs
        self.doubtful = False

    def fails(self, places):
        if self.full_runs > 0:
            self.full_runs -= 1
            self.doubtful = True
            return True
        return any(at in self.bad for _, at in places)


@pytest.mark.parametrize("full_runs", [0, 3, 12, 1000])
def test_a_machine_in_trouble_costs_no_rows(full_runs):
    """Rows that failed with errors of which they may be innocent are tried again."""
    quarantine = pytest.importorskip("holdfast.runtime.spark.units.quarantine")
    trial = FakeTrial({5}, full_runs)
    found = quarantine.find(trial, rows(24), lambda _: None)
    assert found == ([] if full_runs == 1000 else [("b", 5)])


class Dying(Trial):
    """Runs of it end with a dead worker as often as told."""

    def __init__(self, deaths):
        context = SimpleNamespace(segment=SimpleNamespace(operators=()))
        super().__init__(context, spark=None, pipeline=None, spec=None, operator="f", tables={})
        self.deaths = deaths

    def _run(self, places):
        if self.deaths:
            self.deaths -= 1
            raise PySparkException("Python worker exited unexpectedly (crashed)")


def test_a_worker_that_dies_once_is_no_rows_fault():
    """The run is made again; only if it fails again is there something to doubt."""
    once, always = Dying(1), Dying(2)
    assert (once.fails(rows(1)), once.doubtful) == (False, False)
    assert (always.fails(rows(1)), always.doubtful) == (True, True)


@pytest.mark.parametrize(
    ("blamed", "searched"),
    [
        (None, ["left", "right"]),
        ("left", ["left", "right"]),
        ("right", ["right", "left"]),
        ("plain", []),
    ],
)
def test_all_that_quarantine_are_searched_and_the_blamed_one_first(blamed, searched):
    """Where nothing tells whose function failed; not where one failed that must not."""
    p = Pipeline("p")
    sides = [
        p.source(f"of-{name}", Rate(1)).map(name, lambda frame: frame, on_error=on_error)
        for name, on_error in (("left", "quarantine"), ("plain", "fail"), ("right", "quarantine"))
    ]
    p.sink("out", sides[0].union("all", *sides[1:]), Parquet("out"))
    segment = deploy(p).segment("all")
    assert set(segment.operators) == {"left", "plain", "right", "all"}
    assert suspects(p, segment, blamed) == searched
