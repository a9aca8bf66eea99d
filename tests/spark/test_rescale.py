"""Operators that get more shards and fewer while they run: every row once, state and all."""

import signal
import time

import pytest
from tests.spark.drivers import run_driver
from tests.spark.in_process import DEADLINE_S
from tests.spark.rescale_driver import START, Rescaled, delivered, events, reached, scattered
from tests.spark.sums import sums_of_windows

from holdfast.deployment import UnitId
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import outcome, rescale, shape_of
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-rescale", memory_mb=800)
    yield session
    session.stop()


def expected(epochs):
    made = (row for epoch in range(epochs) for row in events(epoch, 0))
    return sums_of_windows(made, start=START, seconds=5)


def check(folder, last=None):
    """Whatever was delivered is right, once, and without gaps between windows up to the last.

    That is the last of any key, unless told.
    """
    told = [((row["start"], row["key"]), (row["total"], row["rows"])) for row in delivered(folder)]
    rows = dict(told)
    assert len(rows) == len(told)
    newest = max(start for start, _ in rows)
    wanted = expected(round((newest - START).total_seconds()) + 5)
    assert rows == {at: value for at, value in wanted.items() if at in rows}
    assert rows.keys() >= {at for at in wanted if at[0] <= (last or newest)}


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


def test_an_operator_that_declared_nothing_is_scaled_as_well(spark, tmp_path):
    """One shard of one partition, three of four, two by links, five of eight: Spark moves state."""
    run = Rescaled(spark, tmp_path, most=None)
    window = run.deployment.segment("window")
    try:
        run.deliver(8)
        for shards, partitions in ((3, 4), (2, 4), (5, 8)):
            changes = run.scale(shards)
            shape = shape_of(run.log, window)
            assert len(shape) == shards
            assert {block.of for block in shape} == {partitions}
            run.pass_over(changes)
    finally:
        run.host.close()
    check(tmp_path, reached(tmp_path))


@pytest.mark.full
def test_state_that_would_not_lie_by_its_key_stays_where_it_is(spark, tmp_path):
    """Heirs find out while they get ready, and say so; nobody hands over, results go on.

    As many shards as there are take it back: the state goes to the heirs and from there to one who
    has it as it was, and no heir runs a batch.
    """
    run = Rescaled(spark, tmp_path, most=None, summed=scattered)
    window = run.deployment.segment("window")
    try:
        run.deliver(3)
        (change,) = rescale(run.log, window, 3, reason="test")
        for child in change.children:
            run.host.start(UnitId.parse(child.unit), 1, None)
        heirs = {child.unit for child in change.children}

        def failed():
            return {str(it.unit): it.error for it in run.host.poll() if it.state == "failed"}

        end = time.monotonic() + DEADLINE_S
        while failed().keys() != heirs:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert all("rows are moved before they are grouped" in error for error in failed().values())
        assert run.log.run(run.log.steps().turn_of("window.0#0")) is None
        newest = run.log.newest_batch("window.0#0")
        while run.log.newest_batch("window.0#0") < newest + 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        (back,) = rescale(run.log, window, 1, reason="test")
        assert back.parents == tuple(child.unit for child in change.children)
        run.generation = 2
        for unit in (*back.parents, *(child.unit for child in back.children)):
            run.start(unit)
        run.until(lambda _: outcome(run.log, back) is not None)
        assert [run.log.newest_batch(unit) for unit in back.parents] == [-1] * 3
        assert [child.of for child in run.log.carriers("window")] == [1]
        run.pass_over([back])
    finally:
        run.host.close()
    check(tmp_path, reached(tmp_path))


@pytest.mark.sample(crash_at="during-restating:window.1#0")
@pytest.mark.parametrize(
    "crash_at",
    [
        "after-seal:window.0#0",
        "before-restating:window.1#1",
        "during-restating:window.1#0",
        "after-restating:window.1#1",
        "during-handover:window.1#0",
        "before-commit:window.1#0@0",
        "after-slice-record:window.1#1@0",
    ],
)
def test_killed_while_spark_repartitions_every_row_counts_once(tmp_path, crash_at):
    """SIGKILL of everything; another generation does it again, and scales once more."""
    folder = tmp_path / "run"
    words = (folder, 1, 2, 4)
    killed = run_driver("restate_driver.py", *words, log=tmp_path / "1.log", crash_at=crash_at)
    assert killed == -signal.SIGKILL, (tmp_path / "1.log").read_text()[-2000:]
    code = run_driver("restate_driver.py", folder, 2, 2, 4, 4, 6, log=tmp_path / "2.log")
    assert code == 0, (tmp_path / "2.log").read_text()[-2000:]
    log = SliceLog(folder)
    assert {child.of for child in log.run(log.steps().carriers("window"))} == {4}
    check(folder, reached(folder))
