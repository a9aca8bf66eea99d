"""Slice files that are lost for good: they are made again, by whoever misses them."""

import signal
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver
from tests.spark.heal_driver import START, Running, events, lose
from tests.spark.sums import sums_of_windows

from holdfast.runtime.log.crash import REPAIR_POINTS
from holdfast.runtime.spark.start.native import VARIABLE
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-heal", memory_mb=800)
    yield session
    session.stop()


def expected(epochs):
    rows = [row for epoch in range(epochs) for row in events(epoch, 0)]
    return sums_of_windows(rows, start=START, seconds=3, times=2)


def check(folder):
    """Every window up to the last one delivered is there, once and right."""
    files = sorted((folder / "sums").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert max(Counter((row["start"], row["key"]) for row in rows).values()) == 1
    last = max(row["start"] for row in rows)
    wanted = {
        at: value for at, value in expected((last - START).seconds + 3).items() if at[0] <= last
    }
    assert {(r["start"], r["key"]): (r["total"], r["rows"]) for r in rows} == wanted


def test_logs_of_three_units_in_a_row_are_lost_and_made_again(spark, tmp_path):
    """A source, a stateless and a stateful unit; their states are long past what Spark keeps."""
    run = Running(spark, tmp_path, ack_levels=4)
    try:
        run.start("events", "twice", "window")
        found = run.until(lambda found: found["window"].batch >= 24)
        reached = found["window"].epoch
        lose(tmp_path, "events", "twice", "window")
        run.start("sums")
        run.until(lambda found: found["sums"].epoch > reached)
    finally:
        run.host.close()
    check(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("lost", ["events", "twice", "window"])
@pytest.mark.parametrize("side", ["native", "python"])
def test_torn_files_of_a_log_that_is_being_read_are_made_again(tmp_path, monkeypatch, side, lost):
    """The default keeps what the last few batches need; each kind of reader finds the damage."""
    monkeypatch.setenv(VARIABLE, side)
    folder = tmp_path / "run"
    before = ["events", "twice", "window"][: ["events", "twice", "window"].index(lost) + 1]
    code = run_driver("heal_driver.py", folder, 1, 6, *before, log=tmp_path / "1.log")
    assert code == 0, (tmp_path / "1.log").read_text()[-2000:]
    lose(folder, lost, cut=True)
    words = (folder, 2, 8, "events", "twice", "window", "sums")
    assert run_driver("heal_driver.py", *words, log=tmp_path / "2.log") == 0, (
        tmp_path / "2.log"
    ).read_text()[-2000:]
    check(folder)


@pytest.mark.full
@pytest.mark.parametrize("unit", ["events", "twice", "window"])
@pytest.mark.parametrize("point", REPAIR_POINTS)
def test_killed_at_any_step_of_a_repair_another_one_makes_it(tmp_path, point, unit):
    """SIGKILL of everything; nothing is lost by it, and nothing counts twice."""
    folder = tmp_path / "run"
    streams = ("events", "twice", "window")
    assert run_driver("heal_driver.py", folder, 1, 8, *streams, log=tmp_path / "1.log") == 0
    lose(folder, *streams)
    words = (folder, 2, 8, *streams, "sums")
    crash_at = f"{point}:{unit}.0#0"
    killed = run_driver("heal_driver.py", *words, log=tmp_path / "2.log", crash_at=crash_at)
    assert killed == -signal.SIGKILL, (tmp_path / "2.log").read_text()[-2000:]
    words = (folder, 3, 8, *streams, "sums")
    assert run_driver("heal_driver.py", *words, log=tmp_path / "3.log") == 0, (
        tmp_path / "3.log"
    ).read_text()[-2000:]
    check(folder)
