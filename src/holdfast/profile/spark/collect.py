"""Run a pipeline cut at every operator for a while, so that every edge is a log to read from.

Everything runs in this process and on one session, which the measurements after it use too. Sinks
are left out: a profile delivers nothing to anyone. Nothing is trimmed either, because every
boundary has one more consumer, which never starts and so still needs everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.control.events import UnitReport
from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline, deploy
from holdfast.profile.observe import units_of
from holdfast.runtime.checkpoint.state import StateFiles
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.streams.records import Slice

POLL_S = 0.1
START_S = 300.0
"""How long units may take until each has published something."""
LONGER_S = 60.0
"""How much longer than asked to run at most, if there is too little to see."""
LEAST_BATCHES = 4
LEAST_SNAPSHOTS = 4
SNAPSHOT_BATCHES = 2
"""Snapshots are looked at, so that there must be some even in a short profile."""
SETTINGS = {
    # Snapshots are uploaded by a background task that by default runs once a minute.
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    # What Spark says about batches is read once a query has ended.
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}
"""What the session of a profile needs beyond the settings of every session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a run left behind."""

    deployment: Deployment
    """Cut at every operator; exporters included, though none ran."""
    log: SliceLog
    records: dict[str, list[Slice]]
    """Unit to its slices, in order."""
    state: dict[str, dict[int, StateFiles]]
    """Operator to its shards' state, for operators that keep some."""
    schemas: dict[str, StructType]


def cut_everywhere(pipeline: Pipeline) -> Deployment:
    """Every operator its own segment."""
    return deploy(pipeline, cuts="all", snapshot_batches=SNAPSHOT_BATCHES)


def collect(
    pipeline: Pipeline,
    *,
    spark: SparkSession,
    folder: Path,
    seconds: float,
    say: Callable[[str], None],
) -> Collected:
    """Run for at least so many seconds from when every operator has put out a slice."""
    deployment = cut_everywhere(pipeline)
    host = SparkUnitHost(pinned(deployment), pipeline, folder, keep_input=True, spark=spark)
    log = SliceLog(folder)
    units = [
        UnitId(segment=segment.name, shard=shard)
        for segment in deployment.segments
        if segment.kind != "exporter"
        for shard in range(segment.shards)
    ]
    state = {
        segment.operators[-1]: {
            shard: StateFiles(
                log.store.below(log.layout.checkpoint(UnitId(segment=segment.name, shard=shard), 0))
            )
            for shard in range(segment.shards)
        }
        for segment in deployment.segments
        if segment.stateful
    }
    try:
        schemas = dict(host.schemas())  # mistakes are told before anything starts
        say(f"starting {len(units)} units, cut at every operator")
        for unit in units:
            host.start(unit, 0, None)
        _wait_started(host, units)
        say(f"running for {seconds:g} s")
        began = time.monotonic()
        while True:
            found = host.poll()
            _check(found)
            for shards in state.values():
                for files in shards.values():
                    files.scan()
            passed = time.monotonic() - began
            if passed >= seconds and (passed >= seconds + LONGER_S or _enough(found, state)):
                break
            time.sleep(POLL_S)
    finally:
        host.close()
    for shards in state.values():
        for files in shards.values():
            files.scan()
    records = {
        unit: list(log.slices_from(unit, 0))
        for segment in deployment.segments
        if segment.outputs
        for unit in units_of(segment)
    }
    return Collected(deployment=deployment, log=log, records=records, state=state, schemas=schemas)


def pinned(deployment: Deployment) -> Deployment:
    """The deployment with one consumer more per boundary, for which the log must be kept."""
    pins = tuple(
        Segment(
            name=f"profile of {boundary.name}",
            kind="exporter",
            operators=(boundary.operator,),
            inputs=(boundary.name,),
        )
        for segment in deployment.segments
        for boundary in segment.outputs
    )
    return replace(deployment, segments=(*deployment.segments, *pins))


def _wait_started(host: SparkUnitHost, units: list[UnitId]) -> None:
    end = time.monotonic() + START_S
    while True:
        found = host.poll()
        _check(found)
        waiting = [status.unit for status in found if status.batch < 0]
        if len(found) == len(units) and not waiting:
            return
        if time.monotonic() > end:
            names = ", ".join(map(str, waiting))
            raise BadInputError(
                f"published nothing within {START_S:g} s", where=names, hint="try `holdfast run`"
            )
        time.sleep(POLL_S)


def _enough(found: list[UnitReport], state: Mapping[str, Mapping[int, StateFiles]]) -> bool:
    """Whether there is something to see of every operator: a busy machine may be slow."""
    return all(status.batch + 1 >= LEAST_BATCHES for status in found) and all(
        len(files.snapshots()) >= LEAST_SNAPSHOTS
        for shards in state.values()
        for files in shards.values()
    )


def _check(found: list[UnitReport]) -> None:
    for status in found:
        if status.state == "failed":
            lines = (status.error or "no reason given").strip().splitlines()
            raise BadInputError(
                f"failed while it was profiled: {lines[-1]}",
                where=status.operator or str(status.unit),
                hint="`holdfast run` shows the whole traceback",
            )
