"""A pipeline with late rows, a stateless and a stateful unit, and the same in plain Python."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.pipeline import Generator, Parquet, Pipeline

EPOCH_S = 0.4
DELAY_S = 2
WINDOW_S = 4
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def events(epoch: int, seed: int) -> list[tuple[dt.datetime, str, int]]:
    """Ten rows an epoch, a second of event time each; every third epoch holds a late one."""
    rows = []
    for index in range(10):
        second = epoch + index / 10
        if index == 7 and epoch % 3 == 0:
            second -= 9
        key = f"k{(epoch * 7 + index * 3 + seed) % 5}"
        rows.append((START + dt.timedelta(seconds=second), key, epoch * 10 + index))
    return rows


def double(frame: DataFrame) -> DataFrame:
    return frame.withColumn("value", F.col("value") * 2)


def count(frame: DataFrame) -> DataFrame:
    return (
        frame.groupBy(F.window("ts", f"{WINDOW_S} seconds"), "key")
        .agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
        .select(F.col("window.start").alias("start"), "key", "rows", "total")
    )


pipeline = Pipeline("crash", event_time=("ts", f"{DELAY_S} seconds"), epoch=f"{EPOCH_S}s")
_source = pipeline.source(
    "events", Generator(function=events, schema="ts timestamp, key string, value bigint")
)
_doubled = _source.map("double", double)
_counts = _doubled.aggregate("count", count, key="key")
pipeline.sink("rows", _doubled, Parquet("rows"))
pipeline.sink("windows", _counts, Parquet("windows"))


def expected(last_epoch: int) -> tuple[list[int], int, dict[tuple[dt.datetime, str], list[int]]]:
    """Doubled values in time, number of late rows, and all windows of epochs 0..last_epoch."""
    watermark = None
    values, late = [], 0
    windows: dict[tuple[dt.datetime, str], list[int]] = defaultdict(lambda: [0, 0])
    for epoch in range(last_epoch + 1):
        rows = events(epoch, 0)
        for ts, key, value in rows:
            if watermark is not None and ts < watermark:
                late += 1
                continue
            values.append(value * 2)
            second = int((ts - START).total_seconds() // WINDOW_S) * WINDOW_S
            window = windows[START + dt.timedelta(seconds=second), key]
            window[0] += 1
            window[1] += value * 2
        newest = max(ts for ts, _, _ in rows) - dt.timedelta(seconds=DELAY_S)
        watermark = newest if watermark is None else max(watermark, newest)
    return values, late, dict(windows)
