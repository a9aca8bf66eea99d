"""Three lanes, each a source and a query with state, and totals of all: what a rack may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Pipeline, Sqlite

START = datetime(2026, 1, 1, tzinfo=UTC)
LANES = ("left", "middle", "right")
ROWS, KEYS = 200, 20
"""Of a lane, in an epoch."""
Reading: TypeAlias = tuple[datetime, str, int, int]


def lane(name: str) -> Callable[[int, int], Iterator[Reading]]:
    """Readings of a lane; one in ten is told twice."""

    def readings(epoch: int, seed: int) -> Iterator[Reading]:
        at = START + timedelta(seconds=epoch)
        for number in range(ROWS):
            told = at, f"{name}-{number % KEYS}", epoch * ROWS + number, (number * 7 + seed) % 100
            yield told
            if number % 10 == 0:
                yield told

    return readings


def once(frame: DataFrame) -> DataFrame:
    """Each reading once."""
    return frame.dropDuplicates(["ts", "key", "number", "value"])


def add(frame: DataFrame) -> DataFrame:
    """Totals so far."""
    return frame.groupBy("key").agg(sf.sum("value").alias("total"), sf.count("*").alias("rows"))


pipeline = Pipeline("lanes", event_time=("ts", "5 seconds"), epoch="0.5s")
first, *others = [
    pipeline.source(
        name, Generator(lane(name), "ts timestamp, key string, number bigint, value bigint")
    ).stateful(f"{name}-once", once, key="key")
    for name in LANES
]
totals = first.union("all", *others).aggregate("total", add, key="key", output="upsert")
pipeline.sink("totals", totals, Sqlite("out/totals.db", "totals"))


@pipeline.expected("totals")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sums and counts by key."""
    found: dict[str, dict[str, Any]] = {}
    seen = {(row["key"], row["number"]): row for told in rows.values() for row in told}
    for row in seen.values():
        item = found.setdefault(row["key"], {"key": row["key"], "total": 0, "rows": 0})
        item["total"] += row["value"]
        item["rows"] += 1
    return list(found.values())
