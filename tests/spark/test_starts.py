"""Units that cannot begin where they have to, on real Spark: refused at once, never waiting."""

from __future__ import annotations

import shutil
import time
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.driving import events
from tests.spark.starts_driver import pipeline

from holdfast.deployment import UnitId
from holdfast.pipeline import deploy
from holdfast.runtime.log.anew import begin_anew, first_epoch, with_changes
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.streams.steps import slices

pytestmark = pytest.mark.spark

LOGS = ("events.0#0", "sum.0#0")
SUM, LATE = UnitId(segment="sum"), UnitId(segment="late")


def run(spark, folder, generation, until, *, late=False, deployment=None, keep_input=False):
    """Run all units until a condition on their statuses holds; gives these."""
    app = pipeline(late=late)
    deployment = deployment or deploy(app)
    host = SparkUnitHost(deployment, app, folder, spark=spark, keep_input=keep_input)
    deadline = time.monotonic() + 240
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation > 1 else None)
        while True:
            found = {status.unit: status for status in host.poll()}
            if until(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
    finally:
        host.close()


def delivered(count):
    def enough(found):
        for item in found.values():
            assert item.state != "failed", item.error
        return found[UnitId(segment="out")].batch >= count

    return enough


def failed(unit):
    return lambda found: found[unit].state == "failed"


def check(folder, unit="out.0#0", first=0):
    """The newest version of every row equals a sum in plain Python, from an epoch on."""
    log = SliceLog(folder)
    upto = log.range(unit, log.newest_batch(unit)).upto
    expected = Counter()
    for epoch in range(first, upto + 1):
        for _, key, value in events(epoch, 0):
            expected[key] += value
    files = sorted((folder / "out").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert {row["key"]: row["total"] for row in rows} == dict(expected)


def test_what_would_wait_for_ever_fails_with_one_line(spark, tmp_path):
    """A vanished checkpoint and a late sink whose input is trimmed; put back, it goes on."""

    def trimmed(found):
        delivered(0)(found)
        return all(SliceLog(tmp_path).floor(slices(name)).number for name in LOGS)

    run(spark, tmp_path, 1, trimmed)
    kept, home = tmp_path / "kept", tmp_path / "checkpoints" / "sum.0#0"
    home.rename(kept)
    found = run(spark, tmp_path, 2, failed(SUM))
    line = found[SUM].error.splitlines()[-1]
    assert "sum.0#0: its checkpoint is gone, and it cannot begin with batch 0" in line
    assert "all of its input is there from epoch" in line
    assert "--reset sum --from" in line
    assert "put checkpoints/sum.0#0 back" in line
    assert not list(home.glob("*")), "an empty checkpoint would be taken for the newest one"
    shutil.rmtree(home, ignore_errors=True)
    kept.rename(home)
    before = SliceLog(tmp_path).newest_batch("out.0#0")
    found = run(
        spark,
        tmp_path,
        3,
        lambda found: failed(LATE)(found) and found[UnitId(segment="out")].batch > before + 3,
        late=True,
    )
    line = found[LATE].error.splitlines()[-1]
    assert "late.0#0: cannot begin with batch 0: the first slices of its input sum are" in line
    assert "--from" in line
    check(tmp_path)


@pytest.mark.parametrize(
    "kept", [True, pytest.param(False, marks=pytest.mark.full)], ids=["kept", "trimmed"]
)
def test_a_reset_operator_and_a_late_sink_begin_at_a_stated_epoch(spark, tmp_path, kept):
    """Sums are those of the rows from there on, each once; the late sink has what follows it."""
    app, log = pipeline(), SliceLog(tmp_path)

    def enough(found):
        trimmed = all(log.floor(slices(name)).number for name in LOGS)
        return delivered(2)(found) and (kept or trimmed)

    run(spark, tmp_path, 1, enough, keep_input=kept)
    deployment = deploy(app)
    segments = [deployment.segment(name) for name in ("sum", "out")]
    third = log.run(log.steps().ends("events", -1))[2] + 1 if kept else "earliest"
    begun = first_epoch(log, deployment, segments, third)
    made = begin_anew(log, deployment, dict.fromkeys(("sum", "out"), begun))
    (tmp_path / "out").rename(tmp_path / "moved")
    out = UnitId(segment="out", change=1)

    def again(found):
        assert not [item.error for item in found.values() if item.state == "failed"]
        return found[out].batch >= 1

    run(spark, tmp_path, 2, again, deployment=made, keep_input=kept)
    check(tmp_path, unit=str(out), first=begun)
    late = pipeline(late=True)
    deployment = with_changes(log, deploy(late))
    start = first_epoch(log, deployment, [deployment.segment("late")], "now")
    made = begin_anew(log, deployment, {"late": start})
    before = log.newest_batch(str(out))

    def both(found):
        assert not [item.error for item in found.values() if item.state == "failed"]
        return found[out].batch > before and found[LATE].batch >= 1

    run(spark, tmp_path, 3, both, deployment=made, late=True, keep_input=kept)
    check(tmp_path, unit=str(out), first=begun)
    upto = log.range("late.0#0", log.newest_batch("late.0#0")).upto
    seen = {item.upto: item for item in log.run(log.steps().read("sum", start - 1, upto))}
    rows = sum(item.rows for item in seen.values())
    files = sorted((tmp_path / "late").glob("*.parquet"))
    assert sum(pq.read_table(file).num_rows for file in files) == rows


def test_a_vanished_checkpoint_is_rebuilt_while_nothing_is_trimmed(spark, tmp_path):
    """All ranges and all input are there, so the state comes out the same."""
    run(spark, tmp_path, 1, delivered(4))
    shutil.rmtree(tmp_path / "checkpoints" / "sum.0#0")
    before = SliceLog(tmp_path).newest_batch("out.0#0")
    run(spark, tmp_path, 2, delivered(before + 4))
    check(tmp_path)
