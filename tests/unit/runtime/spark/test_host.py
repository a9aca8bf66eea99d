"""What a host tells of its units; no session is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.deployment import UnitId
from holdfast.errors import CorruptLogError
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.units.progress import Progress

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
