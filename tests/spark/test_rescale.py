"""Operators that get more shards and fewer while they run: every row once, state and all."""

import datetime as dt
import time
from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import UnitId
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import outcome, rescale, scalable, shape_of
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DEADLINE_S = 240.0
KEYS = 23


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-rescale", memory_mb=800)
    yield session
    session.stop()


def events(epoch, seed):
    """Twelve rows a second of event time, over all keys in turn."""
    return [
        (START + dt.timedelta(seconds=epoch), f"k{(epoch * 12 + i) % KEYS}", epoch * 12 + i)
        for i in range(12)
    ]


def windows(frame):
    return (
        frame.groupBy(F.window("ts", "5 seconds"), "key")
        .agg(F.sum("value").alias("total"), F.count("*").alias("rows"))
        .select(F.col("window.start").alias("start"), "key", "total", "rows")
    )


def first_seen(frame):
    """Of every three rows of a key and value one."""
    return frame.withColumn("value", F.col("value") % 40).dropDuplicates(["key", "value"])


def pipeline():
    p = Pipeline("rescaled", event_time=("ts", "1 second"), epoch="0.4s")
    source = Generator(function=events, schema="ts timestamp, key string, value bigint", seed=0)
    rows = p.source("events", source)
    p.sink("sums", rows.aggregate("window", windows, key="key", max_shards=4), Parquet("sums"))
    return p


class Running:
    """All units of a run in this process, heirs included."""

    def __init__(self, spark, folder, *, generation=1):
        self.pipeline = pipeline()
        self.deployment = deploy(self.pipeline)
        self.folder = folder
        self.host = SparkUnitHost(
            self.deployment, self.pipeline, folder, keep_input=True, spark=spark
        )
        self.log = SliceLog(folder)
        self.generation = generation
        self.begun = set()
        for unit in self.deployment.units():
            self.start(str(unit))

    def start(self, name):
        if name not in self.begun:
            self.begun.add(name)
            self.host.start(UnitId.parse(name), self.generation, self.generation - 1 or None)

    def poll(self):
        found = {str(item.unit): item for item in self.host.poll()}
        for item in found.values():
            assert item.state != "failed", item.error
            for heir in item.heirs if item.state == "ended" else ():
                self.start(heir)
        return found

    def until(self, condition):
        end = time.monotonic() + DEADLINE_S
        while not condition(found := self.poll()):
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found

    def deliver(self, epochs):
        """Go on until so many more epochs are delivered."""
        at = max(item.epoch for item in self.poll().values() if item.unit.segment == "sums")
        self.until(lambda found: found["sums.0#0"].epoch >= max(at, 0) + epochs)

    def scale(self, shards):
        segment = scalable(self.deployment, "window")
        changes = rescale(self.log, segment, shards, reason="test")
        for change in changes:
            for child in change.children:
                self.start(child.unit)
        self.until(lambda _: all(outcome(self.log, change) for change in changes))
        return changes


def delivered(folder):
    files = sorted((folder / "sums").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def expected(epochs):
    sums = defaultdict(lambda: [0, 0])
    for epoch in range(epochs):
        for ts, key, value in events(epoch, 0):
            start = ts - dt.timedelta(seconds=ts.second % 5, microseconds=ts.microsecond)
            sums[start, key][0] += value
            sums[start, key][1] += 1
    return {key: tuple(value) for key, value in sums.items()}


def check(folder):
    """Whatever was delivered is right, once, and without gaps between windows."""
    rows = delivered(folder)
    assert max(Counter((row["start"], row["key"]) for row in rows).values()) == 1
    last = max(row["start"] for row in rows)
    wanted = {
        at: value
        for at, value in expected(round((last - START).total_seconds()) + 5).items()
        if at[0] <= last
    }
    assert {(r["start"], r["key"]): (r["total"], r["rows"]) for r in rows} == wanted


def test_an_operator_is_split_and_merged_while_it_runs(spark, tmp_path):
    """One shard, three of uneven blocks, two, one, each with the state of those before."""
    run = Running(spark, tmp_path)
    try:
        run.deliver(12)
        for shards in (3, 2, 1):
            changes = run.scale(shards)
            assert len(shape_of(run.log, run.deployment.segment("window"))) == shards
            for change in changes:
                print(shards, outcome(run.log, change))
            run.deliver(8)
    finally:
        run.host.close()
    check(tmp_path)
