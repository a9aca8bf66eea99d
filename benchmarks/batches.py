"""What a batch of a unit costs, slices in Java and through Python, in turn in one session.

A unit runs over slices that lie there already, as fast as it can, exactly as a node runs it: range
record, files, slice record, commit. CPU time is that of Java, its Python workers and the driver, so
that neighbours on the machine do not count. The best round counts: the first one compiles. A cold
start is a process of its own, from nothing to the first slice of a unit that keeps state.

    python -m benchmarks.batches [--batches 60] [--rounds 2] [--rows 0 20] [--cold 3] [--json F]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks._stream_common import slices
from holdfast.deployment import UnitId
from holdfast.deployment.slicefiles import SliceFile
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.profile.cpu import CpuMeter
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.hashing import key_groups
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.spark.frames.check import check_pipeline
from holdfast.runtime.spark.start.archive import ensure_archive
from holdfast.runtime.spark.start.session import start_session
from holdfast.runtime.spark.units.unit import SparkUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Slice

SCHEMA = "ts timestamp, word string, n bigint"
WARM = 10
"""Batches that are not counted."""
LIMIT_S = 400.0
SIDES = ("native", "python")
BARS = {
    ("no state, 0 rows", "batch_ms"): 0.5,
    ("no state, 0 rows", "cpu_ms"): 0.5,
    ("cold start", "first_s"): 0.75,
    ("cold start", "cpu_ms"): 0.75,
}
"""What Java may take of what Python takes, at most."""


def copied(frame: DataFrame) -> DataFrame:
    return frame.withColumn("n", sf.col("n") + 1)


def counted(frame: DataFrame) -> DataFrame:
    return frame.groupBy(sf.window("ts", "10 seconds"), "word").agg(sf.sum("n").alias("n"))


def application(*, stateful: bool) -> Pipeline:
    made = Pipeline("batches", event_time=("ts", "1 second"), epoch="1s")
    source = made.source("in", Generator(lambda _, __: [], SCHEMA))
    result = (
        source.aggregate("out", counted, key="word", output="append")
        if stateful
        else source.map("out", copied)
    )
    made.sink("end", result, Parquet("end"))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """When a batch was done, since the start of the unit."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    first_s: float
    """Start of the unit to its first slice."""
    batch_ms: float
    cpu_ms: float


