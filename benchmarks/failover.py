"""Kill to the next published slice: a unit with a hot follower, and beside it one without.

Each round runs the same word count twice, its stateful unit with a follower and without one (with a
warm spare), kills the node that leads and waits for the next slice of that unit. `lateness` is how
much later than usual that slice came: its time after its epoch was over, less the median of that
before the kill. Both runs are killed in turn under the same load.

    kill to slice   from SIGKILL to the next slice of the unit, which may not have been due yet
    late            later than usual
    in time         kills after which no slice was later than twice the usual spread
    cpu             CPU of the node with the follower alone, relative to that of its leader's
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._stream_common import end_on_terminate, scratch
from holdfast.control.status import RunView
from holdfast.deployment import UnitId
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.replicas import with_followers
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.start.archive import ensure_archive

APP = """
from pyspark.sql import functions as F
from holdfast import Pipeline, Rate, Sqlite

def words(df):
    return df.withColumn("word", F.col("value") % 100)

def count(df):
    return df.groupBy("word").agg(F.count("*").alias("n"))

pipeline = Pipeline("failover", epoch="{epoch}s")
rows = pipeline.source("rows", Rate({rate})).map("words", words)
counts = rows.aggregate("count", count, key="word", output="update")
pipeline.sink("out", counts, Sqlite("out.db", "out"))
"""
UNIT = UnitId(segment="count")
STEADY = 12
"""Slices before a kill by which the usual lateness is judged."""
DEADLINE_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What one kill did."""

    after_s: float
    late_s: float
    spread_s: float
    load: float


class Run:
    """One launch of the word count, with followers or without."""

    def __init__(self, folder: Path, *, hot: bool, epoch_s: float, rate: float) -> None:
        app = folder / "app.py"
        app.write_text(APP.format(epoch=epoch_s, rate=rate))
        pipeline = load_pipeline(str(app))
        deployment = with_followers(pipeline, deploy(pipeline), ["count"] if hot else [])
        self.hot, self.epoch_s = hot, epoch_s
        self.log = SliceLog(folder / "run")
        spec = RunSpec(app=str(app), host="spark", deployment=deployment, policy=Policy(workers=2))
        settings = LaunchSettings(nodes=2, spares=1, domains=2)
        self.run = LocalRun(folder / "run", spec, settings)

    def ready(self) -> RunView:
        """Everything runs, is warm, and has made some slices since."""

        def settled(view: RunView) -> bool:
            return all_running(view) and all(node.ready for node in view.nodes)

        self.run.wait_for(settled, DEADLINE_S, "the start")
        first = self.newest() + STEADY
        deadline = time.monotonic() + DEADLINE_S
        while self.newest() < first and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.run.wait_for(settled, DEADLINE_S, "settling")

    def newest(self) -> int:
        number = self.log.newest_batch(UNIT.name)
        while number >= 0 and self.log.slice(UNIT.name, number) is None:
            number -= 1
        return number

    def lateness(self, number: int) -> tuple[float, float] | None:
        """When a slice was published, and how long after its epoch was over."""
        item, origin = self.log.slice(UNIT.name, number), self.log.origin()
        at = self.log.put_time(item) if item is not None else None
        if item is None or origin is None or at is None:
            return None
        return at, at - (origin + (item.upto + 1) * self.epoch_s)

    def kill(self) -> Kill:
        """Kill the node that leads."""
        view = self.ready()
        units = {unit.unit: unit for unit in view.units}
        leading = next(
            (unit for name, unit in units.items() if name.startswith(UNIT.name) and unit.leads),
            units[str(UNIT)],
        )
        if leading.node is None:
            raise AssertionError("it runs")
        newest = self.newest()
        usual = [found[1] for n in range(newest - STEADY, newest) if (found := self.lateness(n))]
        killed = time.time()
        self.run.kill_node(leading.node)
        number = self.newest() + 1
        deadline = time.monotonic() + DEADLINE_S
        while (found := self.lateness(number)) is None or found[0] < killed:
            if found is not None:
                number += 1
            if time.monotonic() > deadline:
                raise TimeoutError("no slice after a kill")
            time.sleep(0.002)
        middle = statistics.median(usual)
        return Kill(
            after_s=found[0] - killed,
            late_s=found[1] - middle,
            spread_s=max(usual) - middle,
            load=os.getloadavg()[0],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 kills each")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--epoch", type=float, default=0.25, help="seconds")
    parser.add_argument("--rate", type=float, default=400.0, help="rows/s")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    ensure_archive()
    kills = 2 if args.quick else args.kills
    found: dict[str, list[Kill]] = {"follower": [], "passive": []}
    for name, rows in found.items():
        with scratch() as folder:
            run = Run(folder, hot=name == "follower", epoch_s=args.epoch, rate=args.rate)
            run.run.start()
            try:
                for _ in range(kills):
                    rows.append(run.kill())
                    told = rows[-1]
                    print(f"{name:10} {told.after_s:7.3f} {told.late_s:7.3f}", flush=True)
            finally:
                run.run.stop()
    result: dict[str, Any] = {name: summary(rows) for name, rows in found.items()}
    print(f"\n{'':10}{'kill to slice':>22}{'later than usual':>22}{'in time':>10}{'load':>7}")
    for name, row in result.items():
        after, late = row["after_s"], row["late_s"]
        print(
            f"{name:10}{after[0]:9.3f} / {after[1]:7.3f}s{late[0]:11.3f} / {late[1]:7.3f}s"
            f"{row['in_time']:>7}/{row['kills']}{row['load']:7.1f}"
        )
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


def summary(rows: list[Kill]) -> dict[str, Any]:
    """Medians and 95th percentiles."""

    def both(values: list[float]) -> tuple[float, float]:
        ordered = sorted(values)
        return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]

    return {
        "kills": len(rows),
        "after_s": both([row.after_s for row in rows]),
        "late_s": both([row.late_s for row in rows]),
        "in_time": sum(row.late_s <= max(0.05, 2 * row.spread_s) for row in rows),
        "load": statistics.median(row.load for row in rows),
    }


if __name__ == "__main__":
    main()
