"""Where batches end, and what watermarks promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.log.logs import X

from holdfast.runtime.log.batching import Batching, roundest
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.watermarks import output_watermark, spark_watermark
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.records import Change, Child, Slice, unit_name
from holdfast.streams.steps import Put, changes
from holdfast.streams.unit import End, Position

pytestmark = pytest.mark.unit


def streams(**shards):
    """A log in memory: streams, each with the ends of its shards."""
    log = SliceLog("nowhere", MemoryStorage())
    for stream, logs in shards.items():
        children = [
            Child(unit=unit_name(stream, 0, index), segment=stream, groups=(0, 1))
            for index in range(len(logs))
        ]
        change = Change(stream=stream, number=0, how="run", children=tuple(children))
        log.records.execute(Put(changes(stream), 0, change))
        for child, ends in zip(children, logs, strict=True):
            for number, end in enumerate(ends):
                item = Slice(
                    unit=child.unit, number=number, after=(-1, *ends)[number], upto=end, rows=1
                )
                log.publish(item)
    return log


def next_end(log, *inputs, after=-1, batching=None, limit=None):
    """Where the next batch of a unit would end."""
    batching = batching or Batching()
    steps = log.steps()
    ends = log.run(steps.unread(inputs, after, batching.reach))
    return batching.choose_end(after, ends, limit)


def test_a_batch_ends_where_every_shard_has_ended_a_slice():
    """The end of a batch is an end of every shard of every input, so a consistent cut."""
    log = streams(p=[(0, 1, 2, 5), (1, 5)], q=[(0, 1, 3)])
    assert next_end(log, "p", "q") == 1
    assert next_end(streams(p=[(4,), ()]), "p") is None
    assert next_end(streams(p=[(4,), (3, 5)]), "p") is None


def test_who_waits_is_told_what_for():
    """The logs that reach least far must publish before there can be another end."""
    log, steps = streams(p=[(0, 1, 2), (0,), (0,)]), None
    steps = log.steps()
    log.run(steps.common_ends(["p"], 0))
    assert steps.wanted() == [("p.0#1/slices", 1), ("p.0#2/slices", 1)]


def test_an_end_beyond_the_reach_is_found_if_there_is_no_other():
    """Logs that have no end in common for long are read on, and never waited for in vain."""
    log = streams(p=[(0, 900), (0, 600, 900)])
    place = Position(batch=1, after=0)
    batching = Batching(max_epochs=8)
    step = log.run(log.steps().next_step(X, place, ("p",), batching.propose, reach=batching.reach))
    assert step.range.upto == 900


def test_one_epoch_per_batch_never_merges():
    """Such a unit takes the next end epoch only, even when far behind."""
    log = streams(p=[(0, 1, 2, 3)])
    assert next_end(log, "p") == 3
    assert next_end(log, "p", batching=Batching(one_epoch_per_batch=True)) == 0


def test_a_batch_interval_is_waited_for():
    """A unit that keeps up ends its batches at the first end of each interval."""
    threes = Batching(batch_epochs=3)
    assert next_end(streams(p=[(0, 1)]), "p", batching=threes) is None
    assert next_end(streams(p=[(0, 1, 2)]), "p", batching=threes) == 2
    assert next_end(streams(p=[(1, 3, 5)]), "p", batching=threes) == 5


def test_an_end_that_must_be_met_is_met_whatever_the_interval():
    """It is a candidate, no batch crosses it, and before it the policy chooses as ever."""
    log, fours = streams(p=[range(12)]), Batching(batch_epochs=4)
    assert next_end(log, "p", batching=fours, limit=1) == 1
    assert next_end(log, "p", batching=fours, limit=9) == 7
    assert next_end(log, "p", after=7, batching=fours, limit=9) == 9
    assert next_end(streams(p=[(0, 2)]), "p", batching=fours, limit=1) is None


def test_a_large_backlog_is_cut():
    """A unit far behind takes bounded batches."""
    log = streams(p=[range(10)])
    assert next_end(log, "p", batching=Batching(max_rows=0)) == 0
    assert next_end(log, "p", batching=Batching(max_rows=5)) == 3


def ends_of_two(batching, lags, data, horizon):
    """The ends that two shards choose which see new epochs in different strides."""
    published = [End(epoch=epoch) for epoch in range(horizon)]
    ends = []
    for _ in range(2):
        seen, mine = 0, [-1]
        while seen < horizon:
            seen = min(horizon, seen + data.draw(st.sampled_from(lags)))
            while (
                found := batching.choose_end(mine[-1], published[mine[-1] + 1 : seen])
            ) is not None:
                mine.append(found)
        ends.append(mine)
    return ends


@given(st.lists(st.integers(1, 40), min_size=3, max_size=20), st.data())
def test_units_that_fall_behind_differently_keep_meeting(lags, data):
    """Two shards that see new epochs in different strides share ends all the way."""
    horizon = sum(lags)
    first, second = ends_of_two(Batching(), lags, data, horizon)
    common = sorted(set(first[1:]) & set(second[1:]))
    gaps = [b - a for a, b in zip([-1, *common], common, strict=False)]
    assert common[-1] == horizon - 1
    assert max(gaps) <= 2 * max(lags)


def test_a_stateful_segments_watermark_lags_one_batch():
    """What Spark may still emit bounds the promise; Spark's watermark rules out its own instant."""
    assert output_watermark(10, 20, stateful=False) == 20
    assert output_watermark(10, 20, stateful=True, lag_us=1) == -1
    assert output_watermark(None, 10, stateful=True) is None


def test_windows_alone_close_at_the_watermark_itself():
    """A window that ends where nothing older comes any more is complete; other state is not."""
    assert spark_watermark(5000, windows=True) == 5000
    assert spark_watermark(5000) == 4999
    assert output_watermark(5000, 9000, stateful=True, windows=True) == 5000
    assert output_watermark(5999, 9000, stateful=True, windows=True) == 5000


@pytest.mark.parametrize(("known", "promised"), [(5001, 5000), (5000, 4000), (5999, 5000)])
def test_a_stateful_segment_promises_whole_milliseconds(known, promised):
    """Spark closes a session that ends within a millisecond only with the next one."""
    assert output_watermark(known, 9000, stateful=True) == promised


@given(st.integers(-1, 100), st.integers(-50, 200), st.integers(1, 5), st.integers(1, 9))
def test_epochs_never_run_backwards(last, tick, span, most):
    """Whatever the clock says, a source's next end is later than its last and on its grid."""
    due = Batching(batch_epochs=span).due(last, tick, max_epochs=most)
    if due is None:
        assert tick < last + 2 * span
        return
    assert last < due <= max(tick, last + 1)
    assert (due + 1) % span == 0
    assert due - last <= max(most, span)


@given(st.integers(-1, 50), st.integers(0, 100), st.integers(1, 5), st.integers(1, 20))
def test_a_source_meets_its_cut(last, tick, span, ahead):
    """It goes no further than an end that must be met, and there as soon as that is over."""
    limit = last + ahead
    due = Batching(batch_epochs=span).due(last, tick, limit)
    assert due is None or last < due <= limit
    assert due is not None or tick < limit


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_the_roundest_number_is_found(low, more):
    """No number in the interval is divisible by a larger power of two."""
    found = roundest(low, low + more)
    assert low <= found <= low + more
    assert all(number & -number <= found & -found for number in range(low, low + more + 1))
