"""A split that takes other paths while it runs, in one process.

Usage: paths_driver.py RUN GENERATION PATH EPOCHS [PATH EPOCHS ...]
Goes on from what is there: takes a path, if it does not take it yet, then so many more epochs.
Started by tests in a process group of its own, so that a crash point can kill all of it.
"""

import sys

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.in_process import Running

from holdfast.pipeline import Generator, Parquet, Pipeline
from holdfast.runtime.paths import carried, take

ROWS = 7


def events(epoch, seed):
    return [(epoch * ROWS + i,) for i in range(ROWS)]


def double(frame):
    return frame.withColumn("score", F.col("n") * 2)


def as_text(frame):
    return frame.withColumn("score", F.col("n").cast("string"))


def negative(frame):
    return frame.withColumn("score", -F.col("n"))


def pipeline(rules=negative):
    p = Pipeline("split", epoch="0.4s")
    rows = p.source("events", Generator(function=events, schema="n bigint", seed=0))
    scored = rows.paths(
        "score",
        column="path",
        model=lambda s: s.map("double", double),
        rules=lambda s: s.map("keep", lambda frame: frame.where("n >= 0")).map("negative", rules),
    )
    p.sink("out", scored, Parquet("out"))
    return p


class Split(Running):
    """The pipeline above, which can be had take another path."""

    def __init__(self, spark, folder, *, generation=1):
        super().__init__(spark, pipeline(), folder, sink="out", generation=generation)
        self.split = self.deployment.segment("score")

    def take(self, path):
        """Take a path unless it is taken, and wait until its unit has published."""
        taken = take(self.log, self.split, path, reason="test") or carried(self.log, self.split)
        (unit,) = taken.units
        self.until(lambda found: unit in found and found[unit].batch >= 0)
        return taken


def main(folder, generation, steps):
    run = Split(None, folder, generation=generation)
    try:
        run.deliver(4)
        for path, epochs in steps:
            run.take(path)
            run.deliver(int(epochs))
    finally:
        run.host.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), list(zip(sys.argv[3::2], sys.argv[4::2], strict=True)))
