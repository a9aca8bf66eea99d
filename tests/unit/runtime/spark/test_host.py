"""What a host tells of its units; no session is started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast.deployment import UnitId
from holdfast.errors import CorruptLogError
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.units.progress import Progress
from holdfast.streams.records import Floor, Range, Slice
from holdfast.streams.steps import Delete, Put, RaiseFloor, ranges, slices

pytestmark = pytest.mark.unit


class Damaged:
    """A unit with a record before it that cannot be read."""

    def __init__(self, unit, error):
        self.progress = Progress(unit, 3)
        self._error = error

    def status(self):
        raise self._error

    def stop(self):
        """It does nothing."""

    def join(self, timeout_s):
        """It does nothing."""


@pytest.mark.parametrize(
    "error", [CorruptLogError("is torn", path="log/a"), OSError(5, "Input/output error")]
)
def test_a_record_that_cannot_be_read_costs_no_node(tmp_path, error):
    """Its reader fails by name when it comes to it; all other units are told of as ever."""
    pipeline = Pipeline("p")
    pipeline.sink("out", pipeline.source("a", Rate(1)), Parquet("out"))
    host = SparkUnitHost(deploy(pipeline), pipeline, Path(tmp_path))
    unit = UnitId(segment="a", shard=0)
    host._units[unit] = Damaged(unit, error)
    (report,) = host.poll()
    assert (report.unit, report.generation) == (unit, 3)
    host.close()


def test_a_unit_that_was_handed_over_and_forgotten_ends_when_it_is_started_again(tmp_path):
    """Its node died before it could tell; all it had is trimmed by the time it comes back."""
    pipeline = Pipeline("p")
    pipeline.sink("out", pipeline.source("a", Rate(1), max_shards=2), Parquet("out"))
    deployment = deploy(pipeline)
    log, unit = SliceLog(tmp_path), "a.0#0"
    begin(log, deployment)
    log.records.execute(Put(ranges(unit), 0, Range(unit=unit, number=0, after=-1, upto=3)))
    log.records.execute(Put(slices(unit), 0, Slice(unit=unit, number=0, after=-1, upto=3)))
    rescale(log, deployment.segment("a"), 2, reason="test")
    log.run(log.steps().carry_out("a"))
    position = log.run(log.steps().position_at(unit, 1))
    log.run(log.steps().next_step(unit, position, (), lambda *_: None))
    log.records.execute(RaiseFloor(slices(unit), Floor(number=1, epoch=3)))
    log.records.execute(RaiseFloor(ranges(unit), Floor(number=2)))
    for operation in (Delete(slices(unit), 0), Delete(ranges(unit), 0), Delete(ranges(unit), 1)):
        log.records.execute(operation)
    host = SparkUnitHost(deployment, pipeline, Path(tmp_path))
    host.start(UnitId.parse(unit), 2, None)
    deadline = time.monotonic() + 20.0
    while (report := host.poll()[0]).state == "starting" and time.monotonic() < deadline:
        time.sleep(0.01)
    host.close()
    assert (report.state, report.heirs) == ("ended", ("a.1#0", "a.1#1")), report.error
