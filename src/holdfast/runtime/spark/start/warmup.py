"""Running a query of the shape units have, once, so that the next one starts in a moment.

Most of a first batch's time goes into loading and compiling classes, in the JVM and in Python
workers. Also run as a program, to build the class-data-sharing archive.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from holdfast.deployment import Boundary
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.wiring import begin_alone
from holdfast.runtime.spark.frames.compile import read_frames
from holdfast.runtime.spark.io.native import Asker, NativeSource, write_natively
from holdfast.runtime.spark.io.publish import keyed, write_files
from holdfast.runtime.spark.io.reader import InputSpec, ReaderSpec
from holdfast.runtime.spark.start.native import side_of
from holdfast.runtime.spark.start.session import start_session, unit_session
from holdfast.streams.records import Slice

UNIT, INPUT = "warm.0#0", "in.0#0"
BATCHES = 4
TIMEOUT_S = 120.0


def warm_up(
    spark: SparkSession, folder: Path, *, stateful: bool = True, native: bool | None = None
) -> None:
    """Run a few batches through the log in a throw-away directory, as units do by default."""
    root = folder / uuid.uuid4().hex
    native = side_of(spark) == "native" if native is None else native
    try:
        _run(spark, root, stateful=stateful, native=native)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(spark: SparkSession, root: Path, *, stateful: bool, native: bool) -> None:
    log = SliceLog(root)
    begin_alone(log, "in", "warm")
    log.claim(UNIT, 0)
    for number in range(BATCHES):
        _publish(log, number)
    session = unit_session(spark, snapshot_batches=2)
    schema = StructType.fromDDL("ts timestamp, word string, n bigint")
    spec = ReaderSpec(
        root=str(root),
        unit=UNIT,
        generation=0,
        inputs=(InputSpec(boundary="in", stream="in", schema=schema.json(), event_column="ts"),),
        groups=(0, 128),
        batching=Batching(one_epoch_per_batch=True),
    )
    source = _native_source(spark, spec, log) if native else None
    frame = read_frames(session, spec, source.rows if source else None)["in"]
    frame = frame.withColumn("n", F.col("n") + 1)
    if stateful:
        frame = frame.groupBy(F.window("ts", "10 seconds"), "word").agg(F.sum("n").alias("n"))
    out = (Boundary(operator="out", key=("word",)),)
    frame = keyed(frame, out) if native else frame

    def write(batch: DataFrame, number: int) -> None:
        make = write_natively if native else write_files
        make(batch, out, log=log, unit=UNIT, number=number, generation=0)

    query = (
        frame.writeStream.foreachBatch(write)
        .outputMode("update")
        .option("checkpointLocation", str(root / "checkpoint"))
        .start()
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while query.isActive and time.monotonic() < deadline:
            if log.store.exists(f"checkpoint/commits/{BATCHES - 1}"):
                break
            time.sleep(0.02)
    finally:
        log.store.put_if_absent(log.layout.stop_marker(spec.unit, spec.generation), b"")
        query.stop()
        if source:
            source.close()


def _native_source(spark: SparkSession, spec: ReaderSpec, log: SliceLog) -> NativeSource:
    asker = Asker(log=log, failed=_expected_end)
    return NativeSource(spark, spec, asker)


def _expected_end(number: int, error: BaseException) -> None:
    """The query is stopped while it waits for a batch that never comes: nothing to be told."""


def _publish(log: SliceLog, number: int) -> None:
    rows = pa.table(
        {
            "ts": pa.array([number * 1_000_000] * 2).cast(pa.timestamp("us", "UTC")),
            "word": ["a", "b"],
            "n": [1, 2],
        }
    )
    name = f"{number:010d}.arrow"
    file = write_slice_file(log.data(INPUT, "in"), name, rows, np.array([0, 1]), np.array([1, 2]))
    log.publish(
        Slice(
            unit=INPUT,
            number=number,
            after=number - 1,
            upto=number,
            files={"in": (file,)},
            rows=rows.num_rows,
            watermark_us=number * 1_000_000,
        )
    )


def main() -> None:
    """Load what units load, then exit in an orderly way."""
    with tempfile.TemporaryDirectory() as folder:
        spark = start_session("warm")
        for native in {side_of(spark) == "native", False}:
            warm_up(spark, Path(folder), native=native)
        spark.stop()


if __name__ == "__main__":
    main()
