"""Runs all units of an application in one process until its exporters have reached an epoch.

Usage: unit_driver.py APP RUN GENERATION EPOCH [CUTS [REPLICA]]
With REPLICA every unit has a follower, and those with this number are run, followers as soon as
their sources have leaders.
Started by tests in a process group of its own, so that a crash point can kill all of it.
"""

from __future__ import annotations

import sys
import time

from tests.spark.driving import TIMEOUT_S, drive

from holdfast.deployment import Deployment
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.replicas import with_followers
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost

SURVIVED = 10
"""Batches: crash points are met in the sixth or a later one."""


def main(app: str, run: str, generation: int, epoch: int, cuts: str, replica: str) -> int:
    pipeline = load_pipeline(app)
    deployment = deploy(pipeline, cuts="all" if cuts == "all" else cuts.split(","))
    units = deployment.units()
    if replica:
        deployment = with_followers(pipeline, deployment, ["all"])
        units = tuple(unit for unit in deployment.replicas() if unit.replica == int(replica))
    host = SparkUnitHost(deployment, pipeline, run, keep_input=True)
    if replica == "1":
        await_leaders(SliceLog(run), deployment)
    exporters = {item.name for item in deployment.segments if item.kind == "exporter"}

    def is_done(found):
        delivering = [item for item in found if item.unit.segment in exporters]
        # A unit that starts late may reach the epoch in one batch; windows close in the next.
        # A survivor goes on beyond the batch in which the other replica dies.
        least = SURVIVED if replica else 3
        return all(item.epoch >= epoch and item.batch >= least for item in delivering)

    return drive(host, units, generation, is_done)


def await_leaders(log: SliceLog, deployment: Deployment) -> None:
    """Whoever publishes first leads: not one that happens to start sooner."""
    sources = {item.name for item in deployment.segments if item.kind == "source"}
    names = [unit.name for unit in deployment.units() if unit.segment in sources]
    deadline = time.monotonic() + TIMEOUT_S
    while not all(log.slice(name, 0) for name in names) and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    cuts, replica = (*arguments[4:], *("all", "")[len(arguments[4:]) :])[:2]
    sys.exit(main(*arguments[:2], int(arguments[2]), int(arguments[3]), cuts, replica))
