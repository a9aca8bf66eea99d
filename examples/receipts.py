"""Takings per shop from tills that now and then print rubbish: such receipts are put aside.

`parse` raises on an amount that is no number. With on_error="quarantine" the row it fails on goes
to a dead-letter slice, by the same skip on every redo and replica, and all others count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

from holdfast import Generator, Pipeline, Sqlite

START = datetime(2026, 1, 1, tzinfo=UTC)
RECEIPTS_PER_EPOCH = 40
SHOPS = ["harbour", "market", "station"]
RUBBISH_EVERY = 60
"""Epochs; finding a bad row takes Spark seconds, so it must be rare."""
RUBBISH = "12.3O"


def receipts(epoch: int, seed: int) -> Iterator[tuple[datetime, str, str]]:
    """Amounts as text; in some epochs one of them is not."""
    rng = np.random.default_rng((seed, epoch))
    start = START + timedelta(seconds=epoch)
    bad = int(rng.integers(RECEIPTS_PER_EPOCH)) if epoch % RUBBISH_EVERY == 7 else -1
    for index in range(RECEIPTS_PER_EPOCH):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        cents = int(rng.integers(50, 20_000))
        amount = RUBBISH if index == bad else f"{cents // 100}.{cents % 100:02}"
        yield at, SHOPS[int(rng.integers(len(SHOPS)))], amount


@sf.udf(returnType=LongType(), useArrow=False)
def to_cents(amount: str) -> int:
    """Raises ValueError for anything but digits around a point."""
    whole, _, part = amount.partition(".")
    return 100 * int(whole) + int(part)


def parse(frame: DataFrame) -> DataFrame:
    """Amounts as numbers."""
    return frame.select("ts", "shop", to_cents("amount").alias("cents"))


def takings(frame: DataFrame) -> DataFrame:
    """What each shop has taken so far."""
    return frame.groupBy("shop").agg(
        sf.count("*").alias("receipts"), sf.sum("cents").alias("cents")
    )


pipeline = Pipeline("receipts", event_time=("ts", "1 second"), epoch="1s")
source = pipeline.source(
    "receipts", Generator(receipts, "ts timestamp, shop string, amount string")
)
parsed = source.map("parse", parse, on_error="quarantine")
totals = parsed.aggregate("takings", takings, key="shop", output="upsert")
pipeline.sink("totals", totals, Sqlite("out/takings.db", "takings"))


@pipeline.expected("totals")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sums of what looks like an amount, whatever was quarantined."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows["receipts"]:
        amount = re.fullmatch(r"(\d+)\.(\d\d)", row["amount"])
        if amount is None:
            continue
        total = found.setdefault(row["shop"], {"shop": row["shop"], "receipts": 0, "cents": 0})
        total["receipts"] += 1
        total["cents"] += int(amount[1] + amount[2])
    return list(found.values())
