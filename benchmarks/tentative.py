"""A correlated failure: time to the first tentative result against complete recovery, in one run.

Three lanes, each a source and a query with state, feed one sum (`_lanes_app`). Two lanes are on
nodes of their own, which are killed in the same instant, as when a rack fails. There are no spares:
nobody can take their places until new nodes have come up from nothing. Results go on in a fork with
what the third lane gives. Seconds since the kill:

    tentative   a row that lacks the lost input is in a sink
    complete    every unit that failed has caught up, and exact results have gone on
    all exact   the fork has ended, and no tentative row is left

A unit may fail again while it comes back, for instance when the machine is busy: then its last
recovery counts.

The lanes are left out at once, as with a plan that knows their recovery to take longer than its
bound; with `--after 2s` only when they have been gone for so long.

    python -m benchmarks.tentative [--runs 5]
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import threading
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from benchmarks._bars import Progress, verdict
from benchmarks._stream_common import end_on_terminate, scratch
from holdfast.control.status import RunView
from holdfast.deployment import UnitId
from holdfast.health.policy import Policy, Tentative
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.quantities import parse_time
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.spark.start.archive import ensure_archive
from holdfast.verify.check import verify

APP = "benchmarks/_lanes_app.py"
LOST = ("left", "left-once"), ("middle", "middle-once")
KEPT = ("right", "right-once", "total", "totals")
BOUND_S = 2.0
BATCHES, EPOCHS = 16, 40
"""Of every unit, before anything is lost."""
DEADLINE_S = 240.0
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What one correlated failure did; seconds since the kill."""

    began: float
    """The fork, by the coordinator's clock."""
    tentative: float
    complete: float
    all_exact: float
    exact: bool
    """Whether every sink holds what a run without failures leaves."""
    load: float
    """Of the machine."""

    @property
    def sooner(self) -> float:
        return self.complete / self.tentative


def one_run(folder: Path, after_s: float | None = None) -> Loss:
    """Kill, go on without, come back."""
    pipeline = load_pipeline(APP)
    spec = RunSpec(
        app=APP,
        host="spark",
        deployment=deploy(pipeline, cuts="none"),
        policy=Policy(
            workers=3,
            max_units_per_node=len(KEPT),
            together=tuple(tuple(map(_unit, names)) for names in (KEPT, *LOST)),
            tentative=Tentative(after_s=BOUND_S, at_once=tuple(chain.from_iterable(LOST)))
            if after_s is None
            else Tentative(after_s=after_s),
        ),
        options={"keep_input": True},
    )
    # A node that dies is replaced by one that has to start from nothing.
    run = LocalRun(folder / "run", spec, LaunchSettings(nodes=3, spares=0, replace_delay_s=0.0))
    run.start()
    try:
        run.wait_for(all_running, DEADLINE_S, "the start")
        # Warm: a node that has just begun compiles what it runs, and one that is busy lags behind.
        stood = run.wait_for(_settled, DEADLINE_S, "results of every batch interval")
        victims = {str(unit.node) for unit in stood.units if unit.unit in _lost()}
        killed, at = time.monotonic(), time.time()
        run.kill_nodes(victims)
        times = _watch(run, killed, _epoch(stood, "totals.0#0"))
        (fork, *_) = run.status().forks
    finally:
        run.stop()
    verdict = verify(run.run_dir, claims(pipeline))
    return Loss(
        began=fork.began_at - at,
        tentative=times["tentative"],
        complete=times["complete"],
        all_exact=times["all exact"],
        exact=verdict.ok,
        load=os.getloadavg()[0],
    )


def _watch(run: LocalRun, killed: float, stood_at: int) -> dict[str, float]:
    """When each of the things that are waited for was first seen."""
    times: dict[str, float] = {}
    pause = threading.Event()
    awaited = ("tentative", "complete", "all exact")
    while len(times) < len(awaited):
        now = time.monotonic() - killed
        if now > DEADLINE_S:
            raise TimeoutError(f"after {DEADLINE_S:g} s only {', '.join(times) or 'nothing'}")
        view = run.status()
        seen = {
            "tentative": "tentative" in times or _lacking(run.run_dir / "out/totals.db"),
            "complete": _recovered(view) and _epoch(view, "totals.0#0") > stood_at + 2,
            "all exact": bool(view.forks) and all_running(view),
        }
        for name, there in seen.items():
            if there:
                times.setdefault(name, time.monotonic() - killed)
        pause.wait(PAUSE_S)
    return times


def _settled(view: RunView) -> bool:
    """Whether every unit has made many batches and keeps up."""
    made = all((u.batch or 0) >= BATCHES and (u.waiting or 0) <= 1 for u in view.units)
    return made and _epoch(view, "totals.0#0") >= EPOCHS


def _recovered(view: RunView) -> bool:
    """Whether the last recovery of every lost unit is over, and the unit has caught up."""
    last = {item.unit: item.outcome for item in sorted(view.recoveries, key=lambda one: one.id)}
    return all(last.get(unit) == "caught up" for unit in _lost())


def _lost() -> list[str]:
    return [_unit(name) for names in LOST for name in names]


def _unit(segment: str) -> str:
    return str(UnitId(segment=segment))


def _epoch(view: RunView, name: str) -> int:
    return next((unit.epoch or -1 for unit in view.units if unit.unit == name), -1)


def _lacking(path: Path) -> bool:
    """Whether a row was delivered that was made without the lost input."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as base:
        known = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals_tentative'")
        if known.fetchone() is None:
            return False
        query = "SELECT 1 FROM totals_tentative WHERE _missing <> '' LIMIT 1"
        return base.execute(query).fetchone() is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1 run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--after", help="how long an input may be gone")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    ensure_archive()
    print(f"{'began':>8}{'tentative':>11}{'complete':>10}{'all exact':>11}{'':>9}")
    found: list[Loss] = []
    runs = 1 if args.quick else args.runs
    progress = Progress(runs)
    for _ in range(runs):
        with scratch() as folder:
            one = one_run(folder, parse_time(args.after) if args.after else None)
        found.append(one)
        print(
            f"{one.began:8.2f}{one.tentative:11.2f}{one.complete:10.2f}"
            f"{one.all_exact:11.2f}{one.sooner:8.1f}x  {'exact' if one.exact else 'NOT EXACT'}"
            f"  load {one.load:.1f}  {progress.step()}",
            flush=True,
        )
        if args.json:
            args.json.write_text(json.dumps([asdict(item) for item in found]))
    tentative = statistics.median(one.tentative for one in found)
    complete = statistics.median(one.complete for one in found)
    sooner = statistics.median(one.sooner for one in found)
    print(
        f"median of {len(found)}: tentative {tentative:.2f} s, complete {complete:.2f} s, "
        f"{sooner:.1f} times sooner; {sum(one.exact for one in found)} of {len(found)} exact"
    )
    print(verdict("times sooner than complete recovery, median", sooner, least=10))


if __name__ == "__main__":
    main()
