"""Points per customer, with transformWithState: the state is a number, the result its versions.

Every tenth purchase of a customer counts double, whichever batch it comes in; the sink holds the
newest version of each customer's row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from holdfast import Generator, Pipeline, Sqlite

START = datetime(2026, 1, 1, tzinfo=UTC)
PURCHASES_PER_EPOCH = 30
CUSTOMERS = 20
POINTS = 10


def purchases(epoch: int, seed: int) -> Iterator[tuple[datetime, str]]:
    """Who bought something, and when."""
    rng = np.random.default_rng((seed, epoch))
    start = START + timedelta(seconds=epoch)
    for _ in range(PURCHASES_PER_EPOCH):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        yield at, f"customer{int(CUSTOMERS * rng.random() ** 2):02}"


def points(number: int) -> int:
    """What a number of purchases is worth."""
    return POINTS * (number + number // 10)


class Loyalty(StatefulProcessor):
    """Counts a customer's purchases."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "number bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """The customer's new row."""
        before = self.seen.get()
        number = (before[0] if before else 0) + sum(len(part) for part in rows)
        self.seen.update((number,))
        yield pd.DataFrame(
            {"customer": [key[0]], "purchases": [number], "points": [points(number)]}
        )

    def close(self) -> None:
        """Nothing to let go of."""


def reward(frame: DataFrame) -> DataFrame:
    """A customer's purchases and points so far."""
    return frame.groupBy("customer").transformWithStateInPandas(
        Loyalty(), "customer string, purchases bigint, points bigint", "Update", "None"
    )


pipeline = Pipeline("loyalty", event_time=("ts", "1 second"), epoch="1s")
source = pipeline.source("purchases", Generator(purchases, "ts timestamp, customer string"))
rewards = source.stateful("reward", reward, key="customer", output="upsert")
pipeline.sink("rewards", rewards, Sqlite("out/rewards.db", "rewards"))


@pipeline.expected("rewards")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Count, then work out the points."""
    numbers: dict[str, int] = {}
    for row in rows["purchases"]:
        numbers[row["customer"]] = numbers.get(row["customer"], 0) + 1
    return [
        {"customer": customer, "purchases": number, "points": points(number)}
        for customer, number in numbers.items()
    ]
