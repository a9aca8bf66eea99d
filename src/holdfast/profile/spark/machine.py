"""What Spark and the disks of this machine take, whatever the pipeline.

Rows of 100 bytes go through queries of the simplest kind: one that copies them from log to log, one
that keeps the newest of every key. What is paid per byte is CPU time, from the slope between two
sizes, because it counts against the cores; what is paid once per batch or once per restore is wall
time, because somebody waits for it.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from holdfast.deployment import Boundary
from holdfast.predict.statistics import Affine, MachineStatistics, Measure
from holdfast.profile import estimate
from holdfast.profile.cache import cores, measured_here
from holdfast.profile.cpu import CALM, DISTURBED, Elsewhere, load_average, when_calm
from holdfast.profile.spark.replay import Replay, Sample, Seen, drop, read_only
from holdfast.runtime.checkpoint.state import StateFiles
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.io.native import write_natively
from holdfast.runtime.spark.io.publish import keyed, write_files
from holdfast.runtime.spark.io.reader import InputSpec
from holdfast.runtime.spark.start.native import side_of
from holdfast.storage import open_storage
from holdfast.streams.records import Slice

Say = Callable[[str], None]

SAMPLE_ROWS = 100_000
PAYLOAD = 88
"""Bytes per row besides the key and the length of this: 100 together."""
SCHEMA = "key bigint, payload binary"
NEVER = 1_000_000
"""Batches between snapshots."""
_IN = "in"
_OUT = Boundary(operator="out", key=("key",))
_WRITER = "out.0#0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How often everything is tried."""

    pairs: int = 6
    large: int = 200_000
    """Rows of a large batch that is copied."""
    small: int = 1000
    empty: int = 16
    """Batches without rows."""
    kept: int = 40_000
    """Rows of a large batch whose keys are kept."""
    restores: int = 4
    logs: int = 200
    """Changelogs of a query that takes no snapshots."""


def measure_machine(
    known: MachineStatistics,
    *,
    spark: SparkSession,
    folder: Path,
    say: Say,
    care: Care | None = None,
) -> MachineStatistics:
    """The machine's numbers but for those of recoveries, which stay as they are known.

    If others kept the cores busy meanwhile, the numbers that rest on the clock say so.
    """
    bench, meanwhile = _Bench(spark, folder, care or Care()), Elsewhere()
    say("measuring slices: writing and reading")
    write, read = bench.slices()
    found = _with_floors(known, bench, say)
    say("measuring state: changelogs and restores")
    state_write = bench.state_write()
    state_read = bench.state_read()
    log_read = bench.log_read()
    if meanwhile.cores() > CALM * cores():
        fixed = replace(state_read.fixed, how=f"{state_read.fixed.how}, {DISTURBED}")
        state_read = replace(state_read, fixed=fixed)
    return replace(
        found,
        slice_write=write,
        slice_read=read,
        state_write=replace(found.state_write, per_byte=state_write),
        state_read=state_read,
        log_read=log_read,
    )


def measure_floors(
    known: MachineStatistics, *, spark: SparkSession, folder: Path, say: Say
) -> MachineStatistics:
    """What a quick profile has the time for: batches with nothing in them."""
    return _with_floors(known, _Bench(spark, folder, Care(empty=8)), say)


def _with_floors(known: MachineStatistics, bench: _Bench, say: Say) -> MachineStatistics:
    """Batches with nothing in them; where they are disturbed, what was measured before stays."""
    say("measuring batches with nothing in them")
    (floor, cpu), calm = when_calm(lambda: bench.floor("copy", _copy, "append"))
    (kept_floor, _), kept_calm = when_calm(lambda: bench.floor("kept", _keep, "update"))
    told = load_average()
    if not (calm and kept_calm):
        if measured_here(known.batch_floor):
            say("other load disturbed them: what an earlier profile has measured is taken")
            return replace(known, cores=cores())
        told = f"{told}, {DISTURBED}"
        floor = replace(floor, how=f"{floor.how}, {DISTURBED}")
    fixed = Measure(
        value=max(0.0, kept_floor.value - floor.value),
        samples=kept_floor.samples,
        how=f"what an empty batch takes longer that keeps state, {told}",
    )
    return replace(
        known,
        cores=cores(),
        batch_floor=floor,
        batch_cpu=cpu,
        state_write=replace(known.state_write, fixed=fixed),
    )


