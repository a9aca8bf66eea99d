"""The migrated example gives the rows of the job it comes from."""

import datetime as dt
import importlib.util
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.pipeline import Files, deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session
from holdfast.verify.check import verify
from holdfast.verify.slice_log import delivered

pytestmark = [pytest.mark.spark, pytest.mark.full]

HERE = Path(__file__).parents[2] / "examples" / "migrated"
FILES = 45


def module(name):
    spec = importlib.util.spec_from_file_location(f"migrated_{name}", HERE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def rows(folder):
    """Rows with their times in microseconds: Spark's own files have no time zone, and mean UTC."""
    return sorted(
        (round(row.pop("ts").timestamp() * 1e6), *row.values())
        for file in folder.glob("*.parquet")
        for row in pq.read_table(file).to_pylist()
    )


def after(spark, folder, run_dir, watermark_us, monkeypatch):
    """The rows that the pipeline gives out over the same files."""
    monkeypatch.chdir(HERE)  # as nodes do
    pipeline = load_pipeline(HERE / "after.py").replaced(
        lambda one: (
            one
            if one.source is None
            else type(one)(
                name=one.name,
                kind="source",
                source=Files(str(folder), schema=one.source.schema, files_per_epoch=1),
            )
        ),
        epoch_s=0.1,
    )
    deployment = deploy(pipeline)
    host = SparkUnitHost(deployment, pipeline, run_dir, keep_input=True, spark=spark)
    try:
        for unit in deployment.units():
            host.start(unit, 0, None)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            reports = {one.unit.segment: one for one in host.poll()}
            assert not [one.error for one in reports.values() if one.state == "failed"]
            # Windows close in the batch after the one that has moved the watermark.
            found = delivered(run_dir, "totals", ())
            reached = reports["totals"].epoch
            if (found.watermark_us or 0) >= watermark_us and (reached or 0) >= found.upto:
                break
            time.sleep(0.05)
    finally:
        host.close()
    verdict = verify(run_dir, claims(pipeline))
    assert verdict.ok, verdict.findings
    return rows(run_dir / "totals")


def test_before_and_after_give_the_same_rows(tmp_path, monkeypatch):
    """Windows that have closed, late orders left out, cities from the static table."""
    spark = start_session("tests")
    produce = module("produce")
    for second in range(FILES):
        produce.write(tmp_path / "input", second)
    times = [row["ts"] for second in range(FILES) for row in produce.orders(second)]
    newest_us = round(dt.datetime.fromisoformat(max(times)).timestamp() * 1e6)
    plain = spark.newSession()
    plain.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    job = module("before").job(plain, tmp_path / "input", tmp_path / "before")
    query = job.trigger(availableNow=True).start()
    query.awaitTermination(180)
    query.stop()
    found = rows(tmp_path / "before" / "totals")
    assert len(found) >= 9  # three cities in each of three whole windows, and what came before
    assert (
        after(spark, tmp_path / "input", tmp_path / "run", newest_us - 5_000_000, monkeypatch)
        == found
    )
