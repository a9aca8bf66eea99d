"""A small pipeline that keeps state: what is killed to see how long this machine takes to recover.

Epochs are shorter than a restore, so that a restored unit finds work waiting.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast.pipeline import Parquet, Pipeline, Rate

COUNT = "count"


def count(frame: DataFrame) -> DataFrame:
    """Rows per key and window."""
    counts = frame.groupBy(sf.window("ts", "5 seconds"), "key").count()
    return counts.select(sf.window_time("window").alias("ts"), "key", "count")


pipeline = Pipeline("recovery-reference", event_time=("ts", "1 second"), epoch="0.25s")
rows = pipeline.source("rows", Rate(rows_per_second=400, keys=100))
pipeline.sink("counts", rows.aggregate(COUNT, count, key="key"), Parquet("counts"))
