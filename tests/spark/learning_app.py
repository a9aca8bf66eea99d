"""A pipeline that gets more rows than its profile says, and takes for each what it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from holdfast.pipeline import Parquet, Pipeline, Rate

PROFILED = 50
"""Rows per second when it was profiled."""
ROWS_PER_SECOND = 800
BURN_S = 5e-4
"""CPU seconds that `burn` spends on a row."""


def _spin(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        end = time.process_time() + BURN_S * batch.num_rows
        while time.process_time() < end:
            pass
        yield batch


def burn(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(_spin, frame.schema)


pipeline = Pipeline("learning")
rows = pipeline.source("rows", Rate(ROWS_PER_SECOND))
pipeline.sink("out", rows.map(burn), Parquet("out"))
