"""What is stored counts: a redo that computes other rows takes over what was published."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import LongType
from tests.spark.drivers import run_driver

from holdfast.pipeline import Generator, Parquet, Pipeline, Sqlite, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import read_slice
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Floor, Skip
from holdfast.streams.steps import RaiseFloor, ranges
from holdfast.verify.slice_log import dead_rows

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent


def run(app: str, folder: Path, generation: int, epoch: int, crash_at: str = "") -> int:
    """Exit code of a driver; a killed one has the negative signal number."""
    log = folder.parent / f"driver-{generation}.log"
    words = (HERE / app, folder, generation, epoch)
    return run_driver("unit_driver.py", *words, log=log, crash_at=crash_at)


def said(folder: Path, generation: int) -> str:
    return (folder.parent / f"driver-{generation}.log").read_text(errors="replace")[-4000:]


def published(log: SliceLog, boundary: str, number: int) -> Counter:
    record = log.slice("draw.0#0", number)
    rows = read_slice(log.data("draw.0#0", boundary), record.files[boundary], range(128))
    return Counter(tuple(row.items()) for batch in rows for row in batch.to_pylist())


def test_a_drawing_that_was_published_counts_on_every_boundary(tmp_path):
    """Killed once published, and before the commit, a map of chance keeps its first rows."""
    folder = tmp_path / "run"
    killed = run("chance_app.py", folder, 0, 10_000, "after-slice-record:draw.0#0@2")
    assert killed == -signal.SIGKILL
    log = SliceLog(folder)
    drawn = published(log, "draw@key", 2)
    killed = run("chance_app.py", folder, 1, 10_000, "before-commit:draw.0#0@3")
    assert killed == -signal.SIGKILL, said(folder, 1)
    assert published(log, "draw@key", 2) == drawn
    reached = log.slice("draw.0#0", 3).upto
    assert run("chance_app.py", folder, 2, reached + 2) == 0, said(folder, 2)
    last = log.newest_batch("draw.0#0") - 1
    assert last >= 3
    for number in range(last + 1):
        rows = published(log, "draw@key", number)
        assert rows
        assert rows == published(log, "draw@bucket", number), number
    with sqlite3.connect(folder / "out.db") as base:
        found = dict(base.execute("SELECT bucket, rows FROM buckets"))
    assert set(found) == {"b0", "b1", "b2"}


# In one process


def deliver(spark, pipeline, folder, epoch, cuts="none", generation=0):
    """Run all units until every exporter has delivered the epoch that a function tells."""
    deployment = deploy(pipeline, cuts=cuts)
    host = SparkUnitHost(deployment, pipeline, folder, keep_input=True, spark=spark)
    exporters = {item.name for item in deployment.segments if item.kind == "exporter"}
    deadline = time.monotonic() + 300
    try:
        for unit in deployment.units():
            host.start(unit, generation, None)
        while time.monotonic() < deadline:
            found = host.poll()
            failed = [item for item in found if item.state == "failed"]
            assert not failed, f"{failed[0].unit} {failed[0].error}"
            if all(item.epoch >= epoch() for item in found if item.unit.segment in exporters):
                return
            time.sleep(0.05)
        pytest.fail(f"epoch {epoch()} was not reached: {found}")
    finally:
        host.close()


def numbers(epoch, seed):
    """Four rows an epoch."""
    return [(f"k{n % 2}", n) for n in range(epoch * 4 + seed, epoch * 4 + seed + 4)]


@F.udf(LongType())
def dislikes_one(number, copy):
    if number in (1, 2) and copy == 0:
        raise ValueError(f"cannot stand {number}")
    return number


@F.udf(LongType())
def dislikes_four(number, copy):
    if number == 4 and copy == 0:
        raise ValueError("cannot stand 4")
    return number


def copied(frame):
    """Two rows of each: a quarantined one must not take the other with it."""
    return frame.withColumn("copy", F.explode(F.array(F.lit(0), F.lit(1))))


def checked(frame):
    """Fails on some rows in Python and on another in Spark, in columns that nobody reads."""
    text = F.when((F.col("number") == 3) & (F.col("copy") == 1), "three").otherwise("3")
    return frame.withColumns(
        {"python": dislikes_one("number", "copy"), "spark": text.cast("int")},
    )


def slimmed(frame):
    """A filter that Spark would run before the functions above it."""
    return frame.where("number <> 2").drop("python", "spark")


def second_step(frame):
    return frame.withColumn("number", dislikes_four("number", "copy"))


def sums(frame):
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("number").alias("total"))


def results(folder):
    with sqlite3.connect(folder / "out.db") as base:
        return list(base.execute("SELECT * FROM results"))


def sums_found(folder):
    return {key: tuple(rest) for key, *rest in results(folder)}


def summed(upto, without=()):
    found = {}
    for epoch in range(upto + 1):
        for key, number in numbers(epoch, 0):
            if number not in without:
                rows, total = found.get(key, (0, 0))
                found[key] = (rows + 1, total + number)
    return found


def read(file):
    return pq.read_table(file).to_pylist()


def last_epoch(folder, unit):
    log = SliceLog(folder)
    return log.range(unit, log.newest_batch(unit)).upto


@pytest.mark.sample(cuts="all")
@pytest.mark.parametrize("cuts", ["none", "all"])
def test_what_is_quarantined_does_not_depend_on_the_plan(spark, tmp_path, cuts):
    """Two functions lose exactly the rows of their own input that they fail on, in every plan."""
    p = Pipeline("picky", epoch="0.3s")
    stream = p.source("numbers", Generator(numbers, "key string, number bigint"))
    stream = stream.map("copies", copied).map("check", checked, on_error="quarantine")
    stream = stream.map("slim", slimmed).map("second", second_step, on_error="quarantine")
    p.sink("out", stream.map("same", lambda frame: frame), Sqlite("out.db"))
    deliver(spark, p, tmp_path, lambda: 3, cuts=cuts)
    made = [
        (number, copy)
        for epoch in range(last_epoch(tmp_path, "out.0#0") + 1)
        for _, number in numbers(epoch, 0)
        for copy in (0, 1)
    ]
    lost = [(1, 0), (3, 1), (4, 0), (2, 0), (2, 1)]
    assert sorted(row[1:] for row in results(tmp_path)) == sorted(set(made) - set(lost))
    dead = sorted(
        (boundary, row["number"], row["copy"])
        for (_, boundary), rows in dead_rows(tmp_path).items()
        for row in rows
    )
    assert dead == [("copies", 1, 0), ("copies", 2, 0), ("copies", 3, 1), ("slim", 4, 0)]


def test_rows_put_aside_are_there_for_who_else_reads_them(spark, tmp_path):
    """Two branches of one stream meet again; only one of them lacks what it fails on."""
    p = Pipeline("shared", epoch="0.3s")
    stream = p.source("numbers", Generator(numbers, "key string, number bigint"))
    left = stream.map(
        "left",
        lambda frame: frame.withColumn("number", dislikes_four("number", F.lit(0))),
        on_error="quarantine",
    )
    right = stream.map("right", lambda frame: frame.where("number >= 0"))
    p.sink("out", left.union("both", right), Sqlite("out.db"))
    deliver(spark, p, tmp_path, lambda: 3)
    made = [n for at in range(last_epoch(tmp_path, "out.0#0") + 1) for _, n in numbers(at, 0)]
    assert sorted(row[1] for row in results(tmp_path)) == sorted([*made, *(set(made) - {4})])


def prized(frame):
    return frame.withColumn("prize", (F.rand() * 1_000_000).cast("bigint"))


def letters(epoch, seed):
    """One row an epoch that is no number, of those before the third."""
    return [
        ("k0", f"{n}" if n % 4 or epoch > 2 else "none") for n in range(epoch * 4, epoch * 4 + 4)
    ]


def parsed(frame):
    """Fails in Spark, which does not say whose function it was."""
    return frame.select("key", F.col("text").cast("bigint").alias("number"))


def test_both_branches_of_one_segment_quarantine(spark, tmp_path):
    """Whichever branch fails on a row, that row is put aside, though nothing tells whose it is."""
    p = Pipeline("branches", epoch="0.3s")
    texts = "key string, text string"
    good = p.source("good", Generator(lambda epoch, seed: [("k1", f"{epoch}")], texts))
    bad = p.source("bad", Generator(letters, texts))
    left = good.map("left", parsed, on_error="quarantine")
    right = bad.map("right", parsed, on_error="quarantine")
    p.sink("out", left.union("both", right), Sqlite("out.db"))
    assert deploy(p).segment("both").operators == ("left", "right", "both")
    deliver(spark, p, tmp_path, lambda: 4)
    upto = last_epoch(tmp_path, "out.0#0")
    expected = list(range(upto + 1)) + [
        int(text) for epoch in range(upto + 1) for _, text in letters(epoch, 0) if text != "none"
    ]
    assert sorted(row[1] for row in results(tmp_path)) == sorted(expected)
    dead = {boundary for (_, boundary), rows in dead_rows(tmp_path).items() if rows}
    assert dead == {"bad"}


@pytest.mark.parametrize("stateful", [True, False, "chance"], ids=["state", "no state", "chance"])
def test_the_skip_that_a_zombie_published_with_counts(spark, tmp_path, monkeypatch, stateful):
    """A zombie is faster with other rows left out: state and rows become those it published."""
    p = Pipeline("overtaken", epoch="0.3s")
    stream = p.source("numbers", Generator(numbers, "key string, number bigint"))
    unit = "sum.0#0"
    if stateful:
        made = stream.aggregate("sum", sums, key="key", output="upsert")
    else:
        made = stream.map("sum", lambda frame: frame.select("key", "number"))
    if stateful == "chance":
        unit = "prize.0#0"
        made = made.map("prize", prized, takes_upserts=True, deterministic=False)
    p.sink("out", made, Sqlite("out.db"))
    zombie = SliceLog(tmp_path)

    publish = UnitContext.publish

    def overtaken(context, item, **options):
        if item.unit == unit and item.number == 1 and zombie.slice(unit, 1) is None:
            # It leaves out all rows of the batch, so what it publishes has none.
            taken = zombie.run(zombie.steps().read("numbers", item.after, item.upto))
            rows = sum(found.rows for found in taken)
            (boundary,) = taken[0].files
            left = {boundary: tuple(range(rows))}
            zombie.put_skip(Skip(unit=unit, number=0, batch=1, rows=left))
            zombie.publish(replace(item, files={}, rows=0, digest="", skip="1"))
        return publish(context, item, **options)

    monkeypatch.setattr(UnitContext, "publish", overtaken)

    def after_it():
        lost = zombie.range(unit, 1)
        return lost.upto + 1 if lost else 10_000

    deliver(spark, p, tmp_path, after_it)
    lost = zombie.range(unit, 1)
    without = [n for at in range(lost.after + 1, lost.upto + 1) for _, n in numbers(at, 0)]
    upto = last_epoch(tmp_path, "out.0#0")
    assert upto > lost.upto
    if stateful:
        sums_alone = {key: values[:2] for key, values in sums_found(tmp_path).items()}
        assert sums_alone == summed(upto, without)
    else:
        all_numbers = [n for at in range(upto + 1) for _, n in numbers(at, 0)]
        assert sorted(n for _, n in results(tmp_path)) == [
            n for n in all_numbers if n not in without
        ]


def test_chance_behind_state_adopts_what_is_published(spark, tmp_path, monkeypatch):
    """A redo draws again; the published drawing counts, and the sums go on as if nothing was."""
    p = Pipeline("prizes", epoch="0.3s")
    stream = p.source("numbers", Generator(numbers, "key string, number bigint"))
    made = stream.aggregate("sum", sums, key="key", output="upsert")
    made = made.map("prize", prized, takes_upserts=True, deterministic=False)
    p.sink("out", made, Sqlite("out.db"))
    (unit,) = (item for item in deploy(p).units() if item.segment == "prize")
    assert deploy(p).segment("prize").operators == ("sum", "prize")
    publish, met = UnitContext.publish, []

    def drawn_before(context, item, **options):
        if context.unit == unit and item.number == 1 and not met:
            # Another one has published the batch; what it drew has another digest.
            met.append(SliceLog(tmp_path).publish(replace(item, digest="of another drawing")))
        return publish(context, item, **options)

    monkeypatch.setattr(UnitContext, "publish", drawn_before)
    deliver(spark, p, tmp_path, lambda: met[0].upto + 2 if met else 10_000)
    sums_alone = {key: (rows, total) for key, rows, total, _ in results(tmp_path)}
    assert sums_alone == summed(last_epoch(tmp_path, "out.0#0"))


def test_a_unit_that_was_replaced_says_so(spark, tmp_path):
    """Its tasks notice the newer claim; the report is "stopped" with the reason, not "failed"."""
    p = Pipeline("replaced", epoch="0.3s")
    stream = p.source("numbers", Generator(numbers, "key string, number bigint"))
    p.sink("out", stream.map("same", lambda frame: frame), Parquet("out"))
    deployment = deploy(p)
    host = SparkUnitHost(deployment, p, tmp_path, spark=spark)
    unit = next(item for item in deployment.units() if item.segment == "same")
    try:
        host.start(unit, 0, None)
        deadline = time.monotonic() + 120
        while host.poll()[0].state == "starting" and time.monotonic() < deadline:
            time.sleep(0.05)
        SliceLog(tmp_path).claim("same.0#0", 1)
        while host.poll()[0].state == "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        (status,) = host.poll()
    finally:
        host.close()
    assert (status.state, status.operator) == ("stopped", None)
    assert status.error == "same.0#0: generation 0 was replaced by 1"


def test_a_lost_checkpoint_without_state_is_made_anew(spark, tmp_path):
    """Its own first batches are trimmed; it goes on from the records, and every row comes once."""
    p = Pipeline("rebuilt", epoch="0.3s")
    stream = p.source("numbers", Generator(numbers, "key string, number bigint"))
    p.sink("out", stream.map("same", lambda frame: frame), Parquet("out"))
    log = SliceLog(tmp_path)
    deliver(spark, p, tmp_path, lambda: 0 if log.newest_batch("same.0#0") > 2 else 10_000)
    newest = log.newest_batch("same.0#0")
    log.records.execute(RaiseFloor(ranges("same.0#0"), Floor(number=newest - 1)))
    shutil.rmtree(tmp_path / "checkpoints" / "same.0#0")
    reached = last_epoch(tmp_path, "same.0#0")
    deliver(spark, p, tmp_path, lambda: reached + 4, generation=1)
    assert log.slice("same.0#0", newest - 1).generation == 0
    assert log.slice("same.0#0", newest + 1).generation == 1
    upto = last_epoch(tmp_path, "out.0#0")
    expected = [n for at in range(upto + 1) for _, n in numbers(at, 0)]
    found = [row["number"] for file in (tmp_path / "out").glob("*.parquet") for row in read(file)]
    assert sorted(found) == sorted(expected)
