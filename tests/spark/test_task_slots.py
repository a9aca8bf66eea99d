"""A node with more waiting tasks than usual gets as many task slots as it takes."""

import time

import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.units import slots

pytestmark = pytest.mark.spark

DEADLINE_S = 120.0


def test_units_in_a_row_do_not_keep_each_other_out(tmp_path, monkeypatch):
    """With the usual slots forced down to two, four queries that wait for each other still run."""
    monkeypatch.setattr(slots, "MIN_SLOTS", 2)
    running = SparkSession.getActiveSession()
    if running is not None:  # its slots were decided when it was started
        running.stop()
    made = Pipeline("row", epoch="0.3s")
    stream = made.source("rate", Rate(rows_per_second=10))
    for index in range(4):
        stream = stream.map(f"m{index}", lambda frame: frame)
    made.sink("out", stream, Parquet("out"))
    deployment = deploy(made, cuts="all")
    host = SparkUnitHost(deployment, made, tmp_path)
    end = time.monotonic() + DEADLINE_S
    try:
        # The last ones first: they take their slots, and wait for those that start after them.
        for unit in reversed(deployment.units()):
            host.start(unit, 1, None)
        while not any(item.rows_out >= 6 for item in host.poll() if item.unit.segment == "out"):
            assert time.monotonic() < end, host.poll()
            time.sleep(0.05)
    finally:
        host.close()
