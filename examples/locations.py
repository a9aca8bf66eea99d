"""Advertisements by location, with three ways to find keywords: Pathfinder's Fig. 6.

    gps ──┐                ┌─ P2 ── friends
          ├─ merge ── P1 ──┤
    ips ──┘                └─ keywords { P3 | P6 | P4 ─ P5 } ── P7 ── ads

As in the paper, an operator's work is to compute Fibonacci numbers, naively, up to its n of Table
1; here half of that n, so that a core does some hundred items a second. The three paths find the
same keywords, each in its way, so that what arrives can be checked whichever was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast import Generator, Parquet, Pipeline

WORK = {"P1": 37, "P2": 43, "P3": 40, "P4": 40, "P5": 40, "P6": 40, "P7": 40}
"""Table 1: n of each operator."""
SCALE = 0.5
ITEMS_PER_EPOCH = 4
"""Of each source."""
CELL = 100
KEYWORDS = ("coffee", "shoes", "books", "bikes", "bread", "music", "toys")

LOCATION = "user bigint, x bigint, y bigint"


def positions(epoch: int, seed: int) -> list[tuple[int, int, int]]:
    """Who is where."""
    rng = np.random.default_rng((seed, epoch))
    first = 2 * ITEMS_PER_EPOCH * epoch + ITEMS_PER_EPOCH * seed
    return [
        (first + item, int(rng.integers(1000)), int(rng.integers(1000)))
        for item in range(ITEMS_PER_EPOCH)
    ]


def fibonacci(n: int) -> int:
    """The slow way, on purpose."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def keyword(x: int, y: int) -> str:
    """What is sold around a place."""
    return KEYWORDS[(x // CELL * 31 + y // CELL) % len(KEYWORDS)]


def working(
    name: str, added: str, make: Callable[[dict[str, Any]], Any]
) -> Callable[[DataFrame], DataFrame]:
    """A map that works on every item, and adds a column to it; `added`: its name and type."""
    rounds = round(WORK[name] * SCALE)
    column = added.split(maxsplit=1)[0]

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = []
            for row in batch.to_pylist():
                fibonacci(rounds)
                made.append(make(row))
            yield batch.append_column(column, pa.array(made, _TYPES[added.split()[1]]))

    def over(frame: DataFrame) -> DataFrame:
        known = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
        return frame.mapInArrow(each, f"{known}, {added}")

    return over


_TYPES = {"string": pa.string(), "bigint": pa.int64()}


def without(*columns: str) -> Callable[[DataFrame], DataFrame]:
    """A map that drops columns."""
    return lambda frame: frame.drop(*columns)


to_cell = working("P1", "cell bigint", lambda row: row["x"] // CELL * 31 + row["y"] // CELL)
suggest = working("P2", "friend bigint", lambda row: row["user"] ^ 1)
by_place = working("P3", "keyword string", lambda row: keyword(row["x"], row["y"]))
by_tags = working("P6", "keyword string", lambda row: KEYWORDS[row["cell"] % len(KEYWORDS)])
companies = working("P4", "company bigint", lambda row: row["cell"] % len(KEYWORDS))
by_company = working("P5", "keyword string", lambda row: KEYWORDS[row["company"]])
advertise = working("P7", "ad string", lambda row: f"{row['keyword']} near you")

pipeline = Pipeline("locations", epoch="0.25s")
gps = pipeline.source("gps", Generator(positions, LOCATION, seed=0))
ips = pipeline.source("ips", Generator(positions, LOCATION, seed=1))
located = gps.union("merge", ips).map("P1", to_cell)
pipeline.sink("friends", located.map("P2", suggest), Parquet("out/friends"))
keywords = located.paths(
    "keywords",
    P3=lambda s: s.map("P3", by_place),
    P6=lambda s: s.map("P6", by_tags),
    P4=lambda s: s.map("P4", companies).map("P5", by_company).map("P5-columns", without("company")),
)
pipeline.sink("ads", keywords.map("P7", advertise), Parquet("out/ads"))


@pipeline.expected("ads")
def expected(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Every position once, with the keyword of its place, whichever path found it."""
    return [
        {
            **row,
            "cell": row["x"] // CELL * 31 + row["y"] // CELL,
            "keyword": keyword(row["x"], row["y"]),
            "ad": f"{keyword(row['x'], row['y'])} near you",
        }
        for row in (*rows["gps"], *rows["ips"])
    ]
