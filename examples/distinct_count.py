"""How many different users came by in each window: exact, and shardable.

Users are first brought down to one row each per window, by user, so that this part can be sharded;
then the rows of a window are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Pipeline, Sqlite

START = datetime(2026, 1, 1, tzinfo=UTC)
VISITS_PER_EPOCH = 40
USERS = 60
WINDOW_S = 4


def visits(epoch: int, seed: int) -> Iterator[tuple[datetime, str, int]]:
    """Users and the seconds they stayed."""
    rng = np.random.default_rng((seed, epoch))
    start = START + timedelta(seconds=epoch)
    for _ in range(VISITS_PER_EPOCH):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        yield at, f"user{int(rng.integers(USERS))}", int(rng.integers(1, 100))


def window_of(column: str) -> Any:
    """The window a row falls into."""
    return sf.window(column, f"{WINDOW_S} seconds")


def per_user(frame: DataFrame) -> DataFrame:
    """One row per user and window."""
    once = frame.groupBy(window_of("ts"), "user").agg(sf.sum("seconds").alias("seconds"))
    return once.select(sf.window_time("window").alias("ts"), "user", "seconds")


def distinct(frame: DataFrame) -> DataFrame:
    """One row per window."""
    totals = frame.groupBy(window_of("ts")).agg(
        sf.count("*").alias("users"), sf.sum("seconds").alias("seconds")
    )
    return totals.select(sf.window_time("window").alias("ts"), "users", "seconds")


pipeline = Pipeline("distinct-count", event_time=("ts", "1 second"), epoch="1s")
source = pipeline.source("visits", Generator(visits, "ts timestamp, user string, seconds bigint"))
result = source.aggregate("per_user", per_user, key="user").aggregate("distinct", distinct)
pipeline.sink("users", result, Sqlite("out/users.db", "users"))


@pipeline.expected("users", closes="ts")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A set of users and a sum per window."""
    users: dict[int, set[str]] = {}
    seconds: dict[int, int] = {}
    for row in rows["visits"]:
        window = int(row["ts"].timestamp() // WINDOW_S)
        users.setdefault(window, set()).add(row["user"])
        seconds[window] = seconds.get(window, 0) + row["seconds"]
    last = timedelta(seconds=WINDOW_S, microseconds=-1)
    return [
        {
            "ts": datetime.fromtimestamp(window * WINDOW_S, UTC) + last,
            "users": len(users[window]),
            "seconds": seconds[window],
        }
        for window in users
    ]
