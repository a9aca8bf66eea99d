"""A unit on Spark says what it could take and whether it works, so that stalls can be told."""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import time

import pytest

from holdfast.deployment import UnitId
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.daemon import worker_name
from holdfast.runtime.spark.units.life import QueryLife, worker_times

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DEADLINE_S = 90.0
INTERVAL = 16
"""Epochs in a batch of the unit under test."""


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in time"
        time.sleep(0.02)


def rows(epoch, seed):
    return [(START + dt.timedelta(seconds=epoch), f"k{seed}", 1)]


def test_a_unit_waits_for_its_interval_without_work_undone(spark, tmp_path):
    """Epochs published within a batch interval never count as waiting; a whole interval does."""
    app = Pipeline("interval", event_time=("ts", "1 second"), epoch="250ms")
    source = app.source("rows", Generator(rows, "ts timestamp, key string, value bigint"))
    app.sink("out", source.map("same", lambda frame: frame), Parquet("out"))
    deployment = deploy(app, batch_epochs={"rows": 1, "same": INTERVAL})
    host = SparkUnitHost(deployment, app, tmp_path / "run", spark=spark)
    ahead = set()

    def told(name):
        return next(status for status in host.poll() if str(status.unit) == name)

    def look():
        """Whether the source was seen to be half an interval ahead, and no more."""
        unit = told("same.0#0")
        published = told("rows.0#0").epoch  # asked later, so the unit has seen no more than this
        assert unit.state != "failed", unit.error
        if unit.batch < 0 or (published + 1) // INTERVAL > (unit.epoch + 1) // INTERVAL:
            return False
        assert unit.waiting == 0
        ahead.add(published - unit.epoch)
        return max(ahead) > INTERVAL // 2

    try:
        for name in ("rows", "same"):
            host.start(UnitId(segment=name), 1, None)
        wait_until(look, "half an interval without a batch")
        behind = told("same.0#0").batch
        wait_until(lambda: told("same.0#0").batch > behind, "a batch for the whole interval")
    finally:
        host.close()


def test_work_is_seen_and_a_suspended_process_shows_none(spark, tmp_path):
    """Tasks that compute change what is seen at every look; a stopped Python worker freezes it."""
    group, pid_file = "a-query", tmp_path / "pid"
    life = QueryLife(spark, group)
    # A run of its own: its worker may outlive it, and bears its name until then.
    other, other_life = "other-query", QueryLife(spark, "other-query")

    def grew(life=life):
        before = life.steps
        life.look()
        return life.steps > before

    def job(frame, group=group):
        spark.sparkContext.setJobGroup(group, "test", interruptOnCancel=True)
        try:
            frame.write.format("noop").mode("overwrite").save()
        except Exception:  # noqa: BLE001 - cancelled at the end of the test
            return

    def slow(batches):
        for batch in batches:
            with open(f"{pid_file}.new", "w") as file:  # noqa: PTH123 - runs in a task
                file.write(str(os.getpid()))
            os.rename(f"{pid_file}.new", pid_file)  # noqa: PTH104
            time.sleep(600)
            yield batch

    def patient(batches):
        for batch in batches:
            for _ in range(6000):
                time.sleep(0.1)
            yield batch

    one = spark.range(1, numPartitions=1)
    assert not grew() or not grew(), "without a job there is nothing to see"
    busy = spark.range(10**13, numPartitions=1).selectExpr("sum(hash(id)) AS s")
    thread = threading.Thread(target=job, args=(busy,))
    thread.start()
    for _ in range(3):
        wait_until(grew, "work of a computing task")
    spark.sparkContext.cancelJobGroup(group)
    thread.join(30)
    # A function that gives nothing back, but is woken again and again.
    thread = threading.Thread(target=job, args=(one.mapInArrow(patient, one.schema), other))
    thread.start()
    wait_until(lambda: worker_times(worker_name(other)), "a worker with the name of its query")
    for _ in range(3):
        wait_until(lambda: grew(other_life), "work of a waiting function")
    spark.sparkContext.cancelJobGroup(other)
    thread.join(30)
    thread = threading.Thread(target=job, args=(one.mapInArrow(slow, one.schema),))
    thread.start()
    wait_until(pid_file.exists, "the Python worker")
    wait_until(lambda: worker_times(worker_name(group)), "a worker with the name of its query")
    os.kill(int(pid_file.read_text()), signal.SIGSTOP)
    wait_until(lambda: not grew(), "the end of all work")
    assert [grew() for _ in range(5)] == [False] * 5
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    spark.sparkContext.cancelJobGroup(group)
    thread.join(30)
