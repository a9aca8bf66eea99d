"""A correlated failure: time to the first tentative result against complete recovery, in one run.

The nodes of two of three sources are killed at once, and nobody can take their places until a new
node has come up from nothing. Results go on in a fork with what the third source gives. Measured
from the kill: when the first tentative row was delivered, when every failed unit had caught up and
exact results went on, and when the fork had ended.

    python -m benchmarks.tentative [--runs 3] [--after 0.5s]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.control.status import RunView
from holdfast.health.policy import Policy, Tentative
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.quantities import parse_time
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.verify.check import verify

APP = "tests/spark/tentative_app.py:three"
BESIDE = ("right", "double", "total", "rows", "totals", "calls")
DEADLINE_S = 240.0


def one_run(folder: Path, after_s: float) -> dict[str, Any]:
    """Kill, go on without, come back; seconds since the kill."""
    pipeline = load_pipeline(APP)
    spec = RunSpec(
        app=APP,
        host="spark",
        deployment=deploy(pipeline, cuts="none"),
        policy=Policy(
            workers=3,
            max_units_per_node=len(BESIDE),
            together=(tuple(f"{name}.0#0" for name in BESIDE),),
            tentative=Tentative(after_s=after_s),
        ),
        options={"keep_input": True},
    )
    # A node that dies is replaced by one that has to start from nothing.
    run = LocalRun(folder / "run", spec, LaunchSettings(nodes=3, spares=0, replace_delay_s=0.0))
    run.start()
    try:
        run.wait_for(all_running, DEADLINE_S, "the start")
        stood = run.wait_for(lambda view: _epoch(view, "totals.0#0") >= 6, DEADLINE_S, "results")
        lost = ("left.0#0", "middle.0#0")
        victims = {str(unit.node) for unit in stood.units if unit.unit in lost}
        killed = time.monotonic()
        for victim in victims:
            run.kill_node(victim)
        stood_at = _epoch(run.status(), "totals.0#0")
        found: dict[str, Any] = {"tentative_s": None, "exact_s": None}
        pause = threading.Event()
        while found["exact_s"] is None and time.monotonic() < killed + DEADLINE_S:
            if found["tentative_s"] is None and _lacking(run.run_dir):
                found["tentative_s"] = time.monotonic() - killed
            view = run.status()
            back = all(item.outcome == "caught up" for item in view.recoveries)
            if view.recoveries and back and _epoch(view, "totals.0#0") > stood_at + 2:
                found["exact_s"] = time.monotonic() - killed
            pause.wait(0.02)
        run.wait_for(
            lambda view: bool(view.forks) and view.forks[-1].ended_at is not None,
            DEADLINE_S,
            "the end of the fork",
        )
        found["all_exact_s"] = time.monotonic() - killed
        found["recovery_s"] = max(item.total_s or 0.0 for item in run.status().recoveries)
    finally:
        run.stop()
    verdict = verify(run.run_dir, claims(pipeline))
    return {**found, "exact": verdict.ok, "compared": verdict.compared}


def _epoch(view: RunView, name: str) -> int:
    return next((unit.epoch or -1 for unit in view.units if unit.unit == name), -1)


def _lacking(run_dir: Path) -> bool:
    """Whether a row was delivered without the lost input."""
    path = run_dir / "out/totals.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as base:
        known = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals_tentative'")
        if known.fetchone() is None:
            return False
        query = "SELECT 1 FROM totals_tentative WHERE _missing <> '' LIMIT 1"
        return base.execute(query).fetchone() is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--after", default="0.5s")
    options = parser.parse_args()
    found = []
    for number in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            one = one_run(Path(folder), parse_time(options.after))
        found.append(one)
        print(json.dumps({"run": number, **one}), flush=True)
    sooner = [one["exact_s"] / one["tentative_s"] for one in found if one["tentative_s"]]
    summary = {
        "runs": len(found),
        "tentative_s": statistics.median(one["tentative_s"] for one in found),
        "exact_s": statistics.median(one["exact_s"] for one in found),
        "sooner": statistics.median(sooner),
        "exact": all(one["exact"] for one in found),
    }
    print(json.dumps(summary), flush=True)


if __name__ == "__main__":
    main()
