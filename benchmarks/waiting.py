"""What waiting costs, and how soon a waiting unit is woken: with the node's watcher and without.

Eight tasks, each a process as Spark's Python workers are, wait for two shards of one boundary.
First nothing is published: processor time of all of them and the watcher. Then slices appear, put
by another node (found by looking) and by the same node (told): time until a task has its range.

    python -m benchmarks.waiting [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import random
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.rundir.layout import member, record_folder
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.watch import NodeWatch
from holdfast.runtime.log.wiring import begin_alone
from holdfast.runtime.spark.io.reader import InputSpec, LogReader, ReaderSpec
from holdfast.streams.codec import encode
from holdfast.streams.records import Slice
from holdfast.streams.steps import slices as slices_of
from holdfast.streams.unit import Proposal

UNITS = 8
SHARDS = 2
SCHEMA = StructType([StructField("v", LongType())]).json()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    idle_s, slices = (5.0, 20) if args.quick else (30.0, 200)
    found: dict[str, Any] = {}
    for name, watched, told in (
        ("each looks for itself", False, False),
        ("watcher, put elsewhere", True, False),
        ("watcher, put on the node", True, True),
    ):
        found[name] = row = _measure(idle_s, slices, watched=watched, told=told)
        print(
            f"{name:26} {row['idle_cpu_s_per_minute']:6.2f} s CPU a minute idle;"
            f" woken after {row['mean_ms']:.1f} ms in the mean,"
            f" {row['median_ms']:.1f} in the median, {row['p95_ms']:.1f} at p95",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _measure(idle_s: float, slices: int, *, watched: bool, told: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        log = SliceLog(folder)
        begin_alone(log, "b", shards=SHARDS)
        begin_alone(log, *(f"u{unit}" for unit in range(UNITS)))
        for shard in range(SHARDS):
            (Path(folder) / record_folder(slices_of(f"b.0#{shard}"))).mkdir(parents=True)
        # Forked before the watcher's thread starts.
        pairs = [mp.Pipe() for _ in range(UNITS)]
        context = mp.get_context("fork")
        tasks = [
            context.Process(target=_task, args=(folder, unit, pairs[unit][1]), daemon=True)
            for unit in range(UNITS)
        ]
        for task in tasks:
            task.start()
        watch = NodeWatch()
        if watched:
            watch.start()
        pipes = [pair[0] for pair in pairs]
        try:
            for pipe in pipes:
                pipe.send(watch.address)
            time.sleep(1.0)  # all wait by now
            idle = _idle([task.pid or 0 for task in tasks], idle_s)
            delays = _delays(log, pipes, slices, watch if told else None)
        finally:
            for task in tasks:
                task.kill()
                task.join()
            watch.close()
    delays.sort()
    return {
        "idle_cpu_s_per_minute": 60 * idle,
        "mean_ms": 1000 * statistics.mean(delays),
        "median_ms": 1000 * statistics.median(delays),
        "p95_ms": 1000 * delays[int(0.95 * len(delays))],
    }


def _task(root: str, unit: int, pipe: Connection) -> None:
    spec = ReaderSpec(
        root=root,
        unit=f"u{unit}.0#0",
        generation=0,
        inputs=(InputSpec(boundary="b", stream="b", schema=SCHEMA),),
        groups=(0, 128),
        batching=Batching(),
        watch=pipe.recv(),
    )
    reader, number = LogReader(spec), 0
    decide = Batching.propose

    def seen(*given: Any) -> Proposal | None:
        found = decide(*given)
        if found is not None:
            pipe.send(time.monotonic())
        return found

    # Told before the range is put: what is measured is waking, not the disk.
    Batching.propose = seen  # type: ignore[assignment,method-assign]
    while True:
        list(reader.read(number, 0, 0))
        number += 1


def _idle(pids: list[int], seconds: float) -> float:
    """Cores in use by the tasks and this process."""
    everyone = [psutil.Process(pid) for pid in [*pids, os.getpid()]]

    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in everyone)

    before, start = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - start)


def _delays(
    log: SliceLog, pipes: list[Connection], slices: int, watch: NodeWatch | None
) -> list[float]:
    """Seconds from the moment a slice is visible to the moment each task has seen it."""
    chance = random.Random(1)
    delays = []
    for number in range(slices):
        time.sleep(chance.uniform(0.05, 0.15))
        for shard in range(SHARDS):
            unit = f"b.0#{shard}"
            record = Slice(unit=unit, number=number, after=number - 1, upto=number)
            path = Path(log.root) / member(record_folder(slices_of(unit)), number)
            temporary = path.with_name(".new")
            temporary.write_bytes(encode(record))
            temporary.rename(path)
            put = time.monotonic()
            if watch is not None:
                watch.told(str(path))
        delays += [pipe.recv() - put for pipe in pipes]
    return delays


if __name__ == "__main__":
    raise SystemExit(main())
