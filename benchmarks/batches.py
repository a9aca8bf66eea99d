"""What a batch of a unit costs, slices in Java and through Python, in turn in one session.

A unit runs over slices that lie there already, as fast as it can, exactly as a node runs it: range
record, files, slice record, commit. CPU time is that of Java, its Python workers and the driver, so
that neighbours on the machine do not count. The best round counts: the first one compiles.

    python -m benchmarks.batches [--batches 60] [--rounds 2] [--rows 0 20] [--quick] [--json F]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
class Found:
    first_s: float
    """Start of the unit to its first slice."""
    batch_ms: float
    cpu_ms: float


class Bench:
    """One kind of unit over the same slices."""

    def __init__(self, spark: SparkSession, *, stateful: bool, rows: int, batches: int) -> None:
        self.spark, self.rows, self.batches = spark, rows, batches
        self.pipeline = application(stateful=stateful)
        self.deployment = deploy(self.pipeline, cuts="all")
        self.schemas = check_pipeline(self.pipeline, spark).schemas

    def run(self) -> Found:
        root = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        try:
            return self._run(SliceLog(root))
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _run(self, log: SliceLog) -> Found:
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
        unit.start()
        try:
            first = _reach(unit, 0)
            began, cpu = _reach(unit, WARM), meter.with_own()
            end, used = _reach(unit, self.batches - 1), meter.with_own()
        finally:
            unit.stop()
            unit.join(30.0)
        count = self.batches - 1 - WARM
        return Found(
            first_s=first - start,
            batch_ms=1000 * (end - began) / count,
            cpu_ms=1000 * (used - cpu) / count,
        )

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[0, 20, 20_000])
    parser.add_argument("--quick", action="store_true", help="one round, fewer batches")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.quick:
        args.batches, args.rounds, args.rows = 30, 1, [0, 20]
    ensure_archive()
    spark = start_session("batches", memory_mb=1024)
    found: dict[str, Any] = {}
    print(f"{'':44}{'first slice':>12}{'batch':>10}{'CPU':>10}", flush=True)
    for stateful in (False, True):
        for rows in args.rows:
            bench = Bench(spark, stateful=stateful, rows=rows, batches=args.batches)
            runs: dict[str, list[Found]] = {"native": [], "python": []}
            for _ in range(args.rounds):
                for side, done in runs.items():
                    with slices(side):
                        done.append(bench.run())
            for side, done in runs.items():
                name = f"{'state' if stateful else 'no state'}, {rows} rows, {side}"
                found[name] = row = {
                    "first_s": min(one.first_s for one in done),
                    "batch_ms": min(one.batch_ms for one in done),
                    "cpu_ms": min(one.cpu_ms for one in done),
                }
                print(
                    f"{name:44}{row['first_s']:10.2f} s{row['batch_ms']:7.0f} ms"
                    f"{row['cpu_ms']:7.0f} ms",
                    flush=True,
                )
    print(f"load average {os.getloadavg()[0]:.1f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
