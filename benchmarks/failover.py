"""Kill to the next published slice: a unit with a hot follower, and beside it one without.

The same word count is run twice, its stateful unit with a follower and without one (with a warm
spare). Again and again the node that leads is killed, when everything runs and is warm, at a random
moment of a batch. `lateness` is how much later than usual the next slices came: their time after
their epoch was over, less the median of that before the kill.

    kill to slice     from SIGKILL to the next slice of the unit, which may not have been due yet
    later than usual  the latest slice of the three intervals after the kill
    in time           kills after which no slice was later than any of the twelve before
    cpu               of the node with one replica of the unit and nothing else, a batch; before
                      the first kill

At the end each figure stands beside its bar: the median from kill to slice, the share of kills
after which no slice was late, and what a follower costs beside the same unit without one.

Forty kills take longer than anyone wants to wait at a time: `--only follower --kills 10 --json F`
makes a piece, `--join F...` shows several pieces as one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks._bars import Progress, verdict
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
from holdfast.runtime.node.processes import session_members
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
AFTER = 3
"""Intervals after a kill in which slices may be late."""
PUNCTUAL_S = 0.05
"""What is later by less is in time, whatever the spread before."""
NODES = 3
CPU_WARM_S, CPU_S = 20.0, 20.0
KINDS = ("follower", "passive")
DEADLINE_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What one kill did, seconds."""

    after: float
    """To the next slice."""
    late: float
    """By how much the latest slice after it was later than usual."""
    usual: float
    """The same of the latest slice before it."""
    due: float
    """How long after the kill the epoch of the next slice was over."""
    load: float
    """Of the machine."""


class Run:
    """One launch of the word count, with followers or without."""

    def __init__(self, folder: Path, *, hot: bool, epoch_s: float, rate: float) -> None:
        app = folder / "app.py"
        app.write_text(APP.format(epoch=epoch_s, rate=rate))
        pipeline = load_pipeline(str(app))
        deployment = with_followers(pipeline, deploy(pipeline), ["count"] if hot else [])
        self.hot, self.epoch_s = hot, epoch_s
        self.log = SliceLog(folder / "run")
        # Each replica of the unit alone on a node: what it costs can be seen from outside.
        together = (("rows.0#0", "out.0#0"), (str(UNIT),))
        policy = Policy(workers=NODES, together=together)
        spec = RunSpec(app=str(app), host="spark", deployment=deployment, policy=policy)
        settings = LaunchSettings(nodes=NODES, spares=1, domains=NODES + 1)
        self.run = LocalRun(folder / "run", spec, settings)

    def ready(self) -> RunView:
        """Everything runs, is warm, and has made some slices since."""

        def settled(view: RunView) -> bool:
            spare = any(node.spare and not node.units for node in view.nodes)
            return all_running(view) and spare and all(node.ready for node in view.nodes)

        self.run.wait_for(settled, DEADLINE_S, "the start")
        first = self.newest() + STEADY
        deadline = time.monotonic() + DEADLINE_S
        while self.newest() < first and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.run.wait_for(settled, DEADLINE_S, "settling")

    def cpu(self) -> dict[str, float]:
        """CPU seconds a batch of the nodes with a replica of the unit, once it is warm."""
        self.ready()
        end = time.monotonic() + CPU_WARM_S
        while time.monotonic() < end:
            time.sleep(0.2)
        view = self.ready()
        nodes = {
            ("follower" if unit.leads is False else "leader"): unit.node
            for unit in view.units
            if unit.unit.startswith(UNIT.name)
        }
        number, before = self.newest(), {role: self._used(node) for role, node in nodes.items()}
        end = time.monotonic() + CPU_S
        while time.monotonic() < end:
            time.sleep(0.2)
        batches = self.newest() - number
        return {role: (self._used(node) - before[role]) / batches for role, node in nodes.items()}

    def _used(self, node: str | None) -> float:
        child = self.run.launcher.node(node) if node else None
        if child is None:
            raise AssertionError("it runs")
        spent = [psutil.Process(pid).cpu_times() for pid in session_members(child.pid)]
        return float(sum(item.user + item.system for item in spent))

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

    def kill(self, wait_s: float) -> Kill:
        """Kill the node that leads, so long after everything was ready."""
        view = self.ready()
        units = {unit.unit: unit for unit in view.units}
        leading = next(
            (unit for name, unit in units.items() if name.startswith(UNIT.name) and unit.leads),
            units[str(UNIT)],
        )
        if leading.node is None:
            raise AssertionError("it runs")
        time.sleep(wait_s)
        newest = self.newest()
        before = [found for n in range(newest - STEADY, newest + 1) if (found := self.lateness(n))]
        middle = statistics.median(late for _, late in before)
        killed = time.time()
        self.run.kill_node(leading.node)
        number = newest + 1
        after: list[tuple[float, float]] = []
        deadline = time.monotonic() + DEADLINE_S
        while not after or after[-1][0] < after[0][0] + AFTER * self.epoch_s:
            found = self.lateness(number)
            if time.monotonic() > deadline:
                raise TimeoutError("no slice after a kill")
            if found is None:
                time.sleep(0.002)
                continue
            number += 1
            after += [found] if found[0] > killed else []
        return Kill(
            after=after[0][0] - killed,
            late=max(late for _, late in after) - middle,
            usual=max(late for _, late in before) - middle,
            due=after[0][0] - after[0][1] - killed,
            load=os.getloadavg()[0],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 kills each")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--passive", type=int, help="kills without a follower; default: as many")
    parser.add_argument("--epoch", type=float, default=0.25, help="seconds")
    parser.add_argument("--rate", type=float, default=400.0, help="rows/s")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--join", type=Path, nargs="+", help="show the numbers of these files")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.join:
        pieces = [json.loads(path.read_text()) for path in args.join]
        found = {name: [row for piece in pieces for row in piece[name]["all"]] for name in KINDS}
        cpu = [piece[name]["cpu"] for piece in pieces for name in KINDS if piece[name]["cpu"]]
        show({name: summary([Kill(**row) for row in rows], cpu) for name, rows in found.items()})
        return
    end_on_terminate()
    ensure_archive()
    rng = np.random.default_rng(args.seed)
    result: dict[str, Any] = dict.fromkeys(KINDS, summary([], []))
    for name in KINDS if args.only is None else (args.only,):
        rows: list[Kill] = []
        kills = 2 if args.quick else args.kills
        if name == "passive" and args.passive is not None:
            kills = args.passive
        print(f"{name}: starting, and measuring its CPU", flush=True)
        with scratch() as folder:
            run = Run(folder, hot=name == "follower", epoch_s=args.epoch, rate=args.rate)
            run.run.start()
            try:
                used = {f"{name} {role}": value for role, value in run.cpu().items()}
                progress = Progress(kills)
                for _ in range(kills):
                    rows.append(run.kill(float(rng.uniform(0, args.epoch))))
                    told = rows[-1]
                    print(
                        f"{name:10} {told.after:7.3f} {told.late:7.3f}  {progress.step()}",
                        flush=True,
                    )
                    result[name] = summary(rows, [used])
                    if args.json:
                        args.json.write_text(json.dumps(result))
            finally:
                run.run.stop()
    show(result)


