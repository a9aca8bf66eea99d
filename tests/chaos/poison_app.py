"""Numbers from files, and a function that fails on what is no number: for poison records."""

import os

from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

from holdfast.pipeline import Files, Parquet, Pipeline


@sf.udf(LongType())
def to_number(text):
    return int(text)


def parse(frame):
    return frame.select(to_number("value").alias("n"))


def twice(frame):
    return frame.select((sf.col("n") * 2).alias("n"))


pipeline = Pipeline("poison", epoch="500ms")
# Relative: taken from the folder of this file, wherever the run is started.
lines = pipeline.source("lines", Files("in", format="text"))
numbers = lines.map("parse", parse, on_error=os.environ["POISON_ON_ERROR"])
pipeline.sink("out", numbers.map("twice", twice), Parquet("out"))


@pipeline.expected("out")
def expected(rows):
    return [{"n": 2 * int(row["value"])} for row in rows["lines"] if row["value"].isdigit()]
