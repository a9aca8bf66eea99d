"""The same job as a Holdfast pipeline: paid orders per city and ten seconds.

holdfast run after.py; input/ is filled by produce.py.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Files, Parquet, Pipeline, Table

SCHEMA = "ts timestamp, store bigint, amount bigint"


def name_city(orders: DataFrame, stores: DataFrame) -> DataFrame:
    """Which city an order comes from."""
    return orders.join(sf.broadcast(stores), "store")


def per_city(orders: DataFrame) -> DataFrame:
    """Orders and their sum per city and window."""
    totals = orders.groupBy(sf.window("ts", "10 seconds"), "city").agg(
        sf.count("*").alias("orders"), sf.sum("amount").alias("amount")
    )
    return totals.select(sf.window_time("window").alias("ts"), "city", "orders", "amount")


pipeline = Pipeline("orders", event_time="ts", watermark="5 seconds", epoch="1s")
stores = pipeline.table("stores", Table("stores.csv", "store bigint, city string"))
orders = pipeline.source("orders", Files("input", schema=SCHEMA, files_per_epoch=1))
paid = orders.where("amount > 0", name="paid").join(stores, name_city)
pipeline.sink("totals", paid.aggregate(per_city, key="city"), Parquet("totals"))


@pipeline.expected("totals", closes="ts")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The same in plain Python, for `holdfast verify` and `holdfast chaos`."""
    with Path(__file__).with_name("stores.csv").open() as file:
        city = {int(store): name for store, name in csv.reader(file)}
    amounts = defaultdict(list)
    for row in rows["orders"]:
        if row["amount"] > 0:
            amounts[int(row["ts"].timestamp() // 10), city[row["store"]]].append(row["amount"])
    last = timedelta(seconds=10, microseconds=-1)
    return [
        {
            "ts": datetime.fromtimestamp(window * 10, UTC) + last,
            "city": name,
            "orders": len(found),
            "amount": sum(found),
        }
        for (window, name), found in amounts.items()
    ]
