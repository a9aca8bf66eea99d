"""Output fidelity against the accuracy of tentative results, on Spark.

The two queries of the PPA evaluation run as pipelines (`_fidelity_queries`). Again and again some
of their units are stopped, as a failure pattern says, and results go on in a fork without them. Its
rows are kept; then the units come back, the exact units go on, and the rows of the same windows are
compared:

    predicted   what the tentative rows say of themselves: OF, from the graph of units
    accuracy    the share of the exact answer that the tentative one has. Of the top-k query, of its
                pages; of the incident query, of its incidents

Sources, queries, forks, exporters and their records are those of every run. One process hosts all
units and takes the coordinator's place, so that a pattern takes seconds: units are stopped, no
process is killed, and no deadline is waited for. Patterns are drawn from all sets of up to three
sources and shards without which something is left.

    python -m benchmarks.fidelity [--patterns 12] [--only top-pages]

`--first 6 --json F` makes a piece, `--join F...` shows several as one.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from benchmarks import _fidelity_queries as queries
from benchmarks._bars import Progress, verdict
from benchmarks._stream_common import end_on_terminate, scratch
from holdfast.cli.tentative import tentative
from holdfast.deployment import UnitId
from holdfast.pipeline import Pipeline, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.archive import ensure_archive
from holdfast.runtime.spark.start.session import start_session
from holdfast.streams.fork import end_fork, put_fork
from holdfast.streams.records import Fork, ForkEnd

DEADLINE_S = 120.0
PAUSE_S = 0.05
WINDOWS = 3
"""Compared for each pattern."""
MOST = 3
"""Units that are lost at a time."""
PATIENCE_S = 30.0
"""Only for what is not lost: on a busy machine it may lag, and is not to be left out as well."""
Row = Mapping[str, Any]


def ranked(rows: Collection[Row]) -> set[Any]:
    """The most asked pages of one window."""
    order = sorted(rows, key=lambda row: (-row["n"], row["page"]))
    return {row["page"] for row in order[: queries.RANKED]}


def found(rows: Collection[Row]) -> set[Any]:
    """The incidents in one window."""
    return {row["report"] for row in rows}


@dataclass(frozen=True, slots=True)
class Query:
    """One of the two queries."""

    make: Callable[[], Pipeline]
    sink: str
    answer: Callable[[Collection[Row]], set[Any]]


QUERIES = {
    "top-pages": Query(queries.top_pages, "pages", ranked),
    "incidents": Query(queries.incidents, "jams", found),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What one failure pattern did."""

    query: str
    lost: tuple[str, ...]
    predicted: float
    accuracy: float
    windows: int

    @property
    def error(self) -> float:
        return abs(self.predicted - self.accuracy)


