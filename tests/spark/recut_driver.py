"""A run that goes on with other cuts, in a process of its own that can be killed at any step.

Usage: recut_driver.py RUN GENERATION CUTS BATCHES
CUTS: `all`, `none` or operators by comma. BATCHES: how many more the sink must have delivered; 0:
begin only, run nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.driving import drive, events, totals

from holdfast.cli.resume import check_resume, reset_operators
from holdfast.deployment import Deployment
from holdfast.health.policy import Policy
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.log.slicelog import SliceLog


def doubled(frame):
    return frame.selectExpr("ts", "key", "value * 2 AS value")


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
    return drive(
        host,
        deployment.units(),
        generation,
        lambda found: any(it.unit.segment == "out" and it.batch >= wanted for it in found),
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
