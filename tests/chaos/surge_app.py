"""A service is asked for every row, and three times as many rows come for a while."""

import time
from collections import Counter

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast import Generator, Parquet, Pipeline

EPOCH_S = 2.0
CALM, SURGE = 15, 55
"""Epochs: up to the first as many rows come as usual, up to the second three times as many."""
ROWS = 56
ANSWER_S = 0.01
"""How long the service takes for a row: 28% of the time as usual, 84% in the surge."""
KEYS = 64


def rows(epoch, seed):
    number = ROWS * (3 if CALM <= epoch < SURGE else 1)
    return [(f"k{(epoch * 7 + at) % KEYS}", epoch * 1000 + at) for at in range(number)]


def ask(frame):
    """Waiting takes no processor time, so shards add up on any machine."""

    def answers(tables):
        for table in tables:
            time.sleep(ANSWER_S * len(table))
            table["n"] = table["n"] + 1
            yield table

    return frame.mapInPandas(answers, frame.schema)


def count(frame):
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("n").alias("total"))


pipeline = Pipeline("surge", epoch=f"{EPOCH_S}s")
source = pipeline.source("rows", Generator(rows, "key string, n bigint"))
asked = source.map("ask", ask, key="key", max_shards=4)
counts = asked.aggregate("count", count, key="key", output="upsert")
pipeline.sink("out", counts, Parquet("out"))


@pipeline.expected("out")
def expected(found):
    number, total = Counter(), Counter()
    for row in found["rows"]:
        number[row["key"]] += 1
        total[row["key"]] += row["n"] + 1
    return [{"key": key, "rows": number[key], "total": total[key]} for key in number]
