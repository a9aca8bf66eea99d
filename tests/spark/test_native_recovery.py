"""A native source whose checkpoint lost what the records say: exactly once all the same."""

import shutil
import time

import pyarrow.parquet as pq
import pytest

from holdfast.deployment import UnitId
from holdfast.pipeline import Parquet, Pipeline, SparkSource, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

DEADLINE_S = 120.0
TICKS = UnitId(segment="ticks", shard=0)


@pytest.fixture(scope="module")
def spark():
    return start_session("test-native")


def pipeline():
    p = Pipeline("native", epoch="0.3s")
    native = SparkSource(
        format="rate-micro-batch",
        schema="timestamp timestamp, value bigint",
        # One partition, as Spark deals the rows of a batch out to them in turn.
        options={
            "rowsPerBatch": "5",
            "numPartitions": "1",
            "startTimestamp": "0",
            "advanceMillisPerBatch": "1000",
        },
    )
    p.sink("out", p.source("ticks", native), Parquet("out"))
    return p


def run(spark, path, generation, until):
    """Run all units as one generation until a condition of the statuses holds."""
    made = pipeline()
    deployment = deploy(made)
    host = SparkUnitHost(deployment, made, path, spark=spark)
    end = time.monotonic() + DEADLINE_S
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation else None)
        while not until(found := {item.unit: item for item in host.poll()}):
            assert time.monotonic() < end, found
            time.sleep(0.05)
    finally:
        host.close()
    return found


def delivered(path):
    files = sorted((path / "out").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file)["value"].to_pylist()]


def rows_out(count):
    def enough(found):
        for item in found.values():
            assert item.state != "failed", item.error
        return found[UnitId(segment="out", shard=0)].rows_out >= count

    return enough


@pytest.mark.parametrize("lost", ["plan", "torn plan"])
def test_a_lost_plan_is_read_again_as_recorded(spark, tmp_path, lost):
    """The recorded range is published once, and the next one begins where it ended."""
    run(spark, tmp_path, 1, rows_out(15))
    before = len(delivered(tmp_path))
    folder = tmp_path / "checkpoints" / "ticks.0#0" / "000001"
    newest = max(int(path.name) for path in (folder / "offsets").iterdir() if path.name.isdigit())
    recorded = {
        record.source["offset"]
        for number in range(SliceLog(tmp_path).newest_batch("ticks.0#0") + 1)
        if (record := SliceLog(tmp_path).range("ticks.0#0", number))
    }
    while (folder / "offsets" / str(newest)).read_text().splitlines()[2] not in recorded:
        # Planned by Spark after the last batch it could run.
        (folder / "offsets" / str(newest)).unlink()
        newest -= 1
    (folder / "commits" / str(newest)).unlink(missing_ok=True)
    (folder / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    (folder / "offsets" / f".{newest}.crc").unlink(missing_ok=True)
    if lost == "torn plan":
        (folder / "offsets" / str(newest)).write_text("v1")
    else:
        (folder / "offsets" / str(newest)).unlink()
    run(spark, tmp_path, 2, rows_out(15))
    found = delivered(tmp_path)
    assert found == list(range(len(found)))
    assert len(found) > before


def test_a_lost_checkpoint_is_one_clear_line(spark, tmp_path):
    """Nothing is guessed: the unit fails and says what to do."""
    run(spark, tmp_path, 1, rows_out(15))
    shutil.rmtree(tmp_path / "checkpoints" / "ticks.0#0")
    found = run(spark, tmp_path, 2, lambda found: found[TICKS].state == "failed")
    assert found[TICKS].operator == "ticks"
    assert "no checkpoint knows it" in found[TICKS].error.splitlines()[-1]
    assert "--reset ticks" in found[TICKS].error.splitlines()[-1]
