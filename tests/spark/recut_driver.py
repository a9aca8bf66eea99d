"""A run that goes on with other cuts, in a process of its own that can be killed at any step.

Usage: recut_driver.py RUN GENERATION CUTS BATCHES
CUTS: `all`, `none` or operators by comma. BATCHES: how many more the sink must have delivered; 0:
begin only, run nothing.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from pathlib import Path

from holdfast.cli.resume import check_resume, reset_operators
from holdfast.deployment import Deployment
from holdfast.health.policy import Policy
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.log.slicelog import SliceLog

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TIMEOUT_S = 240.0


def events(epoch, seed):
    return [
        (START + dt.timedelta(seconds=epoch), f"k{(epoch + index) % 3}", epoch * 4 + index + seed)
        for index in range(4)
    ]


def doubled(frame):
    return frame.selectExpr("ts", "key", "value * 2 AS value")


def totals(frame):
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    return frame.groupBy("key").agg(F.sum("value").alias("total"))


def labelled(frame):
    return frame.selectExpr("key", "total", "concat('sum of ', key) AS label")


def pipeline() -> Pipeline:
    made = Pipeline("recut", event_time=("ts", "1 second"), epoch="0.2s")
    source = made.source("events", Generator(events, "ts timestamp, key string, value bigint"))
    summed = source.map("double", doubled).aggregate("sum", totals, key="key", output="upsert")
    made.sink("out", summed.map("label", labelled, takes_upserts=True), Parquet("out"))
    return made


def deployment_of(app: Pipeline, cuts: str) -> Deployment:
    return deploy(app, cuts=cuts if cuts in ("all", "none") else cuts.split(","))


def begun(run: Path, app: Pipeline, cuts: str) -> Deployment:
    """What is to run: what `holdfast run` does before it starts any node."""
    spec = RunSpec(
        app="", host="spark", deployment=deployment_of(app, cuts), policy=Policy(workers=1)
    )
    resumed = check_resume(run, spec, [], operators=app.operators)
    if resumed:
        spec = (reset_operators(run, resumed) if resumed.recut else resumed).spec
    write_spec(run, spec)
    return spec.deployment


def main(run: Path, generation: int, cuts: str, batches: int) -> int:
    app, log = pipeline(), SliceLog(run)
    deployment = begun(run, app, cuts)
    if not batches:
        return 0
    from holdfast.runtime.spark.host import SparkUnitHost

    wanted = log.newest_batch("out.0#0") + batches
    host = SparkUnitHost(deployment, app, run, keep_input=True)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation else None)
        while time.monotonic() < deadline:
            found = host.poll()
            failed = [status for status in found if status.state == "failed"]
            if failed:
                sys.stderr.write(f"{failed[0].unit}\n{failed[0].error}\n")
                return 1
            if any(item.unit.segment == "out" and item.batch >= wanted for item in found):
                return 0
            time.sleep(0.05)
        sys.stderr.write(f"not reached: {found}\n")
        return 3
    finally:
        host.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
