"""Visits to a site: clicks of one user belong together until there is none for five seconds.

State of one's own, with applyInPandasWithState. Clicks come out of order, so the state holds open
sessions that may still grow together; one is given out once the watermark says that no click can
belong to it any more. That makes the result independent of how the input was cut into batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from holdfast import Generator, Parquet, Pipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS_PER_EPOCH = 12
USERS = 25
GAP_MS = 5000


def clicks(epoch: int, seed: int) -> Iterator[tuple[datetime, str]]:
    """Clicks up to a second and a half out of order."""
    rng = np.random.default_rng((seed, epoch))
    start = START + timedelta(seconds=epoch)
    for _ in range(CLICKS_PER_EPOCH):
        at = start + timedelta(milliseconds=1000 - int(rng.integers(0, 1500)))
        yield at, f"user{int(USERS * rng.random() ** 2):02}"


Session = tuple[int, int, int]
"""First and last click, milliseconds since 1970, and their number."""


def grow_together(sessions: Iterable[Session]) -> list[Session]:
    """Join the sessions that lie within a gap of each other."""
    joined: list[Session] = []
    for first, last, number in sorted(sessions):
        if joined and first <= joined[-1][1] + GAP_MS:
            start, end, count = joined[-1]
            joined[-1] = (start, max(end, last), count + number)
        else:
            joined.append((first, last, number))
    return joined


def follow(
    key: tuple[str], pages: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Add a user's new clicks to their open sessions and give out those that are over."""
    found = [tuple(session) for session in json.loads(state.get[0])] if state.exists else []
    for page in pages:
        at = page["ts"].astype("datetime64[ms]").astype("int64")
        found += [(int(ms), int(ms), 1) for ms in at]
    sessions = grow_together(found)
    watermark = state.getCurrentWatermarkMs()
    over = [session for session in sessions if session[1] + GAP_MS < watermark]
    left = sessions[len(over) :]
    if left:
        state.update((json.dumps(left),))
        state.setTimeoutTimestamp(max(left[0][1] + GAP_MS, watermark + 1))
    elif state.exists:
        state.remove()
    if not over:
        return
    yield pd.DataFrame(
        {
            "ts": pd.to_datetime([last + GAP_MS for _, last, _ in over], unit="ms", utc=True),
            "user": [key[0]] * len(over),
            "first": pd.to_datetime([first for first, _, _ in over], unit="ms", utc=True),
            "clicks": [number for _, _, number in over],
        }
    )


def sessions(frame: DataFrame) -> DataFrame:
    """One row per session, when it is over."""
    return frame.groupBy("user").applyInPandasWithState(
        follow,
        "ts timestamp, user string, first timestamp, clicks bigint",
        "open string",
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )


pipeline = Pipeline("sessions", event_time=("ts", "2 seconds"), epoch="1s")
found = pipeline.source("clicks", Generator(clicks, "ts timestamp, user string")).stateful(
    "sessions", sessions, key="user"
)
pipeline.sink("visits", found, Parquet("out/visits"))


@pipeline.expected("visits", closes="ts")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sort each user's clicks and cut where the gap is too long."""
    users: dict[str, list[datetime]] = {}
    for row in rows["clicks"]:
        users.setdefault(row["user"], []).append(row["ts"])
    gap = timedelta(milliseconds=GAP_MS)
    result = []
    for user, times in users.items():
        times.sort()
        start = 0
        for index in range(1, len(times) + 1):
            if index == len(times) or times[index] > times[index - 1] + gap:
                result.append(
                    {
                        "ts": times[index - 1] + gap,
                        "user": user,
                        "first": times[start],
                        "clicks": index - start,
                    }
                )
                start = index
    return result
