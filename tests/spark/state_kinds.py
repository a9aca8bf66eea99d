"""Kinds of state, also unusual ones: timers, maps, lifetimes, sessions, outer joins."""

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

NUMBER = StructType([StructField("n", LongType())])
WINDOW_MS = 10_000


class Timed(StatefulProcessor):
    """A map of sums by window per key, each told by a timer: the same whatever the batches are."""

    def init(self, handle):
        self.handle = handle
        self.sums = handle.getMapState("sums", NUMBER, NUMBER)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802 - Spark's names
        for part in rows:
            for ts, n in zip(part["ts"], part["n"], strict=True):
                due = (int(ts.timestamp() * 1000) // WINDOW_MS + 1) * WINDOW_MS
                before = self.sums.getValue((due,))[0] if self.sums.containsKey((due,)) else 0
                self.sums.updateValue((due,), (before + int(n),))
                self.handle.registerTimer(due)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802
        due = expiredTimerInfo.getExpiryTimeInMs()
        total = self.sums.getValue((due,))[0]
        self.sums.removeKey((due,))
        yield pd.DataFrame({"word": [key[0]], "due": [due], "n": [total]})

    def close(self):
        pass


class Sums(StatefulProcessor):
    """A sum and a list per key: two stores in one; Spark may drop them after a while."""

    def __init__(self, lifetime_ms=None):
        self.lifetime_ms = lifetime_ms

    def init(self, handle):
        self.total = handle.getValueState("total", NUMBER, ttlDurationMs=self.lifetime_ms)
        self.seen = handle.getListState("seen", NUMBER, ttlDurationMs=self.lifetime_ms)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802 - Spark's names
        more = [int(n) for part in rows for n in part["n"]]
        total = sum(more) + (self.total.get()[0] if self.total.exists() else 0)
        self.total.update((total,))
        for n in more:
            self.seen.appendValue((n,))
        listed = sum(n for (n,) in self.seen.get())
        yield pd.DataFrame({"word": [key[0]], "n": [total], "listed": [listed]})

    def close(self):
        pass


def timers(frame):
    return frame.groupBy("word").transformWithStateInPandas(
        Timed(), "word string, due bigint, n bigint", "Append", "EventTime"
    )


def lifetimes(frame):
    return frame.groupBy("word").transformWithStateInPandas(
        Sums(lifetime_ms=3_600_000),
        "word string, n bigint, listed bigint",
        "Append",
        "ProcessingTime",
    )


def sessions(frame):
    return frame.groupBy(F.session_window("ts", "4 seconds"), "word").agg(F.sum("n").alias("n"))


def outer_pairs(frame, other):
    """All four stores are read again: rows without a partner come out when they are too old."""
    right = other.select(
        F.col("ts").alias("at"), F.col("word").alias("name"), F.col("n").alias("m")
    ).where("m % 3 = 0")
    near = "word = name and at >= ts - interval 3 seconds and at <= ts + interval 3 seconds"
    return frame.join(right, F.expr(near), "full_outer")


MORE = {
    "timers": timers,
    "lifetimes": lifetimes,
    "sessions": sessions,
    "outer join": outer_pairs,
}
