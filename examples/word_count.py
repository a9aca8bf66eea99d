"""Words per window: split lines, drop stop words, count each word every five seconds.

Lines arrive up to two seconds out of order, and one in two hundred so late that it no longer
counts. A window's counts are given out once the watermark has passed its end, and never change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Parquet, Pipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
LINES_PER_EPOCH = 50
WINDOW_S = 5
STOP_WORDS = ["a", "and", "of", "the", "to"]
WORDS = [*STOP_WORDS, "anchor", "current", "drift", "ebb", "kelp", "reef", "rock", "swell", "tide"]


def lines(epoch: int, seed: int) -> Iterator[tuple[datetime, str]]:
    """Lines of one to six words; what is common is very common."""
    rng = np.random.default_rng((seed, epoch))
    start = START + timedelta(seconds=epoch)
    for _ in range(LINES_PER_EPOCH):
        words = [WORDS[int(i) % len(WORDS)] for i in rng.zipf(1.5, size=rng.integers(1, 7))]
        late_ms = 60_000 if rng.random() < 0.005 else int(rng.integers(0, 2000))
        yield start + timedelta(milliseconds=1000 - late_ms), " ".join(words)


def split(frame: DataFrame) -> DataFrame:
    """One row per word."""
    return frame.select("ts", sf.explode(sf.split("line", " ")).alias("word"))


def drop_stop_words(frame: DataFrame) -> DataFrame:
    """What is left says something."""
    return frame.where(~sf.col("word").isin(STOP_WORDS))


def count(frame: DataFrame) -> DataFrame:
    """How often each word came up in each window."""
    counts = frame.groupBy(sf.window("ts", f"{WINDOW_S} seconds"), "word").count()
    return counts.select(sf.window_time("window").alias("ts"), "word", "count")


pipeline = Pipeline("word-count", event_time=("ts", "2 seconds"), epoch="1s")
words = pipeline.source("lines", Generator(lines, "ts timestamp, line string")).map("split", split)
counts = words.map("filter", drop_stop_words).aggregate("count", count, key="word")
pipeline.sink("counts", counts, Parquet("out/counts"))


@pipeline.expected("counts", closes="ts")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The same counts in plain Python."""
    found: Counter[tuple[int, str]] = Counter()
    for row in rows["lines"]:
        window = int(row["ts"].timestamp() // WINDOW_S)
        found.update((window, word) for word in row["line"].split(" ") if word not in STOP_WORDS)
    last = timedelta(seconds=WINDOW_S, microseconds=-1)
    return [
        {"ts": datetime.fromtimestamp(window * WINDOW_S, UTC) + last, "word": word, "count": n}
        for (window, word), n in found.items()
    ]
