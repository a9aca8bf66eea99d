"""Planning the batches of a unit that is behind: what is chosen, and how much is looked at."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.log.test_batching import ends_of_two, streams

from holdfast.rundir.layout import member, record_folder
from holdfast.runtime.log.batching import MAX_BATCH_EPOCHS, Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.codec import encode
from holdfast.streams.records import Change, Child, Slice
from holdfast.streams.steps import Put, changes, slices
from holdfast.streams.unit import End, Position, RunBatch

pytestmark = pytest.mark.unit

HOUR = 3600
UNIT = "u.0#0"


def by_definition(after, ends, batching):
    """The end of the next batch as the rule says it, whatever that costs.

    The first end in each batch interval is a candidate. Those that would make the batch too large,
    or lie too far ahead, are none, but for the first. The roundest interval wins, then the latest.
    """
    span = batching.batch_epochs
    candidates, cell = [], (after + 1) // span
    reach = 1
    while 2 * reach * span <= batching.max_epochs:
        reach *= 2
    last = cell + reach
    for end in ends:
        if (end.epoch + 1) // span == cell:
            continue
        cell = (end.epoch + 1) // span
        if candidates and (end.rows > batching.max_rows or cell > last):
            break
        candidates.append((cell & -cell, end.epoch))
        if batching.one_epoch_per_batch:
            break
    return max(candidates)[1] if candidates else None


@st.composite
def backlogs(draw):
    """A position, and the ends after it with the rows up to them."""
    after = draw(st.integers(-1, 40))
    epochs = sorted(draw(st.sets(st.integers(after + 1, after + 60), max_size=40)))
    ends, rows = [], 0
    for epoch in epochs:
        rows += draw(st.integers(0, 5))
        ends.append(End(epoch=epoch, rows=rows))
    return after, ends


@given(
    backlogs(),
    st.integers(1, 5),
    st.booleans(),
    st.integers(-1, 80) | st.just(10**6),
    st.integers(1, 70) | st.just(10**6),
)
def test_the_end_of_a_batch_is_what_the_rule_says(backlog, span, single, rows, epochs):
    """One pass chooses the end that the definition gives."""
    after, ends = backlog
    batching = Batching(
        batch_epochs=span, one_epoch_per_batch=single, max_rows=rows, max_epochs=epochs
    )
    assert batching.choose_end(after, ends) == by_definition(after, ends, batching)


@given(st.lists(st.lists(st.integers(1, 4), max_size=8), min_size=1, max_size=3), st.data())
def test_ends_rows_and_watermarks_are_those_of_the_slices(strides, data):
    """Whatever shards publish, an end is one of all of them, with the rows of all up to it."""
    logs = [[sum(steps[: at + 1]) - 1 for at in range(len(steps))] for steps in strides]
    log = streams(p=logs)
    common = sorted(set.intersection(*map(set, logs)))
    after = data.draw(st.sampled_from([-1, *common]))
    rows = {end: sum(after < item <= end for ends in logs for item in ends) for end in common}
    expected = [End(epoch=end, rows=rows[end]) for end in common if end > after]
    steps = log.steps()
    if data.draw(st.booleans()):
        log.run(steps.unread(("p",), -1, 1))  # who was away meanwhile finds the same
    assert log.run(steps.unread(("p",), after, None)) == expected


class CountingStore(MemoryStorage):
    """Records in memory that count how often they are read or looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, name):
        self.reads += 1
        return super().get(name)


def published(count, shards=2):
    """A stream `b` whose shards have ended a slice at every epoch."""
    store = CountingStore()
    log = SliceLog("/none", store)
    units = [f"b.0#{shard}" for shard in range(shards)]
    children = tuple(Child(unit=unit, segment="b", groups=(0, 1)) for unit in units)
    change = Change(stream="b", number=0, how="run", children=children)
    log.records.execute(Put(changes("b"), 0, change))
    for unit in units:
        for number in range(count):
            item = Slice(unit=unit, number=number, after=number - 1, upto=number, rows=1)
            place = member(record_folder(slices(unit)), number)
            store.put_if_absent(place, encode(item))
    store.reads = 0
    return store, log


def step_of(log, steps, position, batching):
    return log.run(steps.next_step(UNIT, position, ("b",), batching.propose, reach=batching.reach))


@pytest.mark.parametrize("slices_behind", [MAX_BATCH_EPOCHS, 2 * MAX_BATCH_EPOCHS, HOUR])
def test_planning_a_batch_costs_the_same_however_far_behind(slices_behind):
    """Every slice is looked at once, and none far beyond what one batch may take."""
    store, log = published(slices_behind)
    step = step_of(log, log.steps(), Position(batch=0, after=-1), Batching())
    assert isinstance(step, RunBatch)
    assert step.range.upto == MAX_BATCH_EPOCHS - 1
    assert store.reads <= 2 * (MAX_BATCH_EPOCHS + 2) + 16


def test_a_position_in_the_middle_of_a_long_log_is_found_by_halving():
    """A unit that goes on after a restart does not read what it has read before."""
    store, log = published(HOUR)
    place = Position(batch=1, after=HOUR - 3)
    step = step_of(log, log.steps(), place, Batching(one_epoch_per_batch=True))
    assert step.range.upto == HOUR - 2
    assert store.reads <= 2 * 40


def test_a_batch_interval_longer_than_the_look_ahead_is_taken():
    """The first end is taken however far it is; the second must be within reach."""
    _, log = published(4 * MAX_BATCH_EPOCHS)
    batching = Batching(batch_epochs=2 * MAX_BATCH_EPOCHS)
    step = step_of(log, log.steps(), Position(batch=0, after=-1), batching)
    assert step.range.upto == 2 * MAX_BATCH_EPOCHS - 1


@pytest.mark.slow
def test_catching_up_reads_every_record_once():
    """From an hour behind to the end, each record is read once, in few batches."""
    store, log = published(HOUR)
    steps, position, batches = log.steps(), Position(batch=0, after=-1), 0
    while isinstance(step := step_of(log, steps, position, Batching()), RunBatch):
        found = log.run(steps.read("b", step.range.after, step.range.upto))
        assert len(found) == 2 * (step.range.upto - step.range.after)
        position, batches = step.done, batches + 1
    assert position.after == HOUR - 1
    assert batches <= HOUR // MAX_BATCH_EPOCHS + 8
    # The looks that found nothing, the range and the floors come on top.
    assert store.reads <= 2 * HOUR + 12 * batches + 40
    assert steps.wanted() == [(slices("b.0#0"), HOUR), (slices("b.0#1"), HOUR)]


def test_one_can_go_back():
    """A redo of an earlier batch reads its slices again."""
    _, log = published(6)
    steps = log.steps()
    assert [item.upto for item in log.run(steps.read("b", 3, 5))] == [4, 5, 4, 5]
    assert [item.upto for item in log.run(steps.read("b", -1, 0))] == [0, 0]


@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.data())
def test_units_meet_also_where_the_look_ahead_ends(lags, data):
    """However far they fall behind, two shards share every end at a multiple of the look-ahead."""
    horizon = max(64, sum(lags))
    first, second = ends_of_two(Batching(max_epochs=16), lags, data, horizon)
    assert all(b - a <= 16 for ends in (first, second) for a, b in pairwise(ends))
    assert {end for end in range(horizon) if (end + 1) % 16 == 0} <= set(first) & set(second)
