"""Some sources united: their rows in files, a total per key in a table, and calls of a function."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Mapping
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


def middle(epoch: int, seed: int) -> list[tuple[dt.datetime, str, int]]:
    return _rows(epoch, "m")


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


def expected_rows(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All of them, doubled."""
    return [{**row, "value": 2 * row["value"]} for side in rows.values() for row in side]


def expected_totals(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sums and counts by key."""
    found: dict[str, dict[str, Any]] = {}
    for row in expected_rows(rows):
        item = found.setdefault(row["key"], {"key": row["key"], "total": 0, "rows": 0})
        item["total"] += row["value"]
        item["rows"] += 1
    return list(found.values())


def make(*sources: Callable[[int, int], list[tuple[dt.datetime, str, int]]]) -> Pipeline:
    """The pipeline over some sources."""
    made = Pipeline("tentative", event_time=("ts", "1 second"), epoch="0.5s")
    first, *others = [made.source(source.__name__, Generator(source, SCHEMA)) for source in sources]
    both = first.union("both", *others).map("double", double)
    total = both.aggregate("total", add, key="key", output="upsert")
    made.sink("rows", both, Parquet("out/rows"))
    made.sink("totals", total, Sqlite("out/totals.db", "totals"))
    made.sink("calls", both, ForeachBatch(call))
    made.expected("rows")(expected_rows)
    made.expected("totals")(expected_totals)
    return made


pipeline = make(left, right)
three = make(left, middle, right)
