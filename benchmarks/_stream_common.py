"""Word count over files, on Holdfast and as a plain query: what the stream benchmarks share.

Input is written before it is needed and only renamed into place at its time, so that feeding takes
nothing from the processors that are measured. Event time is the planned time of a row, so every
system gets the same rows whatever its speed. The module is also the application that nodes load
(`pipeline`), and, run as a program, the plain query.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from holdfast.control.status import RunView
from holdfast.health.policy import Policy
from holdfast.pipeline import Files, Parquet, Pipeline, deploy
from holdfast.pipeline.deploy import Cuts
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.start.native import VARIABLE

INPUT = "HOLDFAST_BENCH_INPUT"
"""Environment variable with the input directory: nodes load this module too."""
SCHEMA = "ts timestamp, line string"
BASE_US = 1_767_225_600_000_000
"""Event time of the first row: 2026-01-01."""
WINDOW_S = 1
DELAY = "1 second"
INTERVAL_S = 1.0
"""Batch interval of every system: epoch of Holdfast, trigger of the plain query."""
FILES_PER_S = 4
VOCABULARY = 1000
STOP_WORDS = [f"word-{number}" for number in range(5)]
START_S = 300.0
POLL_S = 0.02

PLAIN_SETTINGS = ("stock", "stock, 2 partitions", "our settings")
"""How a plain query may be started; the second is stock but for the 200 shuffle partitions."""


def split(frame: DataFrame) -> DataFrame:
    """One row per word."""
    return frame.select("ts", sf.explode(sf.split("line", " ")).alias("word"))


def drop_stop_words(frame: DataFrame) -> DataFrame:
    """The five most frequent words say nothing."""
    return frame.where(~sf.col("word").isin(STOP_WORDS))


def count(frame: DataFrame) -> DataFrame:
    """How often each word came up in each window."""
    counts = frame.groupBy(sf.window("ts", f"{WINDOW_S} seconds"), "word").count()
    return counts.select(sf.window_time("window").alias("ts"), "word", "count")


def make_pipeline(folder: str) -> Pipeline:
    """The word count over the files of a directory."""
    made = Pipeline("word-count-files", event_time=("ts", DELAY), epoch=f"{INTERVAL_S}s")
    lines = made.source("lines", Files(folder, format="parquet", schema=SCHEMA))
    words = lines.map("split", split).map("filter", drop_stop_words)
    made.sink("counts", words.aggregate("count", count, key="word"), Parquet("out/counts"))
    return made


pipeline = make_pipeline(os.environ.get(INPUT, "input"))


# Input


class Feed:
    """Files that appear in a directory at a fixed rate, all made from a seed."""

    def __init__(
        self, root: Path, *, rows_per_s: float, words: int = 3, files_per_s: int = FILES_PER_S
    ) -> None:
        self.folder, self._stage = root / "input", root / "stage"
        self.folder.mkdir(parents=True)
        self._stage.mkdir()
        self.files_per_s = files_per_s
        self.offered = 0
        """Rows released so far."""
        self.set_rate(rows_per_s)
        rng = np.random.default_rng(7)
        picks = np.minimum(rng.zipf(1.3, size=(4000, words)), VOCABULARY) - 1
        self._lines = pa.array([" ".join(f"word-{pick}" for pick in row) for row in picks])
        self._rng = rng
        self.released: list[float] = []
        """When each file became visible, seconds since 1970."""
        self._staged = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def set_rate(self, rows_per_s: float) -> None:
        """Rows per second of the files made from now on."""
        self.rows_per_file = max(1, round(rows_per_s / self.files_per_s))

    def stage(self, seconds: float) -> None:
        """Make the files of the next so many seconds now."""
        while self._staged < len(self.released) + seconds * self.files_per_s:
            self._write(self._staged)

    def start(self) -> None:
        """Release files on time, in a thread."""
        start, before = time.time(), len(self.released)
        self._run(lambda: time.time() >= start + (len(self.released) - before) / self.files_per_s)

    def start_closed(self, processed: Callable[[], int], backlog: int) -> None:
        """Release files whenever fewer than `backlog` rows wait: a system is kept busy."""
        self._run(lambda: self.offered - processed() < backlog)

    def close(self) -> None:
        """Release nothing more until it is started again."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        for index in range(len(self.released), self._staged):
            (self._stage / f"{index:08d}.parquet").unlink()
        self._staged = len(self.released)

    def _run(self, due: Callable[[], bool]) -> None:
        self._closed.clear()

        def loop() -> None:
            while not self._closed.is_set():
                if due():
                    self._release()
                else:
                    self._closed.wait(POLL_S)

        self._thread = threading.Thread(target=loop, name="feed", daemon=True)
        self._thread.start()

    def _release(self) -> None:
        index = len(self.released)
        if index >= self._staged:
            self._write(index)
        name = f"{index:08d}.parquet"
        (self._stage / name).rename(self.folder / name)
        self.released.append(time.time())
        self.offered += self.rows_per_file

    def _write(self, index: int) -> None:
        width_us = 1_000_000 // self.files_per_s
        rows = self.rows_per_file
        ts = BASE_US + index * width_us + np.sort(self._rng.integers(0, width_us, rows))
        lines = self._lines.take(self._rng.integers(0, len(self._lines), rows))
        times = pa.array(ts).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "line": lines})
        pq.write_table(table, self._stage / f"{index:08d}.parquet", store_schema=False)
        self._staged = index + 1

    def result_times(self, out: Path) -> dict[int, float]:
        """Window number to when its result was first seen in an output directory."""
        seen: dict[int, float] = {}
        for path in out.glob("part-*.parquet"):
            at = path.stat().st_mtime
            try:
                stamps: Any = pq.read_table(path, columns=["ts"]).column("ts")
            except (OSError, pa.ArrowInvalid):
                continue  # still being written
            for us in np.unique(stamps.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()):
                window = (int(us) - BASE_US) // 1_000_000 // WINDOW_S
                seen[window] = min(at, seen.get(window, at))
        return seen

    def complete_at(self, window: int) -> float | None:
        """When the last file with rows of a window was released."""
        last = (window + 1) * WINDOW_S * self.files_per_s - 1
        return self.released[last] if last < len(self.released) else None

    def latencies(self, out: Path, *, after: float, before: float) -> list[float]:
        """From the last row of a window to its result, for windows completed in between."""
        found = []
        for window, seen in self.result_times(out).items():
            complete = self.complete_at(window)
            if complete is not None and after <= complete <= before:
                found.append(seen - complete)
        return found

    def first_result_after(self, out: Path, at: float) -> float | None:
        """When a result of input released after a time was first seen."""
        fresh = [
            seen
            for window, seen in self.result_times(out).items()
            if (complete := self.complete_at(window)) is not None and complete >= at
        ]
        return min(fresh, default=None)


