"""Holdfast: the pipeline that `holdfast run` is given, with one warm spare."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Files, Parquet, Pipeline


def split(frame: DataFrame) -> DataFrame:
    parts = sf.split("value", " ")
    words = sf.explode(sf.slice(parts, 2, 100)).alias("word")
    return frame.select(parts[0].alias("second"), words)


def count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("second", "word").count()


pipeline = Pipeline("peer", epoch="1s")
lines = pipeline.source("lines", Files(os.environ.get("INPUT", "input"), format="text"))
counts = lines.map("split", split).aggregate(
    "count", count, key=["second", "word"], output="upsert"
)
pipeline.sink("counts", counts, Parquet(os.environ.get("OUTPUT", "out/counts")))
