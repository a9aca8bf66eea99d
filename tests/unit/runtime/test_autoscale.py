"""The autoscaler of a run: what it reads of records and of the status, and what it puts."""

import threading
from types import SimpleNamespace

import pytest
from tests.unit.runtime.test_rescale import COUNT, opened, shape

from holdfast.control.elastic.load import Rescale
from holdfast.control.elastic.predict import PredictPolicy
from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.runtime.autoscale import AutoscaleThread, Rescaler
from holdfast.runtime.rescale import shape_of
from holdfast.streams.records import Slice
from holdfast.streams.steps import Put, slices

pytestmark = pytest.mark.unit

LINES = Segment(
    name="lines",
    kind="source",
    operators=("lines",),
    outputs=(Boundary(operator="lines", key=("word",)),),
)
DEPLOYMENT = Deployment(pipeline="p", epoch_s=1.0, segments=(LINES, COUNT), fingerprints={})


class Clock:
    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at


def put(operation):
    yield operation


def publish(log, epoch, rows):
    """Rows of one epoch, evenly over the key groups."""
    parts = tuple(
        GroupPart(group=g, rows=rows // 128, offset=0, size=1, crc=0, digest=0) for g in range(128)
    )
    file = SliceFile(name=f"{epoch}", schema_size=1, schema_crc=0, parts=parts)
    item = Slice(
        unit="lines.0#0",
        number=epoch,
        after=epoch - 1,
        upto=epoch,
        rows=rows,
        files={"lines@word": (file,)},
    )
    log.run(put(Put(slices("lines.0#0"), epoch, item)))


def view(log, epoch, rows, *, row_s):
    """A run whose units keep up; every shard reads its share."""
    units = shape_of(log, COUNT)
    return SimpleNamespace(
        units=[
            SimpleNamespace(
                unit=name,
                phase="running",
                batch=epoch,
                epoch=epoch,
                waiting=0,
                rows_in=rows * (epoch + 1) * block.count // 8,
                batch_ms=1000.0 * row_s * rows * block.count / 8,
            )
            for block, name in units.items()
        ]
    )


def test_an_overloaded_operator_is_split_and_told_why():
    """Rates come from the records upstream; the changes are on record and announced."""
    log, clock, told, announced = opened(), Clock(), [], []
    rescaler = Rescaler(
        log,
        DEPLOYMENT,
        PredictPolicy(),
        most_in_all=8,
        announce=announced.append,
        tell=told.append,
        clock=clock,
    )
    decided = []
    for epoch in range(30):
        publish(log, epoch, 12800)
        if epoch % 5 == 4:
            clock.at = float(epoch)
            decided += rescaler.look(view(log, epoch, 12800, row_s=1e-4))
    (first, *_) = decided
    assert isinstance(first, Rescale)
    assert first.reason.kind == "overloaded"
    assert [count for _, count in shape(log)] == [4, 4]
    assert told[0].startswith("count gets 2 shards: a shard would work 128%")
    assert [[child.unit for child in change.children] for change in announced[0]] == [
        ["count.1#0", "count.1#1"]
    ]
    # Nothing more is decided before the children have published.
    assert len(decided) == 1


def test_a_unit_that_is_not_heard_of_leaves_the_shape_alone():
    """Half of the load says nothing."""
    log, clock, told = opened(), Clock(), []
    rescaler = Rescaler(
        log,
        DEPLOYMENT,
        PredictPolicy(),
        most_in_all=8,
        announce=lambda _: None,
        tell=told.append,
        clock=clock,
    )
    for at in range(5):
        clock.at = 5.0 * at
        assert rescaler.look(SimpleNamespace(units=[])) == []
    assert told == []


def test_a_look_that_fails_is_told_once_and_is_not_the_last():
    """A fault of the autoscaler's own neither ends it nor passes in silence."""
    told, looks, again = [], [], threading.Event()

    def look(view):
        looks.append(view)
        if len(looks) <= 3:
            raise KeyError("count")
        again.set()

    thread = AutoscaleThread(
        SimpleNamespace(look=look), lambda: "the run", tell=told.append, every_s=0.001
    )
    thread.start()
    assert again.wait(30)
    thread.stop()
    assert told == ["autoscaling failed, shards stay as they are: KeyError: 'count'"]