def show(result: dict[str, Any]) -> None:
    print(f"\n{'':10}{'kill to slice':>22}{'later than usual':>22}{'in time':>10}{'load':>7}")
    for name, row in result.items():
        if row["kills"]:
            after, late = row["after"], row["late"]
            print(
                f"{name:10}{after[0]:9.3f} / {after[1]:7.3f}s{late[0]:11.3f} / {late[1]:7.3f}s"
                f"{row['in_time']:>7}/{row['kills']}{row['load']:7.1f}"
            )
    used = {role: value for row in result.values() for role, value in row["cpu"].items()}
    for role, value in sorted(used.items()):
        print(f"cpu {role:20} {1000 * value:7.1f} ms a batch")
    hot = result["follower"]
    if hot["kills"]:
        kills = hot["kills"]
        print(verdict("kills of a unit with a follower", kills, least=40))
        print(verdict("kill to slice, median, s", hot["after"][0], most=0.3))
        print(verdict("kills after which no slice was late", hot["in_time"], least=kills // 2 + 1))
    print(verdict("a follower's CPU beside the unit's alone", cpu_ratio(used), most=1.1))


def cpu_ratio(used: dict[str, float]) -> float | None:
    """What a follower costs, as a multiple of the unit that has none; None: one was not run."""
    own, alone = used.get("follower follower"), used.get("passive leader")
    return own / alone if own is not None and alone else None


def summary(rows: list[Kill], used: list[dict[str, float]]) -> dict[str, Any]:
    """Medians and 95th percentiles; CPU as the median over pieces."""

    def both(values: list[float]) -> tuple[float, float] | None:
        ordered = sorted(values)
        if not ordered:
            return None
        return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]

    roles = sorted({role for item in used for role in item})
    return {
        "kills": len(rows),
        "after": both([row.after for row in rows]),
        "late": both([row.late for row in rows]),
        "in_time": sum(row.late <= max(PUNCTUAL_S, row.usual) for row in rows),
        "load": statistics.median(row.load for row in rows) if rows else None,
        "cpu": {
            role: statistics.median(item[role] for item in used if role in item) for role in roles
        },
        "all": [asdict(row) for row in rows],
    }


if __name__ == "__main__":
    main()
