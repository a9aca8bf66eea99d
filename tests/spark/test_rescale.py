"""Operators that get more shards and fewer while they run: every row once, state and all."""

import datetime as dt
import signal
from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver
from tests.spark.rescale_driver import START, Rescaled, events

from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import outcome, shape_of
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-rescale", memory_mb=800)
    yield session
    session.stop()


def delivered(folder):
    files = sorted((folder / "sums").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def expected(epochs):
    sums = defaultdict(lambda: [0, 0])
    for epoch in range(epochs):
        for ts, key, value in events(epoch, 0):
            start = ts - dt.timedelta(seconds=ts.second % 5, microseconds=ts.microsecond)
            sums[start, key][0] += value
            sums[start, key][1] += 1
    return {key: tuple(value) for key, value in sums.items()}


def check(folder):
    """Whatever was delivered is right, once, and without gaps between windows."""
    rows = delivered(folder)
    assert max(Counter((row["start"], row["key"]) for row in rows).values()) == 1
    last = max(row["start"] for row in rows)
    wanted = {
        at: value
        for at, value in expected(round((last - START).total_seconds()) + 5).items()
        if at[0] <= last
    }
    assert {(r["start"], r["key"]): (r["total"], r["rows"]) for r in rows} == wanted


def test_an_operator_is_split_and_merged_while_it_runs(spark, tmp_path):
    """One shard, three of uneven blocks, one, with the state of those before; a map, a source."""
    run = Rescaled(spark, tmp_path, mapped=True)
    try:
        run.deliver(8)
        for shards, maps in ((3, 2), (1, 1)):
            changes = run.scale(shards, double=maps, events=shards)
            assert len(shape_of(run.log, run.deployment.segment("window"))) == shards
            assert len(shape_of(run.log, run.deployment.segment("halve"))) == maps
            assert len(shape_of(run.log, run.deployment.segment("events"))) == shards
            assert all(outcome(run.log, change).epoch > 0 for change in changes)
            run.deliver(7)
    finally:
        run.host.close()
    check(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(
    "crash_at",
    [
        "after-seal:window.0#0",
        "during-handover:window.1#0",
        "during-handover:window.1#1",
        "before-commit:window.1#0@0",
        "after-slice-record:window.1#1@0",
        "after-range-record:window.1#0@1",
        "after-seal:events.0#0",
        "during-handover:events.1#1",
        "after-range-record:events.1#0@0",
        "after-slice-record:events.1#1@0",
    ],
)
def test_killed_at_any_step_every_row_counts_once(tmp_path, crash_at):
    """SIGKILL of everything; another generation goes on in one of the two shapes, then merges."""
    folder = tmp_path / "run"
    words = (folder, 1, 2, 4, 2, 4)  # in two parts: heirs may take the first in one batch
    killed = run_driver("rescale_driver.py", *words, log=tmp_path / "1.log", crash_at=crash_at)
    assert killed == -signal.SIGKILL, (tmp_path / "1.log").read_text()[-2000:]
    code = run_driver("rescale_driver.py", folder, 2, 2, 4, 1, 6, log=tmp_path / "2.log")
    assert code == 0, (tmp_path / "2.log").read_text()[-2000:]
    log = SliceLog(folder)
    assert len(log.run(log.steps().carriers("window"))) == 1
    check(folder)
