"""A native source is killed at every point, idle and busy; every row comes out once."""

from __future__ import annotations

import importlib.util
import json
import signal
import time
from pathlib import Path

import pytest
from tests.spark.drivers import run_driver

from holdfast.deployment import UnitId
from holdfast.pipeline import Parquet, Pipeline, Rate, SparkSource, deploy
from holdfast.rundir.layout import STOP_MARK
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session
from holdfast.storage.local import LocalStorage
from holdfast.streams.steps import ranges

HERE = Path(__file__).parent
DEADLINE_S = 120.0
NUMBERS = UnitId(segment="numbers", shard=0)
POINTS = ("after-range-record", "after-data-files", "after-slice-record", "before-commit")


def load_driver():
    spec = importlib.util.spec_from_file_location("native_driver", HERE / "native_driver.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


driver = load_driver()


@pytest.fixture(scope="module")
def spark():
    return start_session("test-native-kills")


def write(inbox, name, numbers):
    inbox.mkdir(exist_ok=True)
    temporary = inbox / f".{name}.tmp"
    temporary.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    temporary.rename(inbox / name)


class DiedError(Exception):
    """Stands for a kill: nothing is written after it."""


class Death:
    """Makes a crash point of one kind of batch the end of all writing."""

    def __init__(self, monkeypatch, run, point, kind):
        self.came = False
        put, log = LocalStorage.put_if_absent, SliceLog(run)

        def at(crash, here, unit, number=-1):
            record = log.range(unit, number) if unit == str(NUMBERS) and here == point else None
            if record and (record.source["batch"] == number) == (kind == "busy"):
                self.came = True
                raise DiedError(f"{point} of batch {number}")

        def alive(store, name, data):
            if self.came and STOP_MARK not in name:  # which is how the test stops its tasks
                raise DiedError(name)
            return put(store, name, data)

        monkeypatch.setattr(Crash, "at", at)
        monkeypatch.setattr(LocalStorage, "put_if_absent", alive)

    def has_come(self, _):
        return self.came


def run(spark, pipeline, folder, generation, until):
    """Run all units as one generation until a condition of the statuses holds."""
    deployment = deploy(pipeline)
    host = SparkUnitHost(deployment, pipeline, folder, spark=spark)
    end = time.monotonic() + DEADLINE_S
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation > 1 else None)
        while not until(found := {item.unit.segment: item for item in host.poll()}):
            assert time.monotonic() < end, found
            time.sleep(0.02)
    finally:
        host.close()
    return found


def healthy(condition):
    def check(found):
        for item in found.values():
            assert item.state not in ("failed", "stopped"), item.error
        return condition(found)

    return check


@pytest.mark.spark
def test_a_source_dies_at_every_point_idle_and_busy(spark, tmp_path):
    """From before its first row on; each generation takes over from what the last one left."""
    folder, inbox, generation, rows = tmp_path / "run", tmp_path / "in", 0, 0
    inbox.mkdir()
    for kind in ("idle", "busy", "idle"):
        for point in POINTS:
            generation += 1
            if kind == "busy":
                write(inbox, f"{generation:03d}.json", [rows, rows + 1])
                rows += 2
            with pytest.MonkeyPatch.context() as patch:
                death = Death(patch, folder, point, kind)
                run(spark, driver.pipeline(inbox), folder, generation, death.has_come)
        log = SliceLog(folder)
        if generation == len(POINTS):
            number = log.newest_batch(str(NUMBERS))
            assert log.range(str(NUMBERS), number).source["batch"] == -1
            assert log.slice(str(NUMBERS), number - 1).rows == 0
    write(inbox, "last.json", [rows])
    done = healthy(lambda _: len(driver.delivered(folder)) > rows)
    run(spark, driver.pipeline(inbox), folder, generation + 1, done)
    assert driver.delivered(folder) == list(range(rows + 1))


@pytest.mark.spark
def test_a_source_that_was_idle_for_long_is_taken_over(spark, tmp_path):
    """The record of its last rows was trimmed many batches ago, and is not needed."""
    folder, inbox = tmp_path / "run", tmp_path / "in"
    write(inbox, "a.json", [0, 1, 2])
    pipeline, log = driver.pipeline(inbox, epoch="0.05s"), SliceLog(folder)

    def trimmed(_):
        number = log.newest_batch(str(NUMBERS))
        newest = log.range(str(NUMBERS), number)
        floor = log.floor(ranges(str(NUMBERS))).number
        return newest and 0 <= newest.source["batch"] < floor

    run(spark, pipeline, folder, 1, healthy(trimmed))
    write(inbox, "b.json", [3, 4])
    done = healthy(lambda _: len(driver.delivered(folder)) >= 5)
    run(spark, pipeline, folder, 2, done)
    assert driver.delivered(folder) == [0, 1, 2, 3, 4]


@pytest.mark.spark
def test_nobody_waits_for_a_source_without_rows(spark, tmp_path):
    """A source that never had a row publishes empty slices, so what it is joined with goes on."""
    (tmp_path / "in").mkdir()
    made = Pipeline("silent", epoch="0.2s")
    options = {"path": str(tmp_path / "in")}
    schema = "ts timestamp, value bigint, key bigint"
    silent = made.source("silent", SparkSource(format="json", schema=schema, options=options))
    both = silent.union("both", made.source("rate", Rate(rows_per_second=20)))
    made.sink("out", both, Parquet("out"))
    done = healthy(lambda found: found["out"].rows_out >= 8)
    run(spark, made, tmp_path / "run", 1, done)


def process(folder: Path, generation: int, rows: int, point: str = "", kind: str = "") -> int:
    """Exit code of a driver; a killed one has the negative signal number."""
    log = folder.parent / f"driver-{generation}.log"
    return run_driver("native_driver.py", folder, generation, rows, kind, log=log, crash_at=point)


@pytest.mark.chaos
@pytest.mark.parametrize(
    "point",
    [
        "after-range-record",
        *[pytest.param(point, marks=pytest.mark.full) for point in (*POINTS[1:], "during-clone")],
    ],
)
def test_a_killed_source_goes_on(tmp_path, point):
    """A process that dies idle with rows behind it, then one that dies with rows in hand."""
    folder, inbox = tmp_path / "run", tmp_path / "in"
    write(inbox, "a.json", [0, 1, 2])
    assert process(folder, 1, 3) == 0
    assert process(folder, 2, 1000, point, "idle") == -signal.SIGKILL
    write(inbox, "b.json", [3, 4])
    assert process(folder, 3, 1000, point, "busy") == -signal.SIGKILL
    write(inbox, "c.json", [5])
    assert process(folder, 4, 6) == 0, (tmp_path / "driver-4.log").read_text()
    assert driver.delivered(folder) == [0, 1, 2, 3, 4, 5]
