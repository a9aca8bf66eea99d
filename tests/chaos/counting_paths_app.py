"""Words per window on either of two paths that share their state, summed behind them.

With STANDBY=hot in the environment both run along instead, each with its own state.
"""

import datetime as dt
import os
from collections import Counter

from pyspark.sql import functions as sf

from holdfast import Generator, Parquet, Pipeline

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WORDS = ("ebb", "kelp", "reef", "rock", "tide")
ROWS = 12
WINDOW_S = 4
LAST = dt.timedelta(seconds=WINDOW_S, microseconds=-1)


def words(epoch, seed):
    """A second of event time an epoch; word i comes i + 1 times as often as the first."""
    for i in range(ROWS):
        place = (epoch * ROWS + i) * 7 % 15
        at = START + dt.timedelta(seconds=epoch, milliseconds=i * 1000 // ROWS)
        yield at, WORDS[next(k for k in range(5) if place < (k + 1) * (k + 2) // 2)]


def plain(frame):
    return frame.withColumn("word", sf.upper("word"))


def count(frame):
    counts = frame.groupBy(sf.window("ts", f"{WINDOW_S} seconds"), "word").count()
    return counts.select(sf.window_time("window").alias("ts"), "word", "count")


def total(frame):
    sums = frame.groupBy(sf.window("ts", f"{WINDOW_S} seconds")).agg(sf.sum("count").alias("rows"))
    return sums.select(sf.window_time("window").alias("ts"), "rows")


HOT = os.environ.get("STANDBY") == "hot"
# Hot paths, and what feeds them, end a batch with every epoch.
EPOCH = "1s" if HOT else "0.3s"

pipeline = Pipeline("counting-paths", event_time=("ts", "1 second"), epoch=EPOCH)
source = pipeline.source("words", Generator(words, "ts timestamp, word string"))
counts = source.paths(
    "counts",
    standby="hot" if HOT else "cold",
    state="fresh" if HOT else "shared",
    first=lambda s: s.map("upper", plain).aggregate("count", count),
    second=lambda s: (
        s.map("keep", lambda frame: frame.where("word IS NOT NULL"))
        .map("upper", plain)
        .aggregate("count", count)
    ),
)
pipeline.sink("per-word", counts, Parquet("out/per-word"))
pipeline.sink("per-window", counts.aggregate("total", total), Parquet("out/per-window"))


def windows(rows):
    found = Counter()
    for row in rows["words"]:
        found[int(row["ts"].timestamp() // WINDOW_S), row["word"].upper()] += 1
    return found


def last(window):
    return dt.datetime.fromtimestamp(window * WINDOW_S, dt.UTC) + LAST


@pipeline.expected("per-word", closes="ts")
def per_word(rows):
    """Counted by hand."""
    return [
        {"ts": last(window), "word": word, "count": n}
        for (window, word), n in windows(rows).items()
    ]


@pipeline.expected("per-window", closes="ts")
def per_window(rows):
    """All words of a window."""
    found = Counter()
    for (window, _), n in windows(rows).items():
        found[window] += n
    return [{"ts": last(window), "rows": n} for window, n in found.items()]
