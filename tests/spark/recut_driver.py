"""A run that goes on with other cuts, in a process of its own that can be killed at any step.

Usage: recut_driver.py RUN GENERATION CUTS BATCHES [OPERATOR[=EPOCH]]
CUTS: `all`, `none` or operators by comma; `none/4x3` declares max_shards=4 and three shards of the
sums. BATCHES: how many more every sink must have delivered; 0: begin only, run nothing. OPERATOR:
what a second sink reads, added at that epoch if one is given.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.driving import drive, events, totals

from holdfast.cli.resume import Starts, check_resume, reset_operators
from holdfast.deployment import Deployment
from holdfast.errors import BadInputError
from holdfast.health.policy import Policy
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.log.slicelog import SliceLog


def doubled(frame):
    return frame.selectExpr("ts", "key", "value * 2 AS value")


def labelled(frame):
    return frame.selectExpr("key", "total", "concat('sum of ', key) AS label")


def pipeline(late: str = "", shards: str = "") -> Pipeline:
    """With a second sink behind an operator, and shards of the sums, if they are given."""
    most, _, number = shards.partition("x")
    made = Pipeline("recut", event_time=("ts", "1 second"), epoch="0.2s")
    source = made.source("events", Generator(events, "ts timestamp, key string, value bigint"))
    double = source.map("double", doubled)
    summed = double.aggregate(
        "sum",
        totals,
        key="key",
        output="upsert",
        max_shards=int(most) if most else None,
        shards=int(number or 1),
    )
    made.sink("out", summed.map("label", labelled, takes_upserts=True), Parquet("out"))
    if late:
        made.sink("late", {"double": double, "sum": summed}[late], Parquet("late"))
    return made


def deployment_of(app: Pipeline, cuts: str) -> Deployment:
    return deploy(app, cuts=cuts if cuts in ("all", "none") else cuts.split(","))


def begun(run: Path, app: Pipeline, cuts: str, late: str) -> Deployment:
    """What is to run: what `holdfast run` does before it starts any node."""
    spec = RunSpec(
        app="", host="spark", deployment=deployment_of(app, cuts), policy=Policy(workers=1)
    )
    try:
        resumed = check_resume(
            run, spec, [], Starts.parse([f"late={late}"] if late else []), operators=app.operators
        )
    except BadInputError as error:
        if "the run has it already" not in str(error):
            raise
        resumed = check_resume(run, spec, [], operators=app.operators)
    if resumed:
        spec = (reset_operators(run, resumed) if resumed.recut else resumed).spec
    write_spec(run, spec)
    return spec.deployment


def main(run: Path, generation: int, cuts: str, batches: int, late: str = "") -> int:
    operator, _, epoch = late.partition("=")
    cuts, _, shards = cuts.partition("/")
    app, log = pipeline(operator, shards), SliceLog(run)
    deployment = begun(run, app, cuts, epoch)
    if not batches:
        return 0
    from holdfast.runtime.spark.host import SparkUnitHost

    sinks = {item.name for item in deployment.segments if item.kind == "exporter"}
    wanted = {name: log.newest_batch(f"{name}.0#0") + batches for name in sinks}
    host = SparkUnitHost(deployment, app, run, keep_input=True)
    return drive(
        host,
        deployment.units(),
        generation,
        lambda found: (
            {it.unit.segment for it in found if it.batch >= wanted.get(it.unit.segment, 1 << 30)}
            == sinks
        ),
    )


if __name__ == "__main__":
    sys.exit(
        main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
    )
