"""A pipeline whose map draws lots, read under two keys: each drawing must be the same for both."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.pipeline import Generator, Pipeline, Sqlite

EPOCH_S = 0.4


def tickets(epoch: int, seed: int) -> list[tuple[str, int]]:
    """Ten rows an epoch."""
    return [(f"k{(index + seed) % 3}", epoch * 10 + index) for index in range(10)]


def draw(frame: DataFrame) -> DataFrame:
    drawn = frame.withColumn("prize", (F.rand() * 1_000_000).cast("bigint"))
    return drawn.withColumn("bucket", F.concat(F.lit("b"), (F.col("prize") % 3).cast("string")))


def by_key(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("prize").alias("total"))


def by_bucket(frame: DataFrame) -> DataFrame:
    return frame.groupBy("bucket").agg(F.count("*").alias("rows"), F.sum("prize").alias("total"))


pipeline = Pipeline("chance", epoch=f"{EPOCH_S}s")
_tickets = pipeline.source("tickets", Generator(tickets, "key string, number bigint"))
_drawn = _tickets.map("draw", draw, deterministic=False)
_keys = _drawn.aggregate("keys", by_key, key="key", output="upsert")
_buckets = _drawn.aggregate("buckets", by_bucket, key="bucket", output="upsert")
pipeline.sink("by-key", _keys, Sqlite("out.db", "keys"))
pipeline.sink("by-bucket", _buckets, Sqlite("out.db", "buckets"))
