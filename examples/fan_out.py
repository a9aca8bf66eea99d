"""One stream, several uses: orders of two shops feed running totals and a list of large orders.

`priced` has two readers, so it ends a segment: it is computed once and logged, and each reader
goes at its own pace. The totals are upserts: each new version of a product's row replaces the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Parquet, Pipeline, Sqlite

START = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = {"buoy": 4200, "chart": 1900, "compass": 8900, "lamp": 2500, "rope": 700}
LARGE_CENTS = 30_000
SCHEMA = "ts timestamp, number bigint, product string, items int"


def orders(epoch: int, seed: int, *, shop: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Orders of one shop, numbered without gaps; the second shop rests every third epoch."""
    rng = np.random.default_rng((seed, epoch, shop))
    start = START + timedelta(seconds=epoch)
    for index in range(0 if shop == 2 and epoch % 3 == 0 else count):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        product = list(PRICES)[int(rng.integers(len(PRICES)))]
        yield at, 2 * (epoch * count + index) + shop % 2, product, int(rng.integers(1, 10))


def price(frame: DataFrame) -> DataFrame:
    """What each order costs, in cents."""
    cents = sf.create_map(*[sf.lit(item) for pair in PRICES.items() for item in pair])
    return frame.withColumn("cents", cents[sf.col("product")] * sf.col("items"))


def totals(frame: DataFrame) -> DataFrame:
    """Orders, items and revenue of each product so far."""
    return frame.groupBy("product").agg(
        sf.count("*").alias("orders"),
        sf.sum("items").alias("items"),
        sf.sum("cents").alias("cents"),
    )


def large(frame: DataFrame) -> DataFrame:
    """Orders somebody should look at."""
    return frame.where(sf.col("cents") >= LARGE_CENTS)


pipeline = Pipeline("fan-out", event_time=("ts", "1 second"), epoch="1s")
first = pipeline.source("harbour", Generator(partial(orders, shop=1, count=20), SCHEMA))
second = pipeline.source("market", Generator(partial(orders, shop=2, count=15), SCHEMA))
priced = first.union("orders", second).map("priced", price)
pipeline.sink(
    "totals",
    priced.aggregate("total", totals, key="product", output="upsert"),
    Sqlite("out/totals.db", "totals"),
)
pipeline.sink("large", priced.map("watch", large), Parquet("out/large"))


def _priced(rows: Mapping[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for row in (*rows["harbour"], *rows["market"]):
        yield {**row, "cents": PRICES[row["product"]] * row["items"]}


@pipeline.expected("totals")
def expected_totals(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sums in a dictionary."""
    found: dict[str, dict[str, Any]] = {}
    for row in _priced(rows):
        total = found.setdefault(
            row["product"], {"product": row["product"], "orders": 0, "items": 0, "cents": 0}
        )
        total["orders"] += 1
        total["items"] += row["items"]
        total["cents"] += row["cents"]
    return list(found.values())


@pipeline.expected("large")
def expected_large(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The large ones, as they are."""
    return [row for row in _priced(rows) if row["cents"] >= LARGE_CENTS]
