"""What waits is what a batch could take, not what is not due."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.log.test_batching import streams

from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.takeable import MAX_LOOK, Takeable
from holdfast.streams.records import Slice

pytestmark = pytest.mark.unit


def publish(log, unit, number, upto, after=None):
    start = upto - 1 if after is None else after
    log.publish(Slice(unit=unit, number=number, after=start, upto=upto))


def takeable(log, *inputs, span=1, done=-1):
    return Takeable(log, inputs, batch_epochs=span, done=done)


def test_what_lies_within_the_interval_does_not_wait():
    """With a batch interval of 60 epochs, 59 published ones are no work; the 60th makes a batch."""
    log = streams(a=[()])
    unit = takeable(log, "a", span=60)
    for epoch in range(59):
        publish(log, "a.0#0", epoch, epoch)
        assert unit.waiting() == 0
    publish(log, "a.0#0", 59, 59)
    assert unit.waiting() == 60


def test_what_only_some_inputs_have_does_not_wait():
    """A join waits for its slower input; that is no work undone."""
    log = streams(a=[range(5)], b=[range(5), ()])
    unit = takeable(log, "a", "b")
    assert unit.waiting() == 0
    publish(log, "b.0#1", 0, 2, after=-1)
    assert unit.waiting() == 3
    unit.passed(2)
    assert unit.waiting() == 0


def test_a_unit_far_behind_is_read_in_bounded_looks():
    """However much waits, one look reads a bounded number of records, and says enough."""
    log = streams(a=[range(3 * MAX_LOOK)])
    unit = takeable(log, "a")
    assert [unit.waiting() for _ in range(2)] == [MAX_LOOK, MAX_LOOK]
    unit.passed(MAX_LOOK - 1)
    assert unit.waiting() == MAX_LOOK


class Crowd:
    """A log that notices when two look at once; each look waits a moment for company."""

    def __init__(self, log):
        self.log, self.inside, self.most = log, 0, 0
        self._company = threading.Event()

    def steps(self):
        return self.log.steps()

    def run(self, steps):
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside > 1:
            self._company.set()
        self._company.wait(0.2)
        try:
            return self.log.run(steps)
        finally:
            self.inside -= 1


def test_two_threads_may_ask_at_once():
    """A unit asks before it trims, its node for the status: never both at once."""
    log = Crowd(streams(a=[range(3)]))
    unit = takeable(log, "a")
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda _: unit.waiting(), range(2)))
    assert (found, log.most) == ([3, 3], 1)


STRIDES = st.lists(st.integers(1, 4), min_size=1, max_size=6)


@given(shards=st.lists(STRIDES, min_size=1, max_size=3), span=st.integers(1, 4))
def test_something_waits_exactly_when_a_range_could_be_put(shards, span):
    """Whatever the shards have published, it agrees with the policy, batch after batch."""
    ends = [[sum(steps[: at + 1]) - 1 for at in range(len(steps))] for steps in shards]
    log = streams(a=ends)
    unit, steps, batching = takeable(log, "a", span=span), log.steps(), Batching(batch_epochs=span)
    after = -1
    while True:
        end = batching.choose_end(after, log.run(steps.unread(("a",), after, batching.reach)))
        assert (unit.waiting() > 0) == (end is not None)
        if end is None:
            return
        unit.passed(end)
        after = end
