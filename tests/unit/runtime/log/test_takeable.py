"""What waits is what a batch could take, not what is not due."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.deployment.records import RangeRecord, SliceRecord
from holdfast.runtime.log.protocol import Batching, next_range
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.takeable import MAX_LOOK, Takeable, done_batch

pytestmark = pytest.mark.unit


def publish(log, boundary, shard, number, upto, after=None):
    log.put_slice(
        SliceRecord(
            boundary=boundary,
            shard=shard,
            number=number,
            after=upto - 1 if after is None else after,
            upto=upto,
        ),
        unit=boundary,
    )


def test_what_lies_within_the_interval_does_not_wait(tmp_path):
    """With a batch interval of 60 epochs, 59 published ones are no work; the 60th makes a batch."""
    log = SliceLog(tmp_path)
    unit = Takeable(log, {"a": 1}, batch_epochs=60)
    for epoch in range(59):
        publish(log, "a", 0, epoch, epoch)
        assert unit.waiting() == 0
    publish(log, "a", 0, 59, 59)
    assert unit.waiting() == 60


def test_what_only_some_inputs_have_does_not_wait(tmp_path):
    """A join waits for its slower input; that is no work undone."""
    log = SliceLog(tmp_path)
    unit = Takeable(log, {"a": 1, "b": 2}, batch_epochs=1)
    for epoch in range(5):
        publish(log, "a", 0, epoch, epoch)
        publish(log, "b", 0, epoch, epoch)
    assert unit.waiting() == 0
    publish(log, "b", 1, 0, 2, after=-1)
    assert unit.waiting() == 3
    unit.passed(RangeRecord(unit="u", number=0, after=-1, upto=2, inputs={"a": (3,), "b": (3, 1)}))
    assert unit.waiting() == 0


def test_a_unit_far_behind_is_read_in_bounded_looks(tmp_path):
    """However much waits, one look reads a bounded number of records."""
    log = SliceLog(tmp_path)
    for epoch in range(3 * MAX_LOOK):
        publish(log, "a", 0, epoch, epoch)
    unit = Takeable(log, {"a": 1}, batch_epochs=1)
    looks = [unit.waiting() // MAX_LOOK for _ in range(4)]
    assert looks == [1, 2, 3, 3]


def test_a_takeover_starts_where_the_log_is(tmp_path):
    """Done is the newest batch that is published; one only decided is work that waits."""
    log = SliceLog(tmp_path)
    assert done_batch(log, "u", ["out"], 0) is None
    for number in range(2):
        publish(log, "a", 0, number, number)
        log.put_range(
            RangeRecord(
                unit="u", number=number, after=number - 1, upto=number, inputs={"a": (number + 1,)}
            )
        )
    assert done_batch(log, "u", ["out"], 0).number == 0
    start = done_batch(log, "u", ["out"], 0)
    assert Takeable(log, {"a": 1}, batch_epochs=1, start=start).waiting() == 1
    publish(log, "out", 0, 1, 1)
    start = done_batch(log, "u", ["out"], 0)
    assert start.number == 1
    assert Takeable(log, {"a": 1}, batch_epochs=1, start=start).waiting() == 0


STRIDES = st.lists(st.integers(1, 4), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(shards=st.lists(STRIDES, min_size=1, max_size=3), span=st.integers(1, 4))
def test_something_waits_exactly_when_a_range_could_be_put(shards, span, tmp_path_factory):
    """Whatever the shards have published, it agrees with the protocol, batch after batch."""
    log = SliceLog(tmp_path_factory.mktemp("log"))
    published = []
    for shard, strides in enumerate(shards):
        ends, upto = [], -1
        for number, stride in enumerate(strides):
            publish(log, "a", shard, number, upto + stride, after=upto)
            upto += stride
            ends.append(log.slice("a", shard, number))
        published.append(ends)
    unit = Takeable(log, {"a": len(shards)}, batch_epochs=span)
    previous = None
    while True:
        first = previous.inputs["a"] if previous else (0,) * len(shards)
        unread = {"a": [ends[start:] for ends, start in zip(published, first, strict=True)]}
        proposed = next_range(previous, unread, Batching(batch_epochs=span), unit="u")
        assert (unit.waiting() > 0) == (proposed is not None)
        if proposed is None:
            return
        unit.passed(proposed)
        previous = proposed
