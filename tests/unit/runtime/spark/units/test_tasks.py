"""In how many tasks a unit reads: one for small batches, one a core for large ones."""

from __future__ import annotations

import os

import pytest

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.spark.units.tasks import MANY_ROWS, SEEN, Tasks, expected_tasks
from holdfast.streams.records import Slice

pytestmark = pytest.mark.unit

LINES = Segment(
    name="lines", kind="source", operators=("lines",), outputs=(Boundary(operator="lines"),)
)
COUNT = Segment(name="count", kind="inner", operators=("count",), inputs=("lines",), batch_epochs=2)
DEPLOYMENT = Deployment(pipeline="p", epoch_s=1.0, segments=(LINES, COUNT), fingerprints={})


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def test_large_batches_ask_for_more_tasks_once():
    """A single one may be a catch-up; once there are as many as cores, no more are asked for."""
    tasks = Tasks(1)
    seen = (MANY_ROWS, *[10] * SEEN, MANY_ROWS, 10, MANY_ROWS, 10)
    assert not any(tasks.saw(rows) for rows in seen)
    assert tasks.saw(MANY_ROWS)
    assert tasks.count == 4
    assert not any(tasks.saw(MANY_ROWS) for _ in range(SEEN))


@pytest.mark.parametrize(("rows", "tasks"), [(0, 1), (MANY_ROWS - 1, 1), (MANY_ROWS, 4)])
def test_the_newest_slices_tell_how_large_batches_are(tmp_path, rows, tasks):
    """Rows of an epoch, times the epochs of a batch; where nothing is published, one task reads."""
    log = SliceLog(tmp_path)
    begin(log, DEPLOYMENT)
    assert expected_tasks(log, DEPLOYMENT, COUNT) == 1
    for number, (after, upto, count) in enumerate([(-1, 0, 9 * MANY_ROWS), (0, 2, rows)]):
        log.publish(Slice(unit="lines.0#0", number=number, after=after, upto=upto, rows=count))
    assert expected_tasks(log, DEPLOYMENT, COUNT) == tasks


def test_a_log_that_cannot_be_read_is_no_reason_not_to_start(tmp_path):
    """The unit says what is wrong when it comes to read."""
    log = SliceLog(tmp_path)
    begin(log, DEPLOYMENT)
    log.publish(Slice(unit="lines.0#0", number=0, after=-1, upto=0, rows=MANY_ROWS))
    (record,) = [path for path in tmp_path.rglob("*") if path.is_file() and "slices" in path.parts]
    record.write_bytes(b"torn")
    assert expected_tasks(log, DEPLOYMENT, COUNT) == 1
