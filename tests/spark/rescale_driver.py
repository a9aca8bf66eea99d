"""A pipeline whose operator is rescaled while it runs, in one process.

Usage: rescale_driver.py RUN GENERATION SHARDS EPOCHS [SHARDS EPOCHS ...]
Goes on from what is there: so many shards, if it has not had them yet, then so many more epochs.
Started by tests in a process group of its own, so that a crash point can kill all of it.
"""

import datetime as dt
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.in_process import Running

from holdfast.pipeline import Generator, Parquet, Pipeline
from holdfast.runtime.rescale import outcome, rescale, scalable

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KEYS = 23


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


def scattered(frame):
    """The same over rows that lie elsewhere: fine in one partition, and by no key in several."""
    return windows(frame.repartition(2, "value"))


def doubled(frame):
    return frame.withColumn("value", F.col("value") * 2)


def halved(frame):
    return frame.withColumn("value", (F.col("value") / 2).cast("bigint"))


def pipeline(*, mapped=False, most=4, summed=windows):
    """With or without a map that keeps no state and scales as well; `most` shards of the windows.

    None: that is not declared. `summed` makes the windows.
    """
    p = Pipeline("rescaled", event_time=("ts", "1 second"), epoch="0.4s")
    source = Generator(function=events, schema="ts timestamp, key string, value bigint", seed=0)
    rows = p.source("events", source, max_shards=4)
    if mapped:
        rows = rows.map("double", doubled, key="value", max_shards=2).map("halve", halved)
    p.sink("sums", rows.aggregate("window", summed, key="key", max_shards=most), Parquet("sums"))
    return p


class Rescaled(Running):
    """The pipeline above, which can be given other shards."""

    def __init__(self, spark, folder, *, generation=1, mapped=False, most=4, summed=windows):
        made = pipeline(mapped=mapped, most=most, summed=summed)
        super().__init__(spark, made, folder, sink="sums", generation=generation)

    def scale(self, shards, **others):
        changes = []
        for operator, number in {"window": shards, **others}.items():
            segment = scalable(self.deployment, operator)
            changes += rescale(self.log, segment, number, reason="test")
        for change in changes:
            for child in change.children:
                self.start(child.unit)
        self.until(lambda _: all(outcome(self.log, change) for change in changes))
        return changes

    def pass_over(self, changes):
        """Go on until windows of every key are delivered that lie wholly after these changes."""
        last = max(outcome(self.log, change).epoch for change in changes)
        while reached(self.folder) <= START + dt.timedelta(seconds=last):
            self.deliver(2)


def delivered(folder):
    """All rows in the sink's folder."""
    files = sorted((Path(folder) / "sums").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def reached(folder):
    """The last window that was delivered of every key; shards that were behind come later."""
    last = {f"k{key}": START - dt.timedelta(seconds=5) for key in range(KEYS)}
    for row in delivered(folder):
        last[row["key"]] = max(last[row["key"]], row["start"])
    return min(last.values())


def main(folder, generation, steps):
    run = Rescaled(None, folder, generation=generation)
    try:
        run.deliver(4)
        for shards, epochs in steps:
            run.scale(shards, events=shards)
            run.deliver(epochs)
    finally:
        run.host.close()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    main(sys.argv[1], numbers[0], list(zip(numbers[1::2], numbers[2::2], strict=True)))
