"""Two sources united: their rows in files, a total per key in a table, and calls of a function."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.pipeline import ForeachBatch, Generator, Parquet, Pipeline, Sqlite

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, key string, value bigint"


def _rows(epoch: int, side: str) -> list[tuple[dt.datetime, str, int]]:
    at = START + dt.timedelta(seconds=epoch)
    return [(at, f"{side}{index % 3}", epoch * 10 + index) for index in range(6)]


def left(epoch: int, seed: int) -> list[tuple[dt.datetime, str, int]]:
    return _rows(epoch, "l")


def right(epoch: int, seed: int) -> list[tuple[dt.datetime, str, int]]:
    return _rows(epoch, "r")


def double(frame: DataFrame) -> DataFrame:
    return frame.withColumn("value", F.col("value") * 2)


def add(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(F.sum("value").alias("total"), F.count("*").alias("rows"))


def call(
    frame: DataFrame,
    delivery: str,
    tentative: Mapping[str, Any] | None = None,
    supersedes: tuple[str, ...] = (),
) -> None:
    """Note what it was called with."""
    line = {
        "id": delivery,
        "rows": frame.count(),
        "tentative": dict(tentative) if tentative is not None else None,
        "supersedes": list(supersedes),
    }
    path = Path(os.environ.get("HOLDFAST_TEST_CALLS", os.devnull))
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


pipeline = Pipeline("tentative", event_time=("ts", "1 second"), epoch="0.5s")
_left = pipeline.source("left", Generator(left, SCHEMA))
_right = pipeline.source("right", Generator(right, SCHEMA))
_both = _left.union("both", _right).map("double", double)
_total = _both.aggregate("total", add, key="key", output="upsert")
pipeline.sink("rows", _both, Parquet("out/rows"))
pipeline.sink("totals", _total, Sqlite("out/totals.db", "totals"))
pipeline.sink("calls", _both, ForeachBatch(call))


@pipeline.expected("rows")
def expected_rows(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All of both, doubled."""
    return [{**row, "value": 2 * row["value"]} for side in rows.values() for row in side]


@pipeline.expected("totals")
def expected_totals(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sums and counts by key."""
    found: dict[str, dict[str, Any]] = {}
    for row in expected_rows(rows):
        item = found.setdefault(row["key"], {"key": row["key"], "total": 0, "rows": 0})
        item["total"] += row["value"]
        item["rows"] += 1
    return list(found.values())
