"""How long the first batch of a query with transformWithState takes: Python ready, or started anew.

Spark starts an interpreter for every such query in its first batch. In turn, it is one that is
forked ready and one that is started and imports everything; the session is warm, as on a spare.

    python -m benchmarks.interpreters [--rounds 5] [--quick] [--json F]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from examples.loyalty import reward
from pyspark.sql import DataFrame

from benchmarks.batches import SCHEMA, Bench
from holdfast.pipeline import Generator, Pipeline, Sqlite
from holdfast.runtime.spark.frames.compile import ship_by_value
from holdfast.runtime.spark.start.archive import ensure_archive
from holdfast.runtime.spark.start.session import start_session

BATCHES = 2


def counted(frame: DataFrame) -> DataFrame:
    """The example's custom state, by word."""
    rows = reward(frame.withColumnRenamed("word", "customer"))
    return rows.withColumnRenamed("customer", "word")


def application() -> Pipeline:
    made = Pipeline("interpreters", event_time=("ts", "1 second"), epoch="1s")
    source = made.source("in", Generator(lambda _, __: [], SCHEMA))
    counts = source.stateful("out", counted, key="word", output="upsert")
    made.sink("end", counts, Sqlite("end.db", "counts"))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rounds = 2 if args.quick else args.rounds
    ensure_archive()
    spark = start_session("interpreters", memory_mb=1024)
    pythons = {"ready": spark.sparkContext.pythonExec, "new": sys.executable}
    pipeline = application()
    ship_by_value(pipeline)
    bench = Bench(spark, pipeline, rows=20, batches=BATCHES)
    found: dict[str, list[float]] = {name: [] for name in pythons}
    for turn in range(rounds + 1):
        for name, python in pythons.items():
            spark.sparkContext.pythonExec = python
            first = bench.marks([0])[0].wall_s
            if turn:  # the first round compiles, and starts the daemons of workers
                found[name].append(first)
                print(f"{name:8}{first:8.2f} s to the first slice", flush=True)
    middle = {name: statistics.median(values) for name, values in found.items()}
    print(
        f"median {middle['ready']:.2f} s ready, {middle['new']:.2f} s new: "
        f"{middle['ready'] / middle['new']:.2f} of it (load average {os.getloadavg()[0]:.1f})"
    )
    if args.json:
        args.json.write_text(json.dumps({"first_s": found, "medians": middle}, indent=1) + "\n")


if __name__ == "__main__":
    main()
