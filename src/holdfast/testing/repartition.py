"""What Spark itself offers to one who wants another number of partitions: everything stops for it.

    python -m holdfast.testing.repartition KEYS FOLDER

A count per key is stopped, its checkpoint repartitioned offline and the count started again. In a
process of its own, so that those who compare with it need no session.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.errors import CheckFailedError
from holdfast.runtime.spark.start.session import start_session, unit_session

ROWS = 200
"""Rows of a batch, but for the first one, which brings all keys."""
DEADLINE_S = 600.0


def counting(frame: DataFrame) -> DataFrame:
    """How often each key came up."""
    return frame.groupBy("key").count()


def repartitioned_s(spark: SparkSession, keys: int, folder: Path) -> float:
    """Stop, repartition the checkpoint from 1 to 2 partitions, start, first batch: seconds."""
    source, checkpoint = folder / "in", folder / "checkpoint"
    source.mkdir(parents=True)
    _write(source / "0.parquet", range(keys))
    query = _start(spark, source, checkpoint, partitions=1)
    query.processAllAvailable()
    _write(source / "1.parquet", range(ROWS))
    query.processAllAvailable()
    began = time.monotonic()
    query.stop()
    spark._streamingCheckpointManager.repartition(str(checkpoint), 2)  # noqa: SLF001 - no other way
    query = _start(spark, source, checkpoint, partitions=2)
    _write(source / "2.parquet", range(ROWS))
    query.processAllAvailable()
    took = time.monotonic() - began
    query.stop()
    return took


def repartitioned_apart(keys: int, folder: Path) -> float:
    """The same in another process, which has a session of its own."""
    command = [sys.executable, "-m", __name__, str(keys), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode:
        raise CheckFailedError(f"Spark's repartitioning failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout.split()[-1])


def _write(path: Path, keys: Iterable[int]) -> None:
    hidden = path.with_name(f".{path.name}")
    pq.write_table(pa.table({"key": pa.array(keys, pa.int64())}), hidden)
    hidden.rename(path)


def _start(
    spark: SparkSession, source: Path, checkpoint: Path, *, partitions: int
) -> StreamingQuery:
    session = unit_session(spark, snapshot_batches=10)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    rows = session.readStream.schema("key bigint").parquet(str(source))
    return (
        counting(rows)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def main() -> None:
    """For `repartitioned_apart`."""
    spark = start_session("repartition")
    try:
        seconds = repartitioned_s(spark, int(sys.argv[1]), Path(sys.argv[2]))
        sys.stdout.write(f"{seconds}\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
