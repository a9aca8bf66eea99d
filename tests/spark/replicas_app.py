"""State that replicas must agree on: rows seen before, and sums that a timer tells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.state_kinds import WINDOW_MS, timers

from holdfast.pipeline import Generator, Parquet, Pipeline

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
REPEATS = 4
"""Epochs in which a row is there."""


def feed(epoch: int, seed: int) -> list[tuple[dt.datetime, str, int]]:
    """Rows of this epoch, and once more those of some before it."""
    return [
        (
            START + dt.timedelta(milliseconds=500 * first),
            f"k{(first + index) % 7}",
            5 * first + index,
        )
        for first in range(max(0, epoch - REPEATS + 1), epoch + 1)
        for index in range(5)
    ]


def once(frame: DataFrame) -> DataFrame:
    return frame.dropDuplicates(["ts", "word", "n"])


def when(frame: DataFrame) -> DataFrame:
    return frame.withColumn("at", F.timestamp_millis("due"))


def expected_once(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each row once."""
    return list({row["n"]: row for row in rows["feed"]}.values())


def expected_sums(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sums by word and window."""
    sums: dict[tuple[str, int], int] = {}
    for row in rows["feed"]:
        due = (int(row["ts"].timestamp() * 1000) // WINDOW_MS + 1) * WINDOW_MS
        sums[row["word"], due] = sums.get((row["word"], due), 0) + row["n"]
    return [
        {"word": word, "due": due, "n": n, "at": dt.datetime.fromtimestamp(due / 1000, dt.UTC)}
        for (word, due), n in sums.items()
    ]


pipeline = Pipeline("replicas", event_time=("ts", "4 seconds"), epoch="0.5s")
rows = pipeline.source("feed", Generator(feed, "ts timestamp, word string, n bigint"))
pipeline.sink("rows", rows.stateful("once", once, key="word"), Parquet("out/rows"))
told = rows.stateful("timers", timers, key="word").map("when", when)
pipeline.sink("sums", told, Parquet("out/sums"))
pipeline.expected("rows")(expected_once)
pipeline.expected("sums", closes="at")(expected_sums)
