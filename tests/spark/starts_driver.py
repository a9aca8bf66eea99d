"""A run that is begun anew in part, in a process of its own that can be killed at any step.

Usage: starts_driver.py RUN GENERATION ASK BATCHES
ASK: `reset=EPOCH`, `late=EPOCH` or nothing; what was asked before and left half done is done first.
BATCHES: how many the newest unit of every sink must have delivered; 0: begin only, run nothing.
"""

from __future__ import annotations

import sys

from tests.spark.driving import drive, events, totals

from holdfast.deployment import Deployment
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.log.anew import begin_anew, finish_restart, with_changes
from holdfast.runtime.log.crash import crash_plan
from holdfast.runtime.log.slicelog import SliceLog


def pipeline(*, late: bool = False) -> Pipeline:
    made = Pipeline("starts", event_time=("ts", "1 second"), epoch="0.2s")
    source = made.source("events", Generator(events, "ts timestamp, key string, value bigint"))
    summed = source.aggregate("sum", totals, key="key", output="upsert")
    made.sink("out", summed, Parquet("out"))
    if late:
        made.sink("late", summed, Parquet("late"))
    return made


def begun(run: str, app: Pipeline, ask: str) -> Deployment:
    """What is to run, with all that begins anew on record."""
    log, crash = SliceLog(run), crash_plan()
    finish_restart(log, lambda _: None, crash)
    deployment = with_changes(log, deploy(app))
    what, _, epoch = ask.partition("=")
    if not epoch:
        return deployment
    names = ("sum", "out") if what == "reset" else ("late",)
    return begin_anew(log, deployment, dict.fromkeys(names, int(epoch)), crash=crash)


def main(run: str, generation: int, ask: str, batches: int) -> int:
    log = SliceLog(run)
    late = "late" in ask or bool(log.carriers("late"))
    app = pipeline(late=late)
    deployment = begun(run, app, ask)
    if not batches:
        return 0
    from holdfast.runtime.spark.host import SparkUnitHost

    host = SparkUnitHost(deployment, app, run, keep_input=True)
    exporters = {item.name for item in deployment.segments if item.kind == "exporter"}

    def is_done(found):
        sinks = [item for item in found if item.unit.segment in exporters]
        return bool(sinks) and all(item.batch >= batches for item in sinks)

    return drive(host, deployment.units(), generation, is_done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
