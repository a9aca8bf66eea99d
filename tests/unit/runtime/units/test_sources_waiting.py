"""A source has work when an epoch is due, not before."""

import time

import pyarrow as pa
import pytest

from holdfast.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.units.sources import SourceUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.unit import Position

pytestmark = pytest.mark.unit

EPOCH_S = 100.0
"""Long, so that the clock does not matter to the test."""


class Rows:
    """One row an epoch."""

    max_epochs = 1000

    def claim(self, after, upto):
        return None

    def table(self, record, epoch):
        return pa.table({"n": [epoch]})


def source(folder, *, epochs_ago, batch_epochs):
    segment = Segment(
        name="src",
        kind="source",
        operators=("src",),
        outputs=(Boundary(operator="src"),),
        batch_epochs=batch_epochs,
    )
    deployment = Deployment(pipeline="p", epoch_s=EPOCH_S, segments=(segment,), fingerprints={})
    log = SliceLog(folder)
    log.put_origin(time.time() - (epochs_ago + 0.5) * EPOCH_S)
    context = UnitContext(
        unit=UnitId(segment="src"),
        generation=1,
        segment=segment,
        deployment=deployment,
        log=log,
        trimmer=Trimmer(log, deployment, keep_input=True),
        crash=Crash(),
    )
    return SourceUnit(context, Rows(), event_time=None)


def test_epochs_of_an_unfinished_interval_do_not_wait(tmp_path):
    """With a batch interval of 60 epochs, 30 that are over are nothing the source could take."""
    unit = source(tmp_path, epochs_ago=30, batch_epochs=60)
    assert unit.propose(-1, (), None) is None
    assert unit.progress.report.waiting == 0


def test_a_due_interval_waits_until_it_is_taken(tmp_path):
    """The interval is over: its epochs wait while they are worked on, and then no more."""
    unit = source(tmp_path, epochs_ago=61, batch_epochs=60)
    step = unit._next(Position(batch=0, after=-1))
    assert step.range.upto == 59
    assert unit.progress.report.waiting == 61
    seen = []
    unit.run_batch = lambda *_: seen.append(unit.progress.report.waiting)
    unit._batch(step)
    assert seen == [60]
    assert unit.propose(59, (), None) is None
    assert unit.progress.report.waiting == 0


def test_a_thread_that_computes_shows_work(tmp_path):
    """Processor time of a unit's thread is a sign of life; waiting shows none."""
    unit = source(tmp_path, epochs_ago=0, batch_epochs=60)
    assert unit.status().work == 0

    def compute():
        while not unit._stopping.is_set():
            sum(range(1000))

    unit._loop = compute
    unit.start()
    deadline = time.monotonic() + 60
    while unit.status().work < 2:
        assert time.monotonic() < deadline, "no work seen"
    unit.stop()
    unit.join(10.0)
