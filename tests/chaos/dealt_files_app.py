"""Files are counted by key; the source and the count may be rescaled."""

from collections import Counter

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast import Files, Parquet, Pipeline


def count(frame):
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("n").alias("total"))


pipeline = Pipeline("dealt-files", epoch="0.5s")
files = Files("in", schema="key string, n bigint", files_per_epoch=2)
rows = pipeline.source("rows", files, max_shards=4)
counts = rows.aggregate("count", count, key="key", output="upsert", max_shards=4)
pipeline.sink("counts", counts, Parquet("counts"))


@pipeline.expected("counts")
def expected(found):
    number, total = Counter(), Counter()
    for row in found["rows"]:
        number[row["key"]] += 1
        total[row["key"]] += row["n"]
    return [{"key": key, "rows": number[key], "total": total[key]} for key in number]
