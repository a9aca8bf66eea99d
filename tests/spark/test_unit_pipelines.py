"""Units of small pipelines on one session: results equal plain Python, whatever the plan."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import LongType

from holdfast.deployment import UnitId
from holdfast.pipeline import (
    Files,
    ForeachBatch,
    Generator,
    Parquet,
    Pipeline,
    SparkSource,
    Sqlite,
    deploy,
    load_pipeline,
)
from holdfast.runtime.log.hashing import key_groups
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.watch import NodeWatch
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.native import VARIABLE

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SINKS = ("totals", "windows")
SCHEMA = "ts timestamp, key string, value bigint"


def events(epoch, seed):
    """Eight rows a second of event time; some late, some out of order."""
    rows = []
    for index in range(8):
        second = epoch + index / 8
        if index == 5 and epoch % 4 == 3:
            second -= 11
        if index == 2:
            second -= 1
        key = f"k{(epoch * 5 + index * 3 + seed) % 4}"
        rows.append((START + dt.timedelta(seconds=second), key, epoch * 8 + index))
    return rows


def in_time(last_epoch, seed=0, delay_s=2, make=events):
    """Rows that are not late, with their epoch, by the rule in the reference."""
    watermark, found = None, []
    for epoch in range(last_epoch + 1):
        rows = make(epoch, seed)
        found += [(epoch, *row) for row in rows if watermark is None or row[0] >= watermark]
        newest = max(row[0] for row in rows) - dt.timedelta(seconds=delay_s)
        watermark = newest if watermark is None else max(watermark, newest)
    return found


def source(seed=0, make=events):
    return Generator(function=make, schema=SCHEMA, seed=seed)


def run(spark, pipeline, folder, epoch, *, until=None, generation=0, **options):
    """Run all units until every exporter has delivered an epoch; returns the deployment."""
    deployment = deploy(pipeline, **options)
    host = SparkUnitHost(deployment, pipeline, folder, keep_input=True, spark=spark)
    exporters = {item.name for item in deployment.segments if item.kind == "exporter"}
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation else None)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            found = host.poll()
            if until is not None and until(found):
                return found
            failed = [item for item in found if item.state == "failed"]
            assert until or not failed, f"{failed[0].unit} {failed[0].error}"
            if all(item.epoch >= epoch for item in found if item.unit.segment in exporters):
                return found
            time.sleep(0.05)
        pytest.fail(f"epoch {epoch} was not reached: {found}")
    finally:
        host.close()


def last(folder, unit):
    log = SliceLog(folder)
    return log.range(unit, log.newest_batch(unit))


def parquet(folder):
    return [
        row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def double(frame):
    return frame.withColumn("value", F.col("value") * 2)


def totals(frame):
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("value").alias("total"))


def windows(frame):
    return (
        frame.groupBy(F.window("ts", "4 seconds"), "key")
        .agg(F.sum("value").alias("total"))
        .select(F.col("window.start").alias("start"), "key", "total")
    )


def branching():
    p = Pipeline("branching", event_time=("ts", "2 seconds"), epoch="0.3s")
    doubled = p.source("events", source()).map("double", double)
    p.sink("totals", doubled.aggregate("sum", totals, key="key", output="upsert"), Sqlite("t.db"))
    p.sink("windows", doubled.aggregate("window", windows, key="key"), Parquet("windows"))
    return p


@pytest.mark.parametrize(
    "options",
    [
        {"cuts": "none"},
        {"cuts": "all", "shards": {"sum": 2, "window": 2}},
        {"cuts": "all", "batch_epochs": {"events": 3, "window": 5}},
    ],
    ids=["uncut", "cut and sharded", "other intervals"],
)
def test_the_result_does_not_depend_on_the_plan(spark, tmp_path, options):
    """Upserts and windows with late rows equal plain Python under every plan."""

    def enough(found):
        assert not [item.error for item in found if item.state == "failed"]
        exporters = {item.unit.segment: item for item in found if item.unit.segment in SINKS}
        # A unit that starts late takes all epochs in one batch; windows close in the next.
        return exporters["totals"].epoch >= 24 and exporters["windows"].rows_out >= 8

    run(spark, branching(), tmp_path, 10_000, until=enough, **options)
    upto = last(tmp_path, "totals.0#0").upto
    counts, sums = Counter(), Counter()
    for _, _, key, value in in_time(upto):
        counts[key] += 1
        sums[key] += 2 * value
    with sqlite3.connect(tmp_path / "t.db") as base:
        found = {row[0]: row[1:] for row in base.execute("SELECT key, rows, total FROM results")}
    assert found == {key: (counts[key], sums[key]) for key in counts}

    expected = defaultdict(int)
    for _, ts, key, value in in_time(last(tmp_path, "events.0#0").upto):
        second = int((ts - START).total_seconds() // 4) * 4
        expected[START + dt.timedelta(seconds=second), key] += 2 * value
    delivered = parquet(tmp_path / "windows")
    assert len(delivered) >= 8
    assert len({(row["start"], row["key"]) for row in delivered}) == len(delivered)
    assert all(expected[row["start"], row["key"]] == row["total"] for row in delivered)
    # Shards cut their batches apart, so one may be a window ahead; no key has a gap.
    newest = {row["key"]: row["start"] for row in sorted(delivered, key=lambda row: row["start"])}
    due = {(start, key) for start, key in expected if key in newest and start < newest[key]}
    assert due <= {(row["start"], row["key"]) for row in delivered}


def match(left, right):
    right = right.select(
        F.col("key").alias("other"), F.col("ts").alias("right_ts"), F.col("value").alias("right")
    )
    near = (F.col("key") == F.col("other")) & F.col("right_ts").between(
        F.col("ts"), F.col("ts") + F.expr("interval 1 second")
    )
    return left.join(right, near).select("ts", "key", "value", "right")


def test_a_join_of_two_streams_reads_each_input_once(spark, tmp_path):
    """A stream-stream join over two boundaries gives exactly the pairs plain Python finds."""
    p = Pipeline("joining", event_time=("ts", "2 seconds"), epoch="0.3s")
    left, right = p.source("left", source(0)), p.source("right", source(1))
    p.sink("pairs", left.join("match", right, match, key="key"), Parquet("pairs"))
    run(spark, p, tmp_path, 12)
    upto = last(tmp_path, "pairs.0#0").upto
    second = dt.timedelta(seconds=1)
    expected = sorted(
        (value, other)
        for _, ts, key, value in in_time(upto, 0)
        for _, right_ts, right_key, other in in_time(upto, 1)
        if key == right_key and ts <= right_ts <= ts + second
    )
    found = sorted((row["value"], row["right"]) for row in parquet(tmp_path / "pairs"))
    assert found == expected
    assert expected


def test_waiting_tasks_ask_the_nodes_watcher(spark, tmp_path, monkeypatch):
    """Tasks, in processes of their own, wait for the next slice by asking, and are woken."""
    asked, rung = Counter(), []
    ask, ring = NodeWatch._ask, NodeWatch.told

    def note(watch, connection, number, paths):
        asked.update(str(Path(path).relative_to(tmp_path)) for path in paths)
        ask(watch, connection, number, paths)

    def told(watch, path):
        rung.append(path)
        ring(watch, path)

    monkeypatch.setenv(VARIABLE, "python")  # Java waits in this process
    monkeypatch.setattr(NodeWatch, "_ask", note)
    monkeypatch.setattr(NodeWatch, "told", told)
    p = Pipeline("idle", epoch="2s")
    p.sink("out", p.source("events", source()).map("double", double), Parquet("out"))

    def waited(found):
        assert not [item.error for item in found if item.state == "failed"]
        return any(
            name.startswith("units/events.0#0/slices/") and f"{tmp_path}/{name}" in rung
            for name in list(asked)
        ) and all(item.epoch >= 1 for item in found)

    run(spark, p, tmp_path, 10_000, until=waited, cuts="all")
    assert asked["units/double.0#0/stop-0"]
    upto = last(tmp_path, "out.0#0").upto
    expected = sorted(2 * row[2] for epoch in range(upto + 1) for row in events(epoch, 0))
    assert sorted(row["value"] for row in parquet(tmp_path / "out")) == expected


def test_state_survives_one_takeover_after_another(spark, tmp_path):
    """A checkpoint cloned from a clone needs none of those that are gone by then."""
    loyalty = load_pipeline("examples/loyalty.py")
    for generation in range(5):
        reached = last(tmp_path, "rewards.0#0").upto if generation else 0
        run(spark, loyalty, tmp_path, reached + 1, generation=generation)
    kept = sorted(path.name for path in (tmp_path / "checkpoints" / "reward.0#0").iterdir())
    assert kept == ["000002", "000003", "000004"]
    source = loyalty.operator("purchases").source
    upto = last(tmp_path, "rewards.0#0").upto
    rows = [
        row
        for epoch in range(upto + 1)
        for row in source.table(epoch, epoch_s=loyalty.epoch_s).to_pylist()
    ]
    expected = {
        (row["customer"], row["purchases"], row["points"])
        for row in loyalty.expectations["rewards"].function({"purchases": rows})
    }
    with sqlite3.connect(tmp_path / "out" / "rewards.db") as base:
        found = set(base.execute("SELECT customer, purchases, points FROM rewards"))
    assert found == expected


@F.udf(LongType(), useArrow=True)
def next_one(value):
    return value + 1


@F.udf(LongType(), useArrow=False)
def next_one_pickled(value):
    return value + 1


@F.pandas_udf(LongType())
def next_ones(values: pd.Series) -> pd.Series:
    return values + 1


def test_python_functions_leave_the_other_columns_alone(spark, tmp_path):
    """However Spark hands rows to Python, what a function does not touch comes out as it was."""
    functions = {"rows": next_one, "pickled": next_one_pickled, "columns": next_ones}
    p = Pipeline("untouched", event_time=("ts", "2 seconds"), epoch="0.3s")
    events_ = p.source("events", source())
    for name, function in functions.items():
        mapped = events_.map(name, lambda frame, f=function: frame.withColumn("n", f("value")))
        p.sink(f"{name}_out", mapped, Parquet(f"out/{name}"))
    run(spark, p, tmp_path, 2, cuts="all")
    for name in functions:
        upto = last(tmp_path, f"{name}_out.0#0").upto
        expected = [(ts, key, value, value + 1) for _, ts, key, value in in_time(upto)]
        found = [
            (row["ts"], row["key"], row["value"], row["n"])
            for row in parquet(tmp_path / "out" / name)
        ]
        assert sorted(found, key=str) == sorted(expected, key=str), name


@F.udf(LongType())
def picky(value):
    if value in (13, 40):
        raise ValueError(f"cannot digest {value}")
    return value


def digest(frame):
    return frame.withColumn("value", picky("value"))


def poisoned(on_error):
    p = Pipeline("poisoned", epoch="0.3s")
    good = p.source("events", source()).map("double", double)
    p.sink("out", good.map("digest", digest, on_error=on_error), Parquet("out"))
    return p


def test_a_failing_function_is_reported_with_its_operator(spark, tmp_path):
    """The status names the operator and carries the Python traceback."""

    def broken(found):
        return any(item.state == "failed" for item in found)

    pipeline = poisoned("fail")
    pipeline_13 = [row for row in in_time(3) if row[3] * 2 == 40]
    assert pipeline_13  # the poison comes early
    found = run(spark, pipeline, tmp_path, 10_000, until=broken, cuts="none")
    failed = next(item for item in found if item.state == "failed")
    assert failed.unit == UnitId(segment="digest", shard=0)
    assert failed.operator == "digest"
    assert "cannot digest 40" in failed.error
    assert "in picky" in failed.error


def test_quarantine_skips_the_poison_and_nothing_else(spark, tmp_path):
    """Bad rows end in the dead-letter slice, all others are delivered."""
    run(spark, poisoned("quarantine"), tmp_path, 6, cuts="none")
    upto = last(tmp_path, "out.0#0").upto
    values = [2 * value for epoch in range(upto + 1) for *_, value in events(epoch, 0)]
    found = sorted(row["value"] for row in parquet(tmp_path / "out"))
    assert found == sorted(value for value in values if value != 40)
    dead = list((tmp_path / "units" / "digest.0#0" / "dead" / "double").glob("*.arrow"))
    rows = [row for path in dead for row in pa.ipc.open_stream(path).read_all().to_pylist()]
    assert [row["value"] for row in rows] == [40]


def test_files_are_delivered_once_to_a_function(spark, tmp_path):
    """Files written before and during the run arrive once, with an id per delivery."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    received: dict[str, list[int]] = {}

    def keep(frame, delivery):
        received[delivery] = [row["n"] for row in frame.collect()]

    def write(name, numbers):
        temporary = inbox / f".{name}.tmp"
        temporary.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
        temporary.rename(inbox / name)

    p = Pipeline("files", epoch="0.3s")
    files = p.source("in", Files(path=str(inbox), format="json", schema="n bigint"))
    p.sink("out", files, ForeachBatch(keep))
    write("a.json", [1, 2])

    def step(found):
        if any(1 in rows for rows in received.values()) and not (inbox / "b.json").exists():
            write("b.json", [3])
        return any(3 in rows for rows in received.values())

    run(spark, p, tmp_path / "run", 10_000, until=step)
    assert sorted(n for rows in received.values() for n in rows) == [1, 2, 3]


