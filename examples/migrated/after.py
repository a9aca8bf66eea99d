"""The same job as a Holdfast pipeline: paid orders per city and ten seconds.

holdfast run after.py; input/ is filled by produce.py.
"""

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
    return totals.select(sf.col("window.start").alias("start"), "city", "orders", "amount")


pipeline = Pipeline("orders", event_time="ts", watermark="5 seconds", epoch="1s")
stores = pipeline.table("stores", Table("stores.csv", "store bigint, city string"))
orders = pipeline.source("orders", Files("input", schema=SCHEMA, files_per_epoch=1))
paid = orders.where("amount > 0", name="paid").join(stores, name_city)
pipeline.sink("totals", paid.aggregate(per_city, key="city"), Parquet("totals"))
