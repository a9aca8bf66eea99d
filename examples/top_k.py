"""The most visited pages of each window, by a hierarchy of aggregates.

Hits are counted by page and region, then by page, then the best five of all pages are chosen. Each
level works on far fewer rows than the one before; the first two can be sharded by page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from holdfast import Generator, Parquet, Pipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
HITS_PER_EPOCH = 100
PAGES = 40
REGIONS = ["africa", "america", "asia", "europe", "oceania"]
WINDOW_S = 3
K = 5


def hits(epoch: int, seed: int) -> Iterator[tuple[datetime, str, str]]:
    """Pages by Zipf's law, so that there is something to find at the top."""
    rng = np.random.default_rng((seed, epoch))
    start = START + timedelta(seconds=epoch)
    for _ in range(HITS_PER_EPOCH):
        at = start + timedelta(milliseconds=int(rng.integers(0, 1000)))
        page = f"page{int(rng.zipf(1.3)) % PAGES:02}"
        yield at, page, REGIONS[int(rng.integers(len(REGIONS)))]


def window_of(column: str) -> Any:
    """The window a row falls into."""
    return sf.window(column, f"{WINDOW_S} seconds")


def per_region(frame: DataFrame) -> DataFrame:
    """Hits of each page from each region."""
    found = frame.groupBy(window_of("ts"), "page", "region").agg(sf.count("*").alias("hits"))
    return found.select(sf.window_time("window").alias("ts"), "page", "region", "hits")


def per_page(frame: DataFrame) -> DataFrame:
    """Hits of each page."""
    found = frame.groupBy(window_of("ts"), "page").agg(sf.sum("hits").alias("hits"))
    return found.select(sf.window_time("window").alias("ts"), "page", "hits")


def best(frame: DataFrame) -> DataFrame:
    """The K pages with the most hits; of equals the first by name."""
    ranked = sf.sort_array(sf.collect_list(sf.struct((-sf.col("hits")).alias("minus"), "page")))
    tops = frame.groupBy(window_of("ts")).agg(ranked.alias("ranked"))
    rows = tops.select(
        sf.window_time("window").alias("ts"), sf.posexplode(sf.slice("ranked", 1, K))
    )
    return rows.select(
        "ts",
        (sf.col("pos") + 1).alias("rank"),
        sf.col("col.page").alias("page"),
        (-sf.col("col.minus")).alias("hits"),
    )


pipeline = Pipeline("top-k", event_time=("ts", "1 second"), epoch="1s")
source = pipeline.source("hits", Generator(hits, "ts timestamp, page string, region string"))
pages = source.aggregate("per_region", per_region, key="page").aggregate(
    "per_page", per_page, key="page"
)
pipeline.sink("top", pages.aggregate("best", best), Parquet("out/top"))


@pipeline.expected("top", closes="ts")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One counter per window, sorted."""
    counters: dict[int, Counter[str]] = {}
    for row in rows["hits"]:
        window = int(row["ts"].timestamp() // WINDOW_S)
        counters.setdefault(window, Counter())[row["page"]] += 1
    last = timedelta(seconds=WINDOW_S, microseconds=-1)
    return [
        {
            "ts": datetime.fromtimestamp(window * WINDOW_S, UTC) + last,
            "rank": rank,
            "page": page,
            "hits": number,
        }
        for window, counter in counters.items()
        for rank, (page, number) in enumerate(
            sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:K], start=1
        )
    ]