class Driven:
    """One query, all of it in this process."""

    def __init__(self, spark: SparkSession, name: str, folder: Path) -> None:
        self.name, self.query = name, QUERIES[name]
        pipeline = self.query.make()
        self.deployment = deploy(pipeline)
        self.policy = tentative(f"{PATIENCE_S}s", pipeline, self.deployment, None)
        self.folder, self.log = folder, SliceLog(folder)
        self.host = SparkUnitHost(
            self.deployment,
            pipeline,
            folder,
            keep_input=True,
            spark=spark,
            predict=self.policy.predicted,
        )
        self.generation: dict[UnitId, int] = {}
        self.fork = 0
        for unit in self.deployment.units():
            self.start(unit)
        self.sink = UnitId(segment=self.query.sink)
        self.reach(4)

    def start(self, unit: UnitId) -> None:
        before = self.generation.get(unit, 0)
        self.generation[unit] = before + 1
        self.host.start(unit, before + 1, before or None)

    def states(self) -> dict[UnitId, Any]:
        reports = {item.unit: item for item in self.host.poll()}
        failed = [item for item in reports.values() if item.state == "failed"]
        if failed:
            raise AssertionError(f"{failed[0].unit}: {failed[0].error}")
        return reports

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: {self.states()}")
            time.sleep(PAUSE_S)

    def reach(self, epoch: int) -> None:
        self.until(lambda: self.states()[self.sink].epoch >= epoch, f"exact results at {epoch}")

    def patterns(self) -> list[tuple[UnitId, ...]]:
        """All sets of units that leave something, sinks apart; larger ones after smaller."""
        units = [unit for unit in self.deployment.units() if unit.segment != self.query.sink]
        sets = chain.from_iterable(combinations(units, size) for size in range(1, MOST + 1))
        return [lost for lost in sets if self.predicted(lost)]

    def predicted(self, lost: Collection[UnitId]) -> float:
        return self.policy.predicted(self.query.sink, map(str, lost)) or 0.0

    def lose(self, lost: Collection[UnitId]) -> Loss:
        """Stop some units, go on without them, and have them back."""
        for unit in lost:
            self.host.stop(unit)
        gone = ("stopped", "ended")
        self.until(lambda: all(self.states()[one].state in gone for one in lost), "a stop")
        forked = self.begin(lost)
        kept: list[dict[str, Any]] = []

        def enough() -> bool:
            self.states()
            kept[:] = self.lacking({str(unit) for unit in lost})
            return len(self.whole(kept)) >= WINDOWS

        self.until(enough, f"tentative windows without {', '.join(map(str, lost))}")
        rows = list(kept)
        names = {row["_missing"] for row in rows}
        if names != {" ".join(sorted(map(str, lost)))}:
            raise AssertionError(f"without {', '.join(map(str, lost))}, and {names} were missing")
        self.log.run(end_fork(ForkEnd(number=self.fork, reason="enough was seen")))
        for unit in forked:
            self.host.stop(unit)
        for unit in lost:
            self.start(unit)
        self.reach(max(row["_upto"] for row in rows) + 2)
        last = max(row["ts"] for row in rows)
        self.until(lambda: self.passed(last), f"exact windows after {last}")
        return self.compare(lost, rows)

    def passed(self, window: Any) -> bool:
        """Whether the exact results have gone beyond a window: who catches up gives it late."""
        self.states()
        later = {row["ts"] for row in self.select(self.query.sink) if row["ts"] > window}
        return len(later) >= WINDOWS

    def begin(self, lost: Collection[UnitId]) -> list[UnitId]:
        """A fork of all that is downstream and not lost itself, as the coordinator begins one."""
        self.fork += 1
        behind: set[str] = set()
        for segment in self.deployment.segments:
            read = set(self.deployment.streams_read(segment))
            if read & (behind | {unit.segment for unit in lost}):
                behind.add(segment.name)
        units = [unit for unit in self.deployment.units() if unit.segment in behind]
        self.log.run(
            put_fork(
                Fork(
                    number=self.fork,
                    units=tuple(str(unit.forked(self.fork)) for unit in units),
                    silent=tuple(sorted(map(str, lost))),
                    patience_s=PATIENCE_S,
                    reason="a failure pattern",
                )
            )
        )
        forked = [unit.forked(self.fork) for unit in units if unit not in lost]
        for unit in forked:
            self.start(unit)
        return forked

    def lacking(self, lost: Collection[str]) -> list[dict[str, Any]]:
        """The tentative rows that were made without all of these units."""
        rows = self.select(f"{self.query.sink}_tentative")
        return [row for row in rows if set(lost) <= set(row["_missing"].split())]

    def whole(self, rows: Collection[Row]) -> list[Any]:
        """Windows all of whose input came when the units were lost already: not the first one,
        which the state before has begun, nor the one after.
        """
        return sorted({row["ts"] for row in rows})[2:]

    def select(self, table: str) -> list[dict[str, Any]]:
        path = self.folder / "out.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as base:
            base.row_factory = sqlite3.Row
            known = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if base.execute(known, (table,)).fetchone() is None:
                return []
            return [dict(row) for row in base.execute(f"SELECT * FROM {table}")]  # noqa: S608

    def compare(self, lost: Collection[UnitId], rows: Collection[Row]) -> Loss:
        """The tentative answer of each window with the exact one."""
        exact = self.select(self.query.sink)
        shares = []
        for window in self.whole(rows):
            wanted = self.query.answer([row for row in exact if row["ts"] == window])
            given = self.query.answer([row for row in rows if row["ts"] == window])
            shares.append(len(wanted & given) / len(wanted))
        (predicted,) = {row["_fidelity"] for row in rows}
        return Loss(
            query=self.name,
            lost=tuple(map(str, lost)),
            predicted=predicted,
            accuracy=statistics.fmean(shares),
            windows=len(shares),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 patterns of each query")
    parser.add_argument("--patterns", type=int, default=12, help="of each query")
    parser.add_argument("--first", type=int, default=0, help="of them to begin with")
    parser.add_argument("--last", type=int, help="of them to end before")
    parser.add_argument("--only", choices=list(QUERIES))
    parser.add_argument("--seed", type=int, default=0, help="of the patterns")
    parser.add_argument("--join", type=Path, nargs="+", help="show the numbers of these files")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.join:
        show([Loss(**row) for path in args.join for row in json.loads(path.read_text())])
        return
    end_on_terminate()
    ensure_archive()
    losses: list[Loss] = []
    spark = start_session("fidelity", memory_mb=1000)
    try:
        for name in [args.only] if args.only else list(QUERIES):
            with scratch() as folder:
                driven = Driven(spark, name, folder)
                try:
                    drawn = np.random.default_rng(args.seed).permutation(len(driven.patterns()))
                    chosen = [driven.patterns()[k] for k in drawn[: args.patterns]]
                    chosen = chosen[args.first : 2 if args.quick else args.last]
                    progress = Progress(len(chosen))
                    for lost in chosen:
                        losses.append(driven.lose(lost))
                        told = losses[-1]
                        print(
                            f"{name:10} {told.predicted:6.3f} {told.accuracy:6.3f}  "
                            f"{', '.join(told.lost)}  {progress.step()}",
                            flush=True,
                        )
                        if args.json:
                            args.json.write_text(json.dumps([asdict(one) for one in losses]))
                finally:
                    driven.host.close()
    finally:
        spark.stop()
    show(losses)


def show(losses: Collection[Loss]) -> None:
    print(f"\n{'':10}{'patterns':>10}{'predicted':>11}{'accuracy':>10}{'error':>8}{'at most':>9}")
    for name in [*QUERIES, "both"]:
        own = [one for one in losses if name in (one.query, "both")]
        if own:
            means = [
                statistics.fmean(values)
                for values in zip(*((o.predicted, o.accuracy, o.error) for o in own), strict=True)
            ]
            print(
                f"{name:10}{len(own):10}{means[0]:11.3f}{means[1]:10.3f}{means[2]:8.3f}"
                f"{max(one.error for one in own):9.3f}"
            )
    error = statistics.fmean(one.error for one in losses) if losses else None
    print(verdict("failure patterns", len(losses), least=20))
    print(verdict("error of the prediction, mean", error, most=0.1))


if __name__ == "__main__":
    main()
