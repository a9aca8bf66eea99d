"""A unit whose batches grow large reads them in several tasks, and no row is lost or doubled."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.in_process import Running

from holdfast.pipeline import Parquet, Pipeline, Rate
from holdfast.pipeline.claims import claims
from holdfast.runtime.spark.units import tasks
from holdfast.verify.check import verify

pytestmark = pytest.mark.spark

FEW, MANY = 1, 3


def words():
    """Every row has its word, every window its counts."""
    made = Pipeline("words", event_time=("ts", "1 second"), epoch="200ms")
    rows = made.source("rows", Rate(1000)).map(
        "split", lambda frame: frame.withColumn("word", F.col("value") % 7)
    )
    counts = rows.aggregate(
        "count",
        lambda frame: (
            frame.groupBy(F.window("ts", "1 second"), "word")
            .count()
            .select(F.window_time("window").alias("ts"), "word", "count")
        ),
        key="word",
    )
    made.sink("counts", counts, Parquet("out/counts"))

    @made.expected("counts", closes="ts")
    def expected(found):
        second = dt.timedelta(seconds=1)
        seen = Counter(
            (row["ts"].replace(microsecond=0) + second, row["value"] % 7) for row in found["rows"]
        )
        last = dt.timedelta(microseconds=1)
        return [
            {"ts": end - last, "word": word, "count": count} for (end, word), count in seen.items()
        ]

    return made


def reading(run, name):
    """In how many tasks a unit reads now."""
    unit = next(item for key, item in run.host._units.items() if str(key) == name)
    planned = getattr(unit, "_planned", None)
    return None if planned is None else planned.spec.tasks


def test_large_batches_are_read_in_more_tasks_and_taken_over_so(spark, tmp_path, monkeypatch):
    """It is planned again between two batches; who takes it over reads in as many at once."""
    monkeypatch.setattr(tasks, "tasks_for", lambda _: FEW)
    run = Running(spark, words(), tmp_path, sink="counts")
    (inner,) = [str(unit) for unit in run.deployment.units() if unit.segment == "count"]
    run.deliver(5)
    assert reading(run, inner) == FEW
    monkeypatch.setattr(tasks, "tasks_for", lambda rows: MANY if rows >= 150 else FEW)
    run.until(lambda _: reading(run, inner) == MANY)
    run.deliver(10)
    run.host.close()
    again = Running(spark, words(), tmp_path, sink="counts", generation=2)
    again.until(lambda _: reading(again, inner) is not None)
    assert reading(again, inner) == MANY
    again.deliver(10)
    again.host.close()
    verdict = verify(tmp_path, claims(again.pipeline))
    assert verdict.ok, verdict.to_json()
