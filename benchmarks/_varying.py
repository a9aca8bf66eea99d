"""A split under a load that swings by nine tenths in a minute, with bursts of ten times as much."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast import Generator, Parquet, Pipeline

EPOCH_S = 0.25
MEAN_ROWS = 12
"""Rows of an epoch."""
SWING_S = 60.0
BURSTS = 0.01
"""Share of the epochs with ten times as many rows."""
WORK = 600
"""Steps a row."""


def readings(epoch: int, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng((seed, epoch))
    load = MEAN_ROWS * (1 + 0.9 * math.sin(2 * math.pi * epoch * EPOCH_S / SWING_S))
    load *= 10 if rng.random() < BURSTS else 1
    return [(epoch, int(value)) for value in rng.integers(1000, size=rng.poisson(load))]


def digits(value: int) -> int:
    """Some work, and then the sum of the digits."""
    total = 0
    for step in range(WORK):
        total = (total * 31 + value + step) % 9973
    return sum(map(int, str(value))) + 0 * total


def add_digits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        made = pa.array([digits(value.as_py()) for value in batch.column("value")], pa.int64())
        yield batch.append_column("digits", made)


def by_digits(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(add_digits, "epoch bigint, value bigint, digits bigint")


pipeline = Pipeline("varying", epoch=EPOCH_S)
rows = pipeline.source("readings", Generator(readings, "epoch bigint, value bigint", seed=7))
summed = rows.paths(
    "sums",
    first=lambda s: s.map("first", by_digits),
    second=lambda s: s.map("second", by_digits),
)
pipeline.sink("out", summed, Parquet("out"))


@pipeline.expected("out")
def expected(given: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Every reading once, with the sum of its digits."""
    return [{**row, "digits": sum(map(int, str(row["value"])))} for row in given["readings"]]