def test_a_native_source_is_copied_once_and_ticks_when_idle(spark, tmp_path):
    """Rows of a Spark source arrive once and in order of their batches."""
    p = Pipeline("native", epoch="0.3s")
    # One partition, as Spark deals the rows of a batch out to them in turn.
    options = {
        "rowsPerBatch": "5",
        "numPartitions": "1",
        "startTimestamp": "0",
        "advanceMillisPerBatch": "1000",
    }
    native = SparkSource(
        format="rate-micro-batch", schema="timestamp timestamp, value bigint", options=options
    )
    p.sink("out", p.source("ticks", native), Parquet("out"))
    run(spark, p, tmp_path, 10_000, until=lambda found: found[-1].rows_out >= 15)
    found = [row["value"] for row in parquet(tmp_path / "out")]
    log = SliceLog(tmp_path)
    stamped = [log.range("ticks.0#0", number) for number in range(log.newest_batch("ticks.0#0"))]
    assert len({record.upto for record in stamped}) == len(stamped)
    assert found == list(range(len(found)))


def measures(epoch, seed):
    """Numbers of about one size, so that no order of adding them rounds like another."""
    random = np.random.default_rng((seed, epoch))
    return [(f"k{n % 40}", float(x)) for n, x in enumerate(random.lognormal(0, 1, 4000))]


