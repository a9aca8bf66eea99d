"""What is tried before state is laid out over other partitions."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.spark.units import rehearse
from holdfast.runtime.spark.units.rehearse import Rehearsals
from holdfast.runtime.spark.units.share import share_of

pytestmark = pytest.mark.unit

LINES = Segment(
    name="lines", kind="source", operators=("lines",), outputs=(Boundary(operator="lines"),)
)
COUNT = Segment(
    name="count",
    kind="inner",
    operators=("count",),
    inputs=("lines",),
    key=("word",),
    stateful=True,
)


class Unit:
    """Runs nothing, and says how far it has come."""

    def __init__(self, context, batch=2, state="running"):
        self.context = context
        self.progress = SimpleNamespace(
            report=SimpleNamespace(batch=batch, state=state, error="moved")
        )

    def start(self):
        pass

    def stop(self):
        pass

    def join(self, timeout_s):
        pass


def rehearsals(tmp_path, shards):
    count = replace(COUNT, shards=shards)
    deployment = Deployment(pipeline="p", epoch_s=1.0, segments=(LINES, count), fingerprints={})
    log = SliceLog(tmp_path / "run")
    begin(log, deployment)
    return Rehearsals(deployment, log, tmp_path / "scratch"), replace(count, max_shards=4)


@pytest.mark.parametrize("shards", [1, 3, 4, 5])
def test_however_many_shards_were_declared_several_partitions_are_tried(tmp_path, shards):
    """One shard has them all: in four of four, each would have one, and none would be looked at."""
    tried = []

    def make(context):
        tried.append(share_of(context))
        return Unit(context)

    made, segment = rehearsals(tmp_path, shards)
    for _ in range(2):
        made.require(segment, make)
    assert [(share.partitions, share.unchecked) for share in tried] == [(4, True)]


def test_what_was_reset_or_cut_otherwise_is_tried_as_well(tmp_path):
    """The run has had other units before; the copy begins with those that are tried."""
    lines, count = replace(LINES, change=2), replace(COUNT, change=1)
    deployment = Deployment(pipeline="p", epoch_s=1.0, segments=(lines, count), fingerprints={})
    tried = []

    def make(context):
        tried.append(share_of(context).partitions)
        assert context.log.run(context.log.steps().last_end("lines")) == 2
        return Unit(context)

    made = Rehearsals(deployment, SliceLog(tmp_path / "run"), tmp_path / "scratch")
    made.require(replace(count, max_shards=4), make)
    made.run(count, make)
    assert tried == [4, None]


def test_what_was_not_tried_is_not_taken_for_granted(tmp_path, monkeypatch):
    """On a machine that is busy no batch may come in time; those who have the state keep it."""
    monkeypatch.setattr(rehearse, "TIMEOUT_S", 0.0)
    made, segment = rehearsals(tmp_path, 1)
    with pytest.raises(BadInputError, match="no batch has shown whether it can have its state in"):
        made.require(segment, lambda context: Unit(context, batch=-1))
    made.require(segment, lambda context: Unit(context, batch=0))


def test_what_cannot_be_is_raised_each_time(tmp_path):
    """Every heir says so."""
    made, segment = rehearsals(tmp_path, 1)
    for _ in range(2):
        with pytest.raises(BadInputError, match="cannot have its state in 4 partitions: moved"):
            made.require(segment, lambda context: Unit(context, batch=-1, state="failed"))
