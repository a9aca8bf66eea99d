"""What may be rescaled: a source, and with state dropped duplicates, a count and a join."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast import Generator, Parquet, Pipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW_S = 3
KEYS = 29


def rows(epoch, seed):
    """Ten rows an epoch, each third one twice."""
    for at in range(10):
        n = epoch * 10 + at
        row = (START + timedelta(seconds=epoch), f"k{n * 7 % KEYS}", n)
        yield row
        if n % 3 == 0:
            yield row


def once(frame):
    return frame.dropDuplicates(["ts", "key", "n"])


def count(frame):
    counts = frame.groupBy(F.window("ts", f"{WINDOW_S} seconds"), "key").count()
    return counts.select(F.window_time("window").alias("ts"), "key", "count")


def paired(left, right):
    """Rows of one key with the same number, within two seconds.

    The numbers are no part of what Spark joins by: its state would lie by them as well.
    """
    right = right.select(
        F.col("ts").alias("at"), F.col("key").alias("other"), F.col("n").alias("m")
    )
    near = F.expr("at >= ts - interval 2 seconds and at <= ts + interval 2 seconds")
    same = F.abs(F.col("m") - F.col("n")) == 0
    met = left.join(right, (F.col("key") == F.col("other")) & same & near)
    return met.select("ts", "key", "n", "m")


pipeline = Pipeline("elastic", event_time=("ts", "1 second"), epoch="0.5s")
made = Generator(rows, "ts timestamp, key string, n bigint")
source = pipeline.source("rows", made, max_shards=4)
single = source.stateful("once", once, key="key", max_shards=2)
pipeline.sink(
    "counts", single.aggregate("count", count, key="key", max_shards=4), Parquet("counts")
)
other = source.map("odd", lambda frame: frame.where("n % 2 = 1"))
pairs = single.join("pair", other, paired, key="key", max_shards=2)
pipeline.sink("pairs", pairs, Parquet("pairs"))


def distinct(found):
    return {(row["ts"], row["key"], row["n"]) for row in found}


@pipeline.expected("counts", closes="ts")
def expected_counts(found):
    counts = Counter(
        (int(ts.timestamp() // WINDOW_S), key) for ts, key, _ in distinct(found["rows"])
    )
    last = timedelta(seconds=WINDOW_S, microseconds=-1)
    return [
        {"ts": datetime.fromtimestamp(window * WINDOW_S, UTC) + last, "key": key, "count": n}
        for (window, key), n in counts.items()
    ]


@pipeline.expected("pairs")
def expected_pairs(found):
    odd = Counter((row["ts"], row["key"], row["n"]) for row in found["rows"] if row["n"] % 2)
    return [
        {"ts": ts, "key": key, "n": n, "m": n}
        for (ts, key, n), times in odd.items()
        for _ in range(times)
    ]