def end_on_terminate() -> None:
    """A polite kill unwinds, so that what was started is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def slices(side: str) -> Iterator[None]:
    """Nodes started meanwhile read and write slices in Java (`native`) or through `python`."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = side
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


# Holdfast


class HoldfastCount:
    """The word count on nodes."""

    def __init__(
        self, root: Path, feed: Feed, *, cuts: Cuts = "none", spares: int = 0, memory_mb: int = 512
    ) -> None:
        os.environ[INPUT] = str(feed.folder)
        spec = RunSpec(
            app=f"{Path(__file__).resolve()}:pipeline",
            host="spark",
            deployment=deploy(make_pipeline(str(feed.folder)), cuts=cuts),
            policy=Policy(workers=1),
            options={"memory_mb": memory_mb},
        )
        self.units = [str(unit) for unit in spec.deployment.units()]
        self.out = root / "run" / "out" / "counts"
        self.run = LocalRun(root / "run", spec, LaunchSettings(nodes=1, spares=spares))
        self._log = SliceLog(root / "run")
        self._next, self._unseen = 0, list[tuple[int, int]]()
        self._processed = 0

    def __enter__(self) -> Self:
        self.run.start()
        return self

    def __exit__(self, *_: object) -> None:
        report = self.run.stop()
        if report.left:
            print(f"left behind: {report.left}", file=sys.stderr)

    def wait_ready(self, *, spares: int = 0) -> RunView:
        """All units run, and so many spares are warm."""

        def ready(view: RunView) -> bool:
            warm = sum(node.spare and node.ready for node in view.nodes)
            ahead = all((unit.epoch or -1) >= 0 for unit in view.units)
            return all_running(view) and ahead and warm >= spares

        return self.run.wait_for(ready, START_S, "all units running")

    def processed(self) -> int:
        """Input rows whose effect has been delivered by the exporter."""
        view = self.run.status()
        epoch = next(unit.epoch for unit in view.units if unit.unit == "counts.0#0")
        for record in self._log.slices_from("lines.0#0", self._next):
            self._next = record.number + 1
            self._unseen.append((record.upto, record.rows + record.late_rows))
        done = [item for item in self._unseen if epoch is not None and item[0] <= epoch]
        self._unseen = self._unseen[len(done) :]
        self._processed += sum(rows for _, rows in done)
        return self._processed


