"""The two queries of the PPA evaluation as pipelines, small enough for one machine.

Each source has several shards, and a shard takes every n-th row of an epoch, so the order of the
rows says which way each comes: requests by page, positions by road, reports by their number. An
epoch lasts half a second and holds a second of event time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Pipeline, Sqlite

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW_S = 2

LANES, PAGES, REQUESTS, RANKED = 4, 400, 400, 40
ROADS, REGIONS, POSITIONS = 60, 3, 300
OFFICES, REPORTS = 2, 60
SLOW_KMH = 50


def requests(epoch: int, seed: int) -> Iterator[tuple[datetime, int]]:
    """Every lane has pages of its own, asked for by Zipf's law."""
    rng = np.random.default_rng((seed, epoch, 1))
    weights = 1.0 / np.arange(1, PAGES // LANES + 1)
    ranks = rng.choice(len(weights), REQUESTS, p=weights / weights.sum())
    at = START + timedelta(seconds=epoch)
    for number, rank in enumerate(ranks):
        yield at, int(rank) * LANES + number % LANES


def count(frame: DataFrame) -> DataFrame:
    """Requests of each page in a window."""
    found = frame.groupBy(sf.window("ts", f"{WINDOW_S} seconds"), "page").count()
    return found.select(sf.window_time("window").alias("ts"), "page", sf.col("count").alias("n"))


def positions(epoch: int, seed: int) -> Iterator[tuple[datetime, int, int]]:
    """How fast users go, each told through the office of its region; every road has some."""
    rng = np.random.default_rng((seed, epoch, 2))
    at = START + timedelta(seconds=epoch)
    places = rng.integers(0, ROADS // REGIONS, POSITIONS)
    places[:ROADS] = np.arange(ROADS) // REGIONS
    for number, place in enumerate(places):
        road = int(place) * REGIONS + number % REGIONS
        yield at, road, _usual(road) + int(rng.integers(-5, 6))


def _usual(road: int) -> int:
    """Half of the roads are slow, in every region."""
    return 30 if (road // REGIONS) % 2 else 90


def reports(epoch: int, seed: int) -> Iterator[tuple[datetime, int, int]]:
    """Incidents on roads, every other one through the same office."""
    rng = np.random.default_rng((seed, epoch, 3))
    at = START + timedelta(seconds=epoch)
    for number, road in enumerate(rng.integers(0, ROADS, REPORTS)):
        yield at, epoch * REPORTS + number, int(road)


def average(frame: DataFrame) -> DataFrame:
    """The speed on each road in a window."""
    found = frame.groupBy(sf.window("ts", f"{WINDOW_S} seconds"), "road").agg(
        sf.sum("kmh").alias("sum"), sf.count("*").alias("users")
    )
    return found.select(sf.window_time("window").alias("ts"), "road", "sum", "users")


def jammed(speeds: DataFrame, told: DataFrame) -> DataFrame:
    """Every report with the speed on its road in the window that it falls into, if that is slow."""
    told = told.select(sf.col("ts").alias("since"), sf.col("road").alias("told_road"), "report")
    same = sf.expr(f"ts >= since AND ts < since + INTERVAL {WINDOW_S} SECONDS")
    both = speeds.join(told, (sf.col("road") == sf.col("told_road")) & same)
    return both.where(sf.col("sum") < SLOW_KMH * sf.col("users")).select("ts", "report", "road")


def top_pages() -> Pipeline:
    """Q1: requests of pages in a window; whoever reads them ranks them."""
    made = Pipeline("top-pages", event_time=("ts", "1 second"), epoch="0.5s")
    lanes = made.source(
        "requests", Generator(requests, "ts timestamp, page int"), parallelism=LANES
    )
    made.sink(
        "pages", lanes.aggregate("slices", count, key="page", shards=2), Sqlite("out.db", "pages")
    )
    return made


def incidents() -> Pipeline:
    """Q2: incidents on roads where traffic is slow."""
    made = Pipeline("incidents", event_time=("ts", "1 second"), epoch="0.5s")
    seen = made.source(
        "positions",
        Generator(positions, "ts timestamp, road int, kmh int"),
        parallelism=REGIONS,
    )
    told = made.source(
        "reports", Generator(reports, "ts timestamp, report bigint, road int"), parallelism=OFFICES
    )
    speeds = seen.aggregate("speeds", average, key="road", shards=2)
    made.sink("jams", speeds.join("jammed", told, jammed, key="road"), Sqlite("out.db", "jams"))
    return made