def test_a_redo_that_adds_floats_in_another_order_goes_on(spark, tmp_path, monkeypatch):
    """Another last bit is not another result: the redo is accepted and the unit goes on."""
    p = Pipeline("floats", epoch="0.3s")
    rows = p.source("measures", Generator(measures, "key string, x double"))
    p.sink(
        "sums", rows.aggregate("sum", sum_of_floats, key="key", output="upsert"), Parquet("sums")
    )
    run(spark, p, tmp_path, 4)
    *_, before = SliceLog(tmp_path).slices_from("sum.0#0", 0)
    checkpoint = tmp_path / "checkpoints" / "sum.0#0" / "000000"
    # As if killed between its record and its commit: nothing after that is there.
    for folder, first in (("commits", before.spark_batch), ("offsets", before.spark_batch + 1)):
        for path in (checkpoint / folder).iterdir():
            if int(path.name.strip(".").partition(".")[0]) >= first:
                path.unlink()
    monkeypatch.setitem(ORDER, "backwards", True)
    redone = []
    publish = SliceLog.publish

    def seen(self, item, **options):
        if (item.unit, item.number) == ("sum.0#0", before.number):
            redone.append(item)
        return publish(self, item, **options)

    monkeypatch.setattr(SliceLog, "publish", seen)
    run(spark, p, tmp_path, last(tmp_path, "sums.0#0").upto + 3, generation=1)
    assert last(tmp_path, "sum.0#0").number > before.number
    assert redone[0].digest != before.digest


