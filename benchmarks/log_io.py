"""Rows through the slice log, in Java and through Python, against Spark's own Parquet files.

Same rows, same session, alternating, best of several rounds; CPU time of all processes together:

    python -m benchmarks.log_io [--rows 500000] [--rounds 5] [--quick] [--json FILE]

The slice log pays for a layout by key group, digests and checksums; through Python for an Arrow hop
there and back too.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import Boundary
from holdfast.deployment.slicefiles import content_digest
from holdfast.profile.cpu import CpuMeter
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin_alone
from holdfast.runtime.spark.io.native import Asker, NativeSource, write_natively
from holdfast.runtime.spark.io.publish import keyed, write_files
from holdfast.runtime.spark.io.reader import InputSpec, ReaderSpec, task
from holdfast.runtime.spark.start.session import start_session
from holdfast.streams.records import Slice


def rows_of(spark: SparkSession, rows: int) -> DataFrame:
    """Cached rows of a word count: time, word, number."""
    frame = spark.range(rows, numPartitions=1).select(
        F.timestamp_micros(F.col("id") * 1000).alias("ts"),
        F.concat(F.lit("word-"), F.pmod(F.hash("id"), F.lit(5000)).cast("string")).alias("word"),
        F.col("id").alias("value"),
    )
    frame = frame.cache()
    frame.count()
    return frame


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of CPU time."""
    meter = CpuMeter()
    start, cpu = time.perf_counter(), meter.with_own()
    action()
    return time.perf_counter() - start, meter.with_own() - cpu


class Slices:
    """Writes and reads through the log as units do."""

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame,
        root: Path,
        key: tuple[str, ...],
        *,
        native: bool,
    ) -> None:
        self.spark, self.frame, self.root, self.native = spark, frame, root, native
        self.boundary = Boundary(operator="bench", key=key)
        self.log = SliceLog(root)
        begin_alone(self.log, "bench", "reader")
        self.number = -1

    def write(self) -> None:
        self.number += 1
        rows = keyed(self.frame, (self.boundary,)) if self.native else self.frame
        written = (write_natively if self.native else write_files)(
            rows,
            (self.boundary,),
            log=self.log,
            unit="bench.0#0",
            number=self.number,
            generation=0,
        )
        self.log.publish(
            Slice(
                unit="bench.0#0",
                number=self.number,
                after=self.number - 1,
                upto=self.number,
                files=written.files,
                rows=written.rows,
                digest=content_digest(written.files),
            )
        )

    def read(self, number: int) -> None:
        """Batch `number` reads slice `number`."""
        spec = ReaderSpec(
            root=str(self.root),
            unit="reader.0#0",
            generation=0,
            inputs=(
                InputSpec(
                    boundary=self.boundary.name, stream="bench", schema=self.frame.schema.json()
                ),
            ),
            groups=(0, 128),
            batching=Batching(one_epoch_per_batch=True),
        )
        if self.native:
            asker = Asker(log=self.log, failed=lambda *_: None)
            source = NativeSource(self.spark, spec, asker)
            rows = source.batch_rows(self.spark, 0, number)
        else:
            clock = self.spark.range(number, number + 1, numPartitions=1)
            rows = clock.mapInArrow(task(spec, 0), spec.inputs[0].struct())
        rows.write.format("noop").mode("overwrite").save()
        if self.native:
            source.close()


def measure(rows: int, rounds: int) -> dict[str, dict[str, float]]:
    spark = start_session("log-io", memory_mb=1024)
    root = Path(tempfile.mkdtemp())
    try:
        frame = rows_of(spark, rows)
        logs = {
            f"slices {where}{key}": Slices(
                spark, frame, root / where / key, columns, native=where == "in Java"
            )
            for where in ("in Java", "in Python")
            for key, columns in (("", ()), (" by key", ("word",)))
        }
        parquet = str(root / "parquet")
        times: dict[str, list[tuple[float, float]]] = {}

        def take(name: str, action: Callable[[], object]) -> None:
            times.setdefault(name, []).append(timed(action))

        for number in range(rounds):
            take("parquet write", lambda: frame.write.mode("overwrite").parquet(parquet))
            for name, log in logs.items():
                take(f"{name} write", log.write)
            take(
                "parquet read",
                lambda: (
                    spark.read.schema(frame.schema)
                    .parquet(parquet)
                    .write.format("noop")
                    .mode("overwrite")
                    .save()
                ),
            )
            for name, log in logs.items():
                take(f"{name} read", functools.partial(log.read, number))
        return {
            name: {
                "rows_per_s": rows / min(wall for wall, _ in values),
                "cpu_us_per_row": 1e6 * min(cpu for _, cpu in values) / rows,
            }
            for name, values in times.items()
        }
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer rows, two rounds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds = 100_000, 2
    found = measure(options.rows, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    for name, row in found.items():
        print(f"{name:30} {row['rows_per_s']:12,.0f} rows/s {row['cpu_us_per_row']:8.2f} us of CPU")


if __name__ == "__main__":
    main()
