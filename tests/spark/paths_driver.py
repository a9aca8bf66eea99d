"""A split that takes other paths while it runs, in one process.

Usage: paths_driver.py WHAT RUN GENERATION PATH EPOCHS [PATH EPOCHS ...]
WHAT: `score`, paths of maps; `fresh`, `shared` or `hot`, paths that count.
Goes on from what is there: takes a path, if it does not take it yet, then so many more epochs. If
paths have state and were run before, the first is taken before any unit is started.
Started by tests in a process group of its own, so that a crash point can kill all of it.
"""

import sys

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.in_process import Running

from holdfast.pipeline import Generator, Parquet, Pipeline, Sqlite, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.paths import carried, take

ROWS = 7
KEYS = 3


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


def weighing(weight):
    return lambda frame: frame.withColumn("weight", F.col("n") * 0 + weight)


def count(frame):
    sums = {"rows": F.count("*"), "first": F.min("n"), "last": F.max("n"), "sum": F.sum("weight")}
    made = [column.alias(name) for name, column in sums.items()]
    return frame.groupBy((F.col("n") % KEYS).alias("key")).agg(*made)


def counting(what, rules=count):
    """Rows of the first path weigh 1, those of the second 1000."""
    p = Pipeline("counted", epoch="0.4s")
    rows = p.source("events", Generator(function=events, schema="n bigint", seed=0))
    keeps = {"output": "update", "upsert_key": "key"}
    how = {"standby": "hot"} if what == "hot" else {"state": what}
    counted = rows.paths(
        "score",
        **how,
        model=lambda s: s.map("one", weighing(1)).aggregate("count", count, **keeps),
        rules=lambda s: s.map("more", weighing(1000)).aggregate("count", rules, **keeps),
    )
    p.sink("out", counted, Sqlite("out.db"))
    return p


class Split(Running):
    """A pipeline above, which can be had take another path."""

    def __init__(self, spark, folder, *, what="score", generation=1, at_once=""):
        """`at_once`: a path to take before any unit is started; those that are left stay away."""
        made = pipeline() if what == "score" else counting(what)
        split = deploy(made).segment("score")
        self.left = set()
        if at_once:
            log = SliceLog(folder)
            before = carried(log, split).change
            take(log, split, at_once, reason="test")
            self.left = {f"score.{number}#0" for number in range(before + 1)}
        super().__init__(spark, made, folder, sink="out", generation=generation)
        self.split = split
        if at_once:
            self.start(f"score.{before + 1}#0")

    def start(self, name):
        if name not in self.left:
            super().start(name)

    def take(self, path):
        """Take a path unless it is taken, and wait until its unit has published."""
        taken = take(self.log, self.split, path, reason="test") or carried(self.log, self.split)
        (unit,) = taken.units
        self.until(lambda found: unit in found and found[unit].batch >= 0)
        return taken

    def batches(self, number):
        """Wait until the path that is taken has run a batch: several epochs may be one."""
        (unit,) = carried(self.log, self.split).units
        self.until(lambda found: unit in found and found[unit].batch >= number)


def main(what, folder, generation, steps):
    at_once = steps[0][0] if what != "score" and generation > 1 else ""
    run = Split(None, folder, what=what, generation=generation, at_once=at_once)
    try:
        run.deliver(4)
        run.batches(1 if at_once else 4)
        for path, epochs in steps:
            run.take(path)
            run.deliver(int(epochs))
            run.batches(1)
    finally:
        run.host.close()


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0], words[1], int(words[2]), list(zip(words[3::2], words[4::2], strict=True)))
