"""A pipeline whose slice files are lost, in one process.

Usage: heal_driver.py RUN GENERATION BATCH STREAM [STREAM ...]
Runs some of the streams until the last has come to a batch. Started by tests in a process group of
its own, so that a crash point can kill all of it.
"""

import datetime as dt
import os
import sys
import time
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import UnitId
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.rundir.layout import unit_folder
from holdfast.runtime.spark.host import SparkUnitHost

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DEADLINE_S = 240.0
KEYS = 7


def events(epoch, seed):
    """Six rows a second of event time, over all keys in turn."""
    return [
        (START + dt.timedelta(seconds=epoch), f"k{(epoch * 6 + i) % KEYS}", epoch * 6 + i)
        for i in range(6)
    ]


def windows(frame):
    return (
        frame.groupBy(F.window("ts", "3 seconds"), "key")
        .agg(F.sum("value").alias("total"), F.count("*").alias("rows"))
        .select(F.col("window.start").alias("start"), "key", "total", "rows")
    )


def pipeline():
    p = Pipeline("healed", event_time=("ts", "1 second"), epoch="0.1s")
    source = Generator(function=events, schema="ts timestamp, key string, value bigint", seed=0)
    rows = p.source("events", source).map(
        "twice", lambda frame: frame.withColumn("value", frame.value * 2)
    )
    p.sink("sums", rows.aggregate("window", windows, key="key"), Parquet("sums"))
    return p


class Running:
    """Some units of a run in this process."""

    def __init__(self, spark, folder, *, ack_levels=3, generation=1):
        self.pipeline = pipeline()
        self.deployment = deploy(self.pipeline, cuts="all")
        self.folder = Path(folder)
        self.generation = generation
        self.host = SparkUnitHost(
            self.deployment, self.pipeline, folder, ack_levels=ack_levels, spark=spark
        )

    def start(self, *streams):
        for name in streams:
            self.host.start(UnitId(segment=name), self.generation, self.generation - 1 or None)

    def until(self, condition):
        end = time.monotonic() + DEADLINE_S
        while True:
            found = {item.unit.segment: item for item in self.host.poll()}
            ended = [item.error for item in found.values() if item.state in ("failed", "stopped")]
            assert not ended, ended[0]
            if condition(found):
                return found
            assert time.monotonic() < end, found
            time.sleep(0.05)


def lose(folder, *streams, cut=False):
    """Delete every slice file of some streams, or cut it in half."""
    for name in streams:
        data = Path(folder) / unit_folder(str(UnitId(segment=name))) / "data"
        files = list(data.rglob("*.arrow"))
        assert files
        for file in files:
            if cut:
                os.truncate(file, file.stat().st_size // 2)
            else:
                file.unlink()


def main(folder, generation, batch, streams):
    run = Running(None, folder, generation=generation)
    try:
        run.start(*streams)
        run.until(lambda found: found[streams[-1]].batch >= batch)
    finally:
        run.host.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
