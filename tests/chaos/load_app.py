"""A running sum whose rows cost two milliseconds each, under a load of 1, 3 and 1 times.

A shard's tasks wait in turn, so that it does as much as one core, however many there are.
"""

import fcntl
import tempfile
import time
from collections import Counter
from pathlib import Path

import pandas as pd

from holdfast import Generator, Pipeline, Sqlite

ROWS = 270
CALM = 15
BUSY = 40
"""Epochs of two seconds."""
ROW_S = 0.002
KEYS = 40


def rows(epoch, seed):
    times = 3 if CALM <= epoch < CALM + BUSY else 1
    return [(f"k{at % KEYS}", epoch + at) for at in range(times * ROWS)]


def sums(frame):
    row_s = ROW_S  # what is named in here travels to the workers

    def add(key, parts, state):
        from pyspark import TaskContext

        total = state.get[0] if state.exists else 0
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
        for part in parts:
            with (Path(tempfile.gettempdir()) / f"holdfast-load-{query}").open("w") as core:
                fcntl.flock(core, fcntl.LOCK_EX)
                time.sleep(row_s * len(part))
            total += int(part["n"].sum())
        state.update((total,))
        yield pd.DataFrame({"key": [key[0]], "total": [total]})

    return frame.groupBy("key").applyInPandasWithState(
        add, "key string, total bigint", "total bigint", "update", "NoTimeout"
    )


pipeline = Pipeline("load", epoch="2s")
source = pipeline.source("rows", Generator(rows, "key string, n bigint"))
totals = source.stateful("sum", sums, key="key", output="upsert", max_shards=4)
pipeline.sink("totals", totals, Sqlite("totals.db"))


@pipeline.expected("totals")
def expected(found):
    totals = Counter()
    for row in found["rows"]:
        totals[row["key"]] += row["n"]
    return [{"key": key, "total": total} for key, total in totals.items()]