class Bench:
    """One kind of unit over the same slices."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, *, rows: int, batches: int) -> None:
        self.spark, self.rows, self.batches = spark, rows, batches
        self.pipeline = pipeline
        self.deployment = deploy(self.pipeline, cuts="all")
        self.schemas = check_pipeline(self.pipeline, spark).schemas

    def run(self) -> Found:
        first, begin, end = self.marks([0, WARM, self.batches - 1])
        count = self.batches - 1 - WARM
        return Found(
            first_s=first.wall_s,
            batch_ms=1000 * (end.wall_s - begin.wall_s) / count,
            cpu_ms=1000 * (end.cpu_s - begin.cpu_s) / count,
        )

    def marks(self, numbers: Sequence[int]) -> list[Mark]:
        """Run a unit over all slices; when these batches were done."""
        root = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        try:
            return self._run(SliceLog(root), numbers)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _run(self, log: SliceLog, numbers: Sequence[int]) -> list[Mark]:
        # One slice a batch, however many there are.
        segment = replace(self.deployment.segment("out"), one_epoch_per_batch=True)
        begin(log, self.deployment)
        for number in range(self.batches):
            self._publish(log, segment.inputs[0], number)
        context = UnitContext(
            unit=UnitId(segment="out"),
            generation=0,
            segment=segment,
            deployment=self.deployment,
            log=log,
            trimmer=Trimmer(log, self.deployment, keep_input=True),
            crash=Crash(),
        )
        unit = SparkUnit(
            context,
            spark=self.spark,
            pipeline=self.pipeline,
            schemas=self.schemas,
            starts=threading.Lock(),
            clone_from=None,
        )
        meter, start = CpuMeter(), time.monotonic()
        used = meter.with_own()
        unit.start()
        try:
            return [
                Mark(wall_s=_reach(unit, number) - start, cpu_s=meter.with_own() - used)
                for number in numbers
            ]
        finally:
            unit.stop()
            unit.join(30.0)

    def _publish(self, log: SliceLog, boundary: str, number: int) -> None:
        files: tuple[SliceFile, ...] = ()
        if self.rows:
            words = [f"word-{n % 5000}" for n in range(self.rows)]
            times = pa.array([number * 1_000_000] * self.rows, pa.int64())
            table = pa.table(
                {
                    "ts": times.cast(pa.timestamp("us", "UTC")),
                    "word": words,
                    "n": pa.array(range(self.rows), pa.int64()),
                }
            )
            name, groups = f"{number:010d}.arrow", key_groups(table, ("word",))
            hashes = np.zeros(self.rows, np.uint64)
            files = (write_slice_file(log.data("in.0#0", boundary), name, table, groups, hashes),)
        log.publish(
            Slice(
                unit="in.0#0",
                number=number,
                after=number - 1,
                upto=number,
                files={boundary: files},
                rows=self.rows,
                watermark_us=number * 1_000_000,
            )
        )


def _reach(unit: SparkUnit, number: int) -> float:
    """When a batch was done."""
    end = time.monotonic() + LIMIT_S
    while unit.progress.report.batch < number:
        if unit.progress.report.state == "failed":
            raise SystemExit(unit.progress.report.error)
        if time.monotonic() > end:
            raise SystemExit(f"batch {number} took longer than {LIMIT_S} s")
        time.sleep(0.002)
    return time.monotonic()


def cold_start() -> Mark:
    """From nothing to the first slice, in this process."""
    meter, start = CpuMeter(), time.monotonic()
    used = meter.with_own()
    spark = start_session("batches")
    Bench(spark, application(stateful=True), rows=20, batches=1).marks([0])
    return Mark(wall_s=time.monotonic() - start, cpu_s=meter.with_own() - used)


def _cold_starts(times: int) -> dict[str, dict[str, float]]:
    """Medians of both sides, in turn."""
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(times):
        for side, done in runs.items():
            with slices(side):
                found = subprocess.run(
                    [sys.executable, "-m", "benchmarks.batches", "--one"],
                    capture_output=True,
                    text=True,
                    check=True,
                )
            done.append(json.loads(found.stdout.splitlines()[-1]))
    return {
        f"cold start, {side}": {
            name: statistics.median(run[name] for run in done) for name in ("first_s", "cpu_ms")
        }
        for side, done in runs.items()
    }


def _warm(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Batches of a session that stays, both sides in turn."""
    spark = start_session("batches", memory_mb=1024)
    found = {}
    for stateful in (False, True):
        for rows in args.rows:
            bench = Bench(spark, application(stateful=stateful), rows=rows, batches=args.batches)
            runs: dict[str, list[Found]] = {side: [] for side in SIDES}
            for _ in range(args.rounds):
                for side, done in runs.items():
                    with slices(side):
                        done.append(bench.run())
            for side, done in runs.items():
                name = f"{'state' if stateful else 'no state'}, {rows} rows, {side}"
                found[name] = {
                    "first_s": min(one.first_s for one in done),
                    "batch_ms": min(one.batch_ms for one in done),
                    "cpu_ms": min(one.cpu_ms for one in done),
                }
                _print(name, found[name])
    return found


def _print(name: str, row: dict[str, float]) -> None:
    batch = f"{row['batch_ms']:7.0f} ms" if "batch_ms" in row else f"{'-':>10}"
    print(f"{name:44}{row['first_s']:10.2f} s{batch}{row['cpu_ms']:7.0f} ms", flush=True)


def _print_bars(found: dict[str, dict[str, float]]) -> None:
    for name, row in found.items():
        other = found.get(f"{name.removesuffix('native')}python")
        if other is None or other is row:
            continue
        for what, value in row.items():
            bar = BARS.get((name.removesuffix(", native"), what))
            ratio = value / other[what]
            if bar is not None:
                says = "met" if ratio <= bar else "missed"
                print(f"{name}, {what}: {ratio:.2f} of Python; bar {bar}: {says}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[0, 20, 20_000])
    parser.add_argument("--cold", type=int, default=3, help="cold starts of each side")
    parser.add_argument("--quick", action="store_true", help="one round, fewer batches")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.one:
        mark = cold_start()
        print(json.dumps({"first_s": mark.wall_s, "cpu_ms": 1000 * mark.cpu_s}))
        return
    if args.quick:
        args.batches, args.rounds, args.rows, args.cold = 30, 1, [0, 20], 1
    ensure_archive()
    print(f"{'':44}{'first slice':>12}{'batch':>10}{'CPU':>10}", flush=True)
    found = _cold_starts(args.cold) if args.cold else {}
    for name, row in found.items():
        _print(name, row)
    found |= _warm(args)
    _print_bars(found)
    print(f"load average {os.getloadavg()[0]:.1f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