# The plain query


@dataclass(slots=True, kw_only=True)
class Restart:
    """One restart by the supervisor, seconds since 1970."""

    killed_at: float
    noticed_at: float
    started_at: float
    committed_at: float


class PlainCount:
    """The same word count as one query, with a supervisor loop that restarts it at once."""

    def __init__(self, root: Path, feed: Feed, settings: str) -> None:
        self.root = root / "plain"
        self.root.mkdir()
        self.out = self.root / "out"
        self._command = [
            *(sys.executable, "-m", "benchmarks._stream_common", "--settings", settings),
            *("--input", str(feed.folder), "--root", str(self.root)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def group(self) -> int:
        """Process group of the query: Python and its Java virtual machine."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL to the query's process group."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def committed(self) -> int:
        """Number of the last committed batch, -1 before the first."""
        with contextlib.suppress(FileNotFoundError):
            names = [path.name for path in (self.root / "checkpoint" / "commits").iterdir()]
            return max((int(name) for name in names if name.isdigit()), default=-1)
        return -1

    def processed(self) -> int:
        """Input rows of committed batches."""
        path = self.root / "progress"
        return sum(map(int, path.read_text().split())) if path.exists() else 0

    def wait_committed(self, number: int) -> float:
        """When a batch of at least that number was seen to be committed."""
        end = time.monotonic() + START_S
        while self.committed() < number:
            if time.monotonic() > end or (self._process and self._process.poll() is not None):
                log = (self.root / "log").read_text(errors="replace")[-2000:]
                raise SystemExit(f"the plain query did not commit batch {number}:\n{log}")
            time.sleep(POLL_S)
        return time.time()

    def kill_and_restart(self) -> Restart:
        """What a supervisor does that polls every 20 ms and never hesitates."""
        assert self._process is not None
        (self.root / "started").unlink(missing_ok=True)
        last = self.committed()
        killed_at = time.time()
        os.killpg(self._process.pid, signal.SIGKILL)
        while self._process.poll() is None:
            time.sleep(POLL_S)
        noticed_at = time.time()
        last = max(last, self.committed())
        self.start()
        committed_at = self.wait_committed(last + 1)
        return Restart(
            killed_at=killed_at,
            noticed_at=noticed_at,
            started_at=float((self.root / "started").read_text()),
            committed_at=committed_at,
        )


def plain_session(settings: str) -> SparkSession:
    if settings == "our settings":
        from holdfast.runtime.spark.start.session import start_session

        return start_session("plain")
    builder = SparkSession.builder.master("local[2]").appName("plain")
    if settings == "stock, 2 partitions":
        builder = builder.config("spark.sql.shuffle.partitions", "2")
    return builder.getOrCreate()


def plain_query(settings: str, folder: str, root: Path) -> None:
    """Run until killed; notes when it started and how many rows each batch had."""
    spark = plain_session(settings)
    lines = spark.readStream.schema(SCHEMA).parquet(folder).withWatermark("ts", DELAY)
    query = (
        count(drop_stop_words(split(lines)))
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(root / "out"))
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(processingTime=f"{round(INTERVAL_S * 1000)} milliseconds")
        .start()
    )
    temporary = root / "started.tmp"
    temporary.write_text(str(time.time()))
    temporary.replace(root / "started")
    noted = -1
    with (root / "progress").open("a") as notes:
        while query.isActive:
            for progress in query.recentProgress:
                data = json.loads(progress.json)
                # An idle trigger reports the next batch too, with no rows.
                if data["batchId"] > noted and data["numInputRows"]:
                    noted = data["batchId"]
                    notes.write(f"{data['numInputRows']}\n")
                    notes.flush()
            time.sleep(0.1)
    query.awaitTermination()


def main() -> None:
    parser = argparse.ArgumentParser(description="The plain query; runs until it is killed.")
    parser.add_argument("--settings", choices=PLAIN_SETTINGS, required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--root", type=Path, required=True)
    args = parser.parse_args()
    plain_query(args.settings, args.input, args.root)


if __name__ == "__main__":
    main()
