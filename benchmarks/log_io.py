"""Rows per second through the slice log against Spark's native Parquet writer and reader.

Same rows, same session, alternating, best of several rounds:

    python -m benchmarks.log_io [--rows 500000] [--rounds 5] [--quick] [--json FILE]

The slice log pays for an Arrow hop to Python, a layout by key group, digests and checksums.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import Boundary
from holdfast.deployment.records import SliceRecord
from holdfast.runtime.log.protocol import Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.io.publish import write_files
from holdfast.runtime.spark.io.reader import InputSpec, ReaderSpec, task
from holdfast.runtime.spark.start.session import start_session


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


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


class Slices:
    """Writes and reads through the log as units do."""

    def __init__(
        self, spark: SparkSession, frame: DataFrame, root: Path, key: tuple[str, ...]
    ) -> None:
        self.spark, self.frame, self.root = spark, frame, root
        self.boundary = Boundary(operator="bench", key=key)
        self.log = SliceLog(root)
        self.number = -1

    def write(self) -> None:
        self.number += 1
        written = write_files(
            self.frame,
            (self.boundary,),
            log=self.log,
            shard=0,
            number=self.number,
            generation=0,
        )
        record = SliceRecord(
            boundary=self.boundary.name,
            shard=0,
            number=self.number,
            after=self.number - 1,
            upto=self.number,
            files=written.files[self.boundary.name],
        )
        self.log.put_slice(record, unit="bench#0")

    def read(self, number: int) -> None:
        """Batch `number` reads slice `number`."""
        spec = ReaderSpec(
            root=str(self.root),
            unit="reader#0",
            generation=0,
            inputs=(
                InputSpec(boundary=self.boundary.name, shards=1, schema=self.frame.schema.json()),
            ),
            groups=(0, 128),
            batching=Batching(one_epoch_per_batch=True),
        )
        clock = self.spark.range(number, number + 1, numPartitions=1)
        rows = clock.mapInArrow(task(spec, 0), spec.inputs[0].struct())
        rows.write.format("noop").mode("overwrite").save()


def measure(rows: int, rounds: int) -> dict[str, float]:
    spark = start_session("log-io", memory_mb=1024)
    root = Path(tempfile.mkdtemp())
    try:
        frame = rows_of(spark, rows)
        keyed = Slices(spark, frame, root / "keyed", ("word",))
        plain = Slices(spark, frame, root / "plain", ())
        parquet = str(root / "parquet")
        times: dict[str, list[float]] = {}

        def take(name: str, action: Callable[[], object]) -> None:
            times.setdefault(name, []).append(timed(action))

        for number in range(rounds):
            take("parquet write", lambda: frame.write.mode("overwrite").parquet(parquet))
            take("slices write", plain.write)
            take("slices by key write", keyed.write)
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
            take("slices read", lambda n=number: plain.read(n))  # type: ignore[misc]
            take("slices by key read", lambda n=number: keyed.read(n))  # type: ignore[misc]
        return {name: rows / min(values) for name, values in times.items()}
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
        rounded = {name: round(value) for name, value in found.items()}
        options.json.write_text(json.dumps(rounded, indent=1) + "\n")
    for name, value in found.items():
        native = found["parquet write" if name.endswith("write") else "parquet read"]
        print(f"{name:20} {value:12,.0f} rows/s   {value / native:5.2f} of parquet")


if __name__ == "__main__":
    main()
