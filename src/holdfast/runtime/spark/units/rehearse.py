"""A spare runs the pipeline's own segments before it is needed, over a log of its own.

Most of what a takeover waits for is done only once per process: Spark analyses the segment's
functions, compiles the code of its stages, starts Python workers and lets them import the user's
modules. So a spare runs every segment, as the very unit it may have to be, for a few batches in a
directory that is removed afterwards. It reads copies of the newest slices where there are any, else
empty ones; what it publishes nobody reads.

The directory lies in the node's own scratch directory, which its launcher removes when the node has
ended, however it ended.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.deployment.slicefiles import Files
from holdfast.errors import BadInputError, in_short
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.spark.units.unit import SparkUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import open_storage
from holdfast.storage.identity import new_id
from holdfast.streams.records import Slice
from holdfast.streams.steps import Newest, slices

log = logging.getLogger("holdfast.spark")

BATCHES = 3
"""The first compiles, the second reads state back, the third is for good measure."""
MAX_ROWS = 20_000
"""A larger slice would only warm the processor."""
TIMEOUT_S = 60.0
WAIT_S = 0.02

ANEW = ":anew"
"""Stands for a path, which none is called: state was laid out over other partitions."""

MakeUnit = Callable[[UnitContext], SparkUnit]


class Rehearsals:
    """What a node has rehearsed, each segment once; thread-safe."""

    def __init__(self, deployment: Deployment, real: SliceLog, folder: Path) -> None:
        self._deployment, self._real, self._folder = deployment, real, folder
        self._done: dict[tuple[str, str, int], bool] = {}
        self._one = threading.Lock()

    def run(
        self,
        segment: Segment,
        make: MakeUnit,
        path: str = "",
        needed: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Rehearse a segment, of a split on one of its paths; whether rows have got through.

        It ends at once when the node is `needed`: what is rehearsed would take the cores from what
        is taken over.
        """
        which = segment.name, path, segment.max_shards
        with self._one:
            if not self._done.get(which):
                deployment = self._deployment
                if path:  # of hot paths, it reads the one that it takes
                    deployment = deployment.on_path(segment.name, path)
                    segment = deployment.segment(segment.name)
                self._done[which] = rehearse(
                    segment, deployment, self._real, self._folder, make, needed
                )
            return self._done[which]

    def require(self, segment: Segment, make: MakeUnit) -> None:
        """Raise if a segment cannot have its state in so many partitions, as its first batch shows.

        In one shard: only who has several partitions finds out how they are filled.
        """
        which = segment.name, ANEW, segment.max_shards
        with self._one:
            if not self._done.get(which):
                deployment = self._deployment.with_partitions(
                    segment.name, segment.max_shards, shards=1
                )
                alone = deployment.segment(segment.name)
                rehearse(alone, deployment, self._real, self._folder, make, strict=True)
                self._done[which] = True


def rehearse(
    segment: Segment,
    deployment: Deployment,
    real: SliceLog,
    folder: Path,
    make: MakeUnit,
    needed: Callable[[], bool] = lambda: False,
    *,
    strict: bool = False,
) -> bool:
    """Run a segment for a few batches; whether rows got through.

    A failure is told, not raised, unless it is to be `strict`.
    """
    with laid_out(segment, deployment, real, folder) as (context, rows):
        return not needed() and _run(make(context), needed, strict=strict) and rows > 0