class _Bench:
    def __init__(self, spark: SparkSession, folder: Path, care: Care) -> None:
        self._spark, self._folder, self._care = spark, folder, care
        self._sample = _sample()

    def slices(self) -> tuple[Affine, Affine]:
        """Writing and reading."""
        care, root = self._care, self._folder / "slices"
        log, native = SliceLog(root), side_of(self._spark) == "native"

        def publish(frame: DataFrame, number: int) -> None:
            write = write_natively if native else write_files
            rows = keyed(frame, (_OUT,)) if native else frame
            written = write(rows, (_OUT,), log=log, unit=_WRITER, number=number, generation=0)
            log.publish(
                Slice(
                    unit=_WRITER,
                    number=number,
                    after=number - 1,
                    upto=number,
                    files=written.files,
                    rows=written.rows,
                )
            )

        sizes = [0, care.small, care.large // 4, *[0, care.small, care.large] * care.pairs]
        seen = self._replay(root, _copy, deliver=publish).run(self._sizes(sizes))[3:]
        how = f"slope of CPU time, {care.small} to {care.large} rows of 100 bytes, {load_average()}"
        full = [one for one in seen if one.rows]
        at = [one.size for one in full]
        reading = estimate.line(at, [one.read_cpu_s for one in full], how).per_unit
        writing = estimate.line(at, [one.cpu_s - one.read_cpu_s for one in full], how).per_unit
        empty = [one for one in seen if not one.rows]
        some = [one for one in full if one.rows <= care.small]
        size = statistics.median(one.size for one in some)
        read_fixed = _later(
            [one.read_wall_s for one in some], [one.read_wall_s for one in empty], reading, size
        )
        write_fixed = _later(
            [one.wall_s - one.read_wall_s for one in some],
            [one.wall_s - one.read_wall_s for one in empty],
            writing,
            size,
        )
        return (
            Affine(fixed=write_fixed, per_byte=estimate.at_least_zero(writing)),
            Affine(fixed=read_fixed, per_byte=estimate.at_least_zero(reading)),
        )

    def floor(self, name: str, build: _Build, mode: str) -> tuple[Measure, Measure]:
        """Wall and CPU time from one empty batch to the next."""
        root = self._folder / f"floor-{name}"
        replay = self._replay(root, build, mode=mode, compare=False)
        sizes = [self._care.small, *[0] * self._care.empty]
        seen = replay.run(self._sizes(sizes))[3:]
        pairs = list(itertools.pairwise(seen))
        wall = [after.began - before.began for before, after in pairs]
        cpu = [after.began_cpu_s - before.began_cpu_s for before, after in pairs]
        how = f"from one empty batch of a running query to the next, {load_average()}"
        return estimate.duration(wall, how), estimate.mean(cpu, f"CPU time {how}")

    def state_write(self) -> Measure:
        """Time per byte of changelog that committing takes.

        Looking up and changing state while a batch is computed is the operator's own cost.
        """
        care, root = self._care, self._folder / "kept"
        files = StateFiles(open_storage(root / "checkpoint"))

        def deliver(frame: DataFrame, number: int) -> None:
            drop(frame, number)
            files.scan()  # before Spark removes old ones

        sizes = [care.small, care.kept // 4, *[care.kept // 4, care.kept] * care.pairs]
        replay = self._replay(root, _keep, mode="update", deliver=deliver, compare=False)
        replay.run(self._sizes(sizes))
        files.scan()
        spent = {
            int(item["batchId"]): sum(part["commitTimeMs"] for part in item["stateOperators"]) / 1e3
            for item in replay.progress
        }
        counted = [
            (files.changes[number + 1], seconds)
            for number, seconds in spent.items()
            if number >= 2 and number + 1 in files.changes
        ]
        how = f"slope of Spark's commit time over bytes of changelog, {load_average()}"
        slope = estimate.line(
            [size for size, _ in counted], [seconds for _, seconds in counted], how
        ).per_unit
        return estimate.at_least_zero(slope)

    def state_read(self) -> Affine:
        """Wall time of loading: first batches of restarted queries with much and little state."""
        care = self._care
        large, small = self._folder / "kept", self._folder / "floor-kept"
        none = self._folder / "floor-copy"
        took: dict[Path, list[float]] = {large: [], small: [], none: []}
        sizes: list[float] = []
        for _ in range(care.restores):
            for root, walls in took.items():
                kept = root != none
                replay = self._replay(
                    root,
                    _keep if kept else _copy,
                    mode="update" if kept else "append",
                    compare=False,
                )
                walls.append(replay.restart(0.0))
            sizes.append(_held(large) - _held(small))
        middle = {root: statistics.median(walls) for root, walls in took.items()}
        size = statistics.median(sizes)
        how = f"first batches of restarted queries, {{}}, {load_average()}"
        per_byte = estimate.mean(
            [(a - b) / size for a, b in zip(took[large], took[small], strict=True)],
            how.format(f"{size / 1e6:.0f} MB of state against none"),
        )
        return Affine(
            fixed=Measure(
                value=max(0.0, middle[small] - middle[none]),
                samples=care.restores,
                how=how.format("next to no state against none at all"),
            ),
            per_byte=estimate.at_least_zero(per_byte),
        )

    def log_read(self) -> Measure:
        """Seconds that a restore takes longer for every changelog."""
        care, amount = self._care, 1 / SAMPLE_ROWS
        replay = self._replay(self._folder / "logs", _keep, mode="update", compare=False)
        replay.snapshot_batches = NEVER

        def restarts() -> float:
            return statistics.median(replay.restart(amount) for _ in range(care.restores))

        replay.steady(amount, 1)
        few = restarts()
        before = replay.batches
        replay.steady(amount, care.logs)
        more = replay.batches - before
        return Measure(
            value=max(0.0, restarts() - few) / more,
            samples=2 * care.restores,
            how=f"first batches of restarted queries, {more} changelogs against few, "
            f"{load_average()}",
        )

    def _replay(
        self,
        root: Path,
        build: _Build,
        *,
        mode: str = "append",
        deliver: Callable[[DataFrame, int], None] = drop,
        compare: bool = True,
    ) -> Replay:
        return Replay(
            spark=self._spark,
            root=root,
            samples=[self._sample],
            build=build,
            mode=mode,
            deliver=deliver,
            compare=read_only if compare else None,
        )

    def _sizes(self, rows: Sequence[int]) -> Callable[[Sequence[Seen]], float | None]:
        def choose(seen: Sequence[Seen]) -> float | None:
            return rows[len(seen)] / SAMPLE_ROWS if len(seen) < len(rows) else None

        return choose


_Build = Callable[[Mapping[str, DataFrame]], DataFrame]


def _copy(frames: Mapping[str, DataFrame]) -> DataFrame:
    return frames[_IN]


def _keep(frames: Mapping[str, DataFrame]) -> DataFrame:
    # In one task, as units with one input run.
    return frames[_IN].coalesce(1).groupBy("key").agg(F.max("payload").alias("payload"))


def _sample() -> Sample:
    """Rows of 100 bytes with keys of their own that no compression makes smaller."""
    rng = np.random.default_rng(7)
    offsets = np.arange(SAMPLE_ROWS + 1, dtype=np.int32) * PAYLOAD
    payload = pa.Array.from_buffers(
        pa.binary(),
        SAMPLE_ROWS,
        [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(rng.bytes(SAMPLE_ROWS * PAYLOAD))],
    )
    rows: Any = pa.table({"key": pa.array(np.arange(SAMPLE_ROWS)), "payload": payload})
    schema = StructType.fromDDL(SCHEMA)
    return Sample(
        spec=InputSpec(boundary=_IN, stream=_IN, schema=schema.json()), key=("key",), rows=rows
    )


def _held(root: Path) -> float:
    """Bytes that a restore of a checkpoint reads: the newest snapshot and the changelogs since."""
    files = StateFiles(open_storage(root / "checkpoint"))
    files.scan()
    snapshots = files.snapshots()
    version, size = (snapshots[-1].version, snapshots[-1].size) if snapshots else (0, 0)
    return float(size + sum(files.changes[at] for at in files.changes if at > version))


def _later(some: Sequence[float], none: Sequence[float], slope: Measure, size: float) -> Measure:
    """What few rows take longer than none, beyond their bytes."""
    value = statistics.median(some) - statistics.median(none) - slope.value * size
    how = f"wall time of a batch with few rows against one with none, {load_average()}"
    return Measure(value=max(0.0, value), samples=len(some), how=how)