ORDER = {"backwards": False}
"""Stands for what Spark may do when memory is short or rows come from several machines."""


def backwards(batches):
    for batch in batches:
        yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))


def sum_of_floats(frame):
    if ORDER["backwards"]:
        frame = frame.mapInArrow(backwards, frame.schema)
    return frame.groupBy("key").agg(F.sum("x").alias("total"), F.count("*").alias("rows"))


def test_key_groups_are_those_of_spark(spark):
    """The group of a key is the same whether Spark or a source computes it."""
    random = np.random.default_rng(7)
    words = ["", "a", "ab", "abc", "abcd", "abcde", "é漢字!", "holdfast" * 9, None]
    rows = 300
    table = pa.table(
        {
            "s": [words[i] for i in random.integers(0, len(words), rows)],
            "l": random.integers(-(2**62), 2**62, rows),
            "i": pa.array(random.integers(-(2**31), 2**31, rows), pa.int32()),
            "d": [[0.0, -0.0, 1.5, float("nan"), -2e300][i] for i in random.integers(0, 5, rows)],
            "b": random.integers(0, 2, rows).astype(bool),
            "t": pa.array(random.integers(0, 2**50, rows)).cast(pa.timestamp("us", "UTC")),
            "x": [bytes(random.integers(0, 256, n, dtype=np.uint8)) for n in range(rows)],
        }
    )
    frame = spark.createDataFrame(table)
    for key in [*[(name,) for name in table.column_names], tuple(table.column_names)]:
        group = F.pmod(F.hash(*key), F.lit(128)).alias("group")
        theirs = [row["group"] for row in frame.select(group).collect()]
        assert key_groups(table, key).tolist() == theirs, key


def test_local_rows_do_not_take_every_task_slot(spark):
    """Waiting tasks need many slots; a job split into as many would have no memory for each."""
    rows = spark.createDataFrame(pa.table({"value": list(range(1000))}))
    assert rows.rdd.getNumPartitions() <= 2
    assert spark.sparkContext.defaultParallelism == 2
