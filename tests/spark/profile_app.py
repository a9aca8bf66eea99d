"""A pipeline whose every number is known: what a profile of it must find."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast.pipeline import Parquet, Pipeline, Rate

ROWS_PER_SECOND = 400
BURN_S = 100e-6
"""CPU seconds that `burn` spends on a tuple."""
COPIES = 3
"""Tuples that `copy` makes of one."""
KEPT = 0.25
"""Tuples that `thin` keeps of one."""
PAYLOAD = 512
"""Incompressible bytes in every tuple behind `copy`: so many that compressing the rest of a row,
as changelogs and tables do, makes no difference worth mentioning."""


def _spin(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        end = time.process_time() + BURN_S * batch.num_rows
        while time.process_time() < end:
            pass
        yield batch


def burn(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(_spin, frame.schema)


def copy(frame: DataFrame) -> DataFrame:
    """Copies with numbers of their own and a payload that no compression makes smaller."""
    numbers = sf.explode(sf.sequence(sf.lit(0), sf.lit(COPIES - 1)))
    frame = frame.select("ts", "key", "value", numbers.alias("number"))
    frame = frame.select("ts", "key", (sf.col("value") * COPIES + sf.col("number")).alias("id"))
    names = [sf.concat(sf.lit(f"{i}/"), sf.col("id").cast("string")) for i in range(PAYLOAD // 64)]
    digests = [sf.unhex(sf.sha2(name, 512)) for name in names]
    return frame.withColumn("payload", sf.concat(*digests))


def thin(frame: DataFrame) -> DataFrame:
    return frame.where(sf.col("id") % round(1 / KEPT) == 0)


def keep(frame: DataFrame) -> DataFrame:
    """Every tuple becomes a key of the state, for ever."""
    return frame.groupBy("id").agg(sf.max("payload").alias("payload"))


pipeline = Pipeline("known", event_time=("ts", "1 second"), epoch="1s")
source = pipeline.source("rate", Rate(rows_per_second=ROWS_PER_SECOND, keys=50))
thinned = source.map("burn", burn).map("copy", copy).map("thin", thin)
kept = thinned.aggregate("keep", keep, key="id", output="upsert")
pipeline.sink("out", kept, Parquet("out"))
