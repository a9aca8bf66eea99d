"""Which drivers are caught in a traffic incident: a join of two streams within a span of time.

A speed report matches an incident on the same road if it was made at most five seconds after it.
Slow drivers are then kept. The two streams have their own pace, and the join waits for the slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Parquet, Pipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
ROADS = 30
REPORTS_PER_EPOCH = 60
REACH_S = 5
SLOW_KMH = 30


def reports(epoch: int, seed: int) -> Iterator[tuple[datetime, int, int, int]]:
    """Cars, the road each is on and how fast it goes; a few roads carry most of them."""
    rng = np.random.default_rng((seed, epoch, 1))
    start = START + timedelta(seconds=epoch)
    for number in range(REPORTS_PER_EPOCH):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        road = int(ROADS * rng.random() ** 2)
        yield at, epoch * REPORTS_PER_EPOCH + number, road, int(rng.integers(5, 120))


def incidents(epoch: int, seed: int) -> Iterator[tuple[datetime, int, str]]:
    """At most three incidents in an epoch, often none."""
    rng = np.random.default_rng((seed, epoch, 2))
    start = START + timedelta(seconds=epoch)
    for _ in range(int(rng.integers(0, 4))):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        yield at, int(ROADS * rng.random() ** 2), ["crash", "ice", "works"][int(rng.integers(3))]


def match(cars: DataFrame, events: DataFrame) -> DataFrame:
    """Every report with every incident on its road that it may be caught in."""
    events = events.select(
        sf.col("ts").alias("since"), sf.col("road").alias("incident_road"), "incident"
    )
    soon = sf.expr(f"ts >= since AND ts <= since + INTERVAL {REACH_S} SECONDS")
    return cars.join(events, (sf.col("road") == sf.col("incident_road")) & soon).drop(
        "incident_road"
    )


def slow(frame: DataFrame) -> DataFrame:
    """Those who are stuck."""
    return frame.where(sf.col("kmh") < SLOW_KMH)


pipeline = Pipeline("traffic", event_time=("ts", "1 second"), epoch="1s")
cars = pipeline.source("reports", Generator(reports, "ts timestamp, car bigint, road int, kmh int"))
events = pipeline.source(
    "incidents", Generator(incidents, "ts timestamp, road int, incident string")
)
caught = cars.join("match", events, match, key="road").map("slow", slow)
pipeline.sink("caught", caught, Parquet("out/caught"))


@pipeline.expected("caught")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A nested loop, by road."""
    by_road: dict[int, list[dict[str, Any]]] = {}
    for event in rows["incidents"]:
        by_road.setdefault(event["road"], []).append(event)
    return [
        {**car, "since": event["ts"], "incident": event["incident"]}
        for car in rows["reports"]
        if car["kmh"] < SLOW_KMH
        for event in by_road.get(car["road"], ())
        if event["ts"] <= car["ts"] <= event["ts"] + timedelta(seconds=REACH_S)
    ]
