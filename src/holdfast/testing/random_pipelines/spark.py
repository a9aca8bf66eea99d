"""What the operators of generated pipelines do on Spark; `steps` has the same in plain Python.

All streams have the columns `ts timestamp, key string, n bigint`, so any operator can follow any
other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import LongType

from holdfast.testing.random_pipelines.steps import MODULUS, SCHEMA, digit_sum

UDF_DIGITS = sf.udf(digit_sum, LongType(), useArrow=False)


def scale(frame: DataFrame, *, factor: int, offset: int) -> DataFrame:
    """Another number."""
    return frame.withColumn("n", sf.pmod(sf.col("n") * factor + offset, sf.lit(MODULUS)))


def keep(frame: DataFrame, *, modulus: int) -> DataFrame:
    """Fewer rows."""
    return frame.where(sf.col("n") % modulus != 0)


def rekey(frame: DataFrame, *, buckets: int) -> DataFrame:
    """Another key, so that what follows is an exchange."""
    bucket = sf.pmod(sf.col("n"), sf.lit(buckets)).cast("string")
    return frame.withColumn("key", sf.concat(sf.lit("b"), bucket))


def copies(frame: DataFrame, *, number: int, same: bool) -> DataFrame:
    """More rows: numbered, or all the same."""
    spread = frame.withColumn("copy", sf.explode(sf.array(*map(sf.lit, range(number)))))
    told = spread if same else spread.withColumn("n", sf.col("n") + sf.col("copy"))
    return told.drop("copy")


def digits(frame: DataFrame) -> DataFrame:
    """A function in Python, row by row."""
    return frame.withColumn("n", UDF_DIGITS("n"))


def window(frame: DataFrame, *, width_s: int, slide_s: int) -> DataFrame:
    """One row per key and window, when it has closed."""
    spans = sf.window("ts", f"{width_s} seconds", f"{slide_s} seconds")
    sums = frame.groupBy(spans, "key").agg(_summed().alias("n"))
    return sums.select(sf.window_time("window").alias("ts"), "key", "n")


def session(frame: DataFrame, *, gap_s: int) -> DataFrame:
    """One row per key and session, by Spark's own session windows."""
    spans = sf.session_window("ts", f"{gap_s} seconds")
    sums = frame.groupBy(spans, "key").agg(_summed().alias("n"))
    last = sf.expr("session_window.end - INTERVAL 1 MICROSECOND")
    return sums.select(last.alias("ts"), "key", "n")


def distinct(frame: DataFrame) -> DataFrame:
    """Every row once."""
    return frame.dropDuplicates(["ts", "key", "n"])


def running(frame: DataFrame) -> DataFrame:
    """The newest version of each key's sum."""
    return frame.groupBy("key").agg(_summed().alias("n"), sf.max("ts").alias("ts"))


def join(left: DataFrame, right: DataFrame, *, reach_s: int) -> DataFrame:
    """Every row with those of the other stream that came up to `reach_s` before it."""
    others = right.select(
        sf.col("ts").alias("since"), sf.col("key").alias("other"), sf.col("n").alias("m")
    )
    soon = sf.expr(f"ts >= since AND ts <= since + INTERVAL {reach_s} SECONDS")
    both = left.join(others, (sf.col("key") == sf.col("other")) & soon)
    return both.select(
        "ts", "key", sf.pmod(sf.col("n") * 3 + sf.col("m"), sf.lit(MODULUS)).alias("n")
    )


def own_sessions(frame: DataFrame, *, gap_s: int) -> DataFrame:
    """Sessions once more, with custom state."""

    def follow(
        key: tuple[str], pages: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        return _follow(key, pages, state, gap_ms=1000 * gap_s)

    return frame.groupBy("key").applyInPandasWithState(
        follow, SCHEMA, "open string", "append", GroupStateTimeout.EventTimeTimeout
    )


def _summed() -> Column:
    return sf.pmod(sf.sum("n") + 7 * sf.count("*"), sf.lit(MODULUS))


def _follow(
    key: tuple[str], pages: Iterator[pd.DataFrame], state: GroupState, *, gap_ms: int
) -> Iterator[pd.DataFrame]:
    """Open sessions as [first, last, sum, rows]; what the watermark has left is given out."""
    found: list[list[int]] = json.loads(state.get[0]) if state.exists else []
    for page in pages:
        times = page["ts"].astype("datetime64[ms]").astype("int64")
        found += [[int(ms), int(ms), int(n), 1] for ms, n in zip(times, page["n"], strict=True)]
    sessions = _grown(found, gap_ms)
    watermark = state.getCurrentWatermarkMs()
    over = [item for item in sessions if item[1] + gap_ms < watermark]
    left = sessions[len(over) :]
    if left:
        state.update((json.dumps(left),))
        state.setTimeoutTimestamp(max(left[0][1] + gap_ms, watermark + 1))
    elif state.exists:
        state.remove()
    if over:
        yield _closed(key[0], over, gap_ms)


def _closed(key: str, over: list[list[int]], gap_ms: int) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "ts": pd.to_datetime([item[1] + gap_ms for item in over], unit="ms", utc=True),
        "key": [key] * len(over),
        "n": [(item[2] + 7 * item[3]) % MODULUS for item in over],
    }
    return pd.DataFrame(columns)


def _grown(sessions: Iterable[list[int]], gap_ms: int) -> list[list[int]]:
    """Sessions within a gap of each other, joined."""
    joined: list[list[int]] = []
    for first, last, total, rows in sorted(sessions):
        if joined and first <= joined[-1][1] + gap_ms:
            before = joined[-1]
            joined[-1] = [before[0], max(before[1], last), before[2] + total, before[3] + rows]
        else:
            joined.append([first, last, total, rows])
    return joined