@contextlib.contextmanager
def laid_out(
    segment: Segment, deployment: Deployment, real: SliceLog, folder: Path, *, every: int = 1
) -> Iterator[tuple[UnitContext, int]]:
    """A unit over a log of its own with copies of slices, and the rows in these; removed after.

    Args:
        segment: what it runs.
        deployment: of the run.
        real: where to copy from.
        folder: where to copy to.
        every: take every so many-th of the newest slices.
    """
    home, place = open_storage(folder), new_id()
    scratch = SliceLog(folder / place)
    # One batch per epoch, so that as many batches run as there are slices.
    segment = replace(segment, batch_epochs=1, one_epoch_per_batch=True, change=0)
    # Whatever was reset or cut otherwise in the run, in the copy all of it begins.
    deployment = replace(
        deployment, segments=tuple(replace(item, change=0) for item in deployment.segments)
    )
    try:
        begin(scratch, deployment)
        rows = sum(
            _lay_out(real, scratch, deployment.segment(stream), every)
            for stream in deployment.streams_read(segment)
        )
        yield (
            UnitContext(
                unit=UnitId(segment=segment.name, shard=0),
                generation=0,
                segment=segment,
                deployment=deployment,
                log=scratch,
                trimmer=Trimmer(scratch, deployment, keep_input=True),
                crash=Crash(),
            ),
            rows,
        )
    finally:
        home.remove_folder(place, aside=f".{place}")


def _run(unit: SparkUnit, needed: Callable[[], bool], *, strict: bool = False) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    unit.start()
    try:
        while unit.progress.report.batch < BATCHES - 1 and time.monotonic() < deadline:
            if unit.progress.report.state == "failed":
                error = in_short(unit.progress.report.error)
                if strict:
                    raise BadInputError(
                        f"it cannot have its state in {unit.context.segment.max_shards} "
                        f"partitions: {error}",
                        where=unit.context.segment.name,
                        hint="it goes on as it is",
                    )
                log.warning("rehearsal of %s failed: %s", unit.context.name, error)
                return False
            if needed():
                log.info("rehearsal of %s is left for what is taken over", unit.context.name)
                return False
            time.sleep(WAIT_S)
        if strict and unit.progress.report.batch < 0:
            raise BadInputError(
                f"in {TIMEOUT_S:g} s no batch has shown whether it can have its state in "
                f"{unit.context.segment.max_shards} partitions",
                where=unit.context.segment.name,
                hint="it goes on as it is",
            )
        return unit.progress.report.batch >= BATCHES - 1
    finally:
        unit.stop()
        unit.join(TIMEOUT_S)


def _lay_out(real: SliceLog, scratch: SliceLog, producer: Segment, every: int) -> int:
    """Newest slices of a stream, if they are not too large, as slices 0, 1, ... of the copy.

    Gives the rows in them. Who carries the stream now may be others than at the beginning, which is
    what the copy has.
    """
    carriers = [child.unit for child in real.carriers(producer.name)]
    rows = 0
    for shard in range(producer.shards):
        samples = _newest(real, carriers[shard % len(carriers)], every) if carriers else []
        unit = str(UnitId(segment=producer.name, shard=shard))
        for number in range(BATCHES):
            sample = samples[number % len(samples)] if samples else None
            if sample is not None and sample.rows > MAX_ROWS:
                sample = None
            files = _copied(real, scratch, sample, unit) if sample else {}
            found = sample.rows if sample and files else 0
            scratch.publish(
                Slice(
                    unit=unit,
                    number=number,
                    after=number - 1,
                    upto=number,
                    files=files,
                    rows=found,
                    watermark_us=sample.watermark_us if sample else 0,
                )
            )
            rows += found
    return rows


def _copied(real: SliceLog, scratch: SliceLog, sample: Slice, unit: str) -> Files:
    """The files of a slice as those of a unit in the copy; none if they are trimmed meanwhile."""
    for boundary, files in sample.files.items():
        for file in files:
            data = real.data(sample.unit, boundary).read(file.name)
            if data is None:
                return {}
            scratch.data(unit, boundary).put_data(file.name, (data,))
    return sample.files


def _newest(real: SliceLog, unit: str, every: int) -> list[Slice]:
    """Up to `BATCHES` slices, `every` apart as far as so many are kept; oldest first."""
    newest = real.records.execute(Newest(slices(unit)))
    apart = [newest - every * back for back in range(BATCHES)]
    wanted = [number for number in apart if number >= 0]
    found = [item for number in wanted if (item := real.slice(unit, number)) is not None]
    return found[::-1]
