"""Words per ten seconds: JSON files that appear in input/ are split into words and counted."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Files, Parquet, Pipeline


def split(lines: DataFrame) -> DataFrame:
    """One row per word."""
    return lines.select("ts", sf.explode(sf.split("line", " ")).alias("word"))


def count(words: DataFrame) -> DataFrame:
    """How often each word came up in each window."""
    counts = words.groupBy(sf.window("ts", "10 seconds"), "word").count()
    return counts.select(sf.window_time("window").alias("ts"), "word", "count")


pipeline = Pipeline("word-counts", event_time="ts", watermark="5 seconds")
lines = pipeline.source("lines", Files("input", schema="ts timestamp, line string"))
counts = lines.map(split).where("word <> ''", name="no-blanks").aggregate(count, key="word")
pipeline.sink("counts", counts, Parquet("counts"))
