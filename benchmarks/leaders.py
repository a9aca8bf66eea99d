"""How soon another coordinator leads when the leader is killed or hangs, and whether units notice.

Three coordinators, two nodes, units without Spark (the fake host), real processes and signals.
Times count from the signal: until a status is answered by a new leader, and until all nodes are
connected to it. The longest pause between two slices of any unit is compared with that of as long a
time before.

    python -m benchmarks.leaders [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.control.shell.wire import ConnectionLostError
from holdfast.control.status import RunView
from holdfast.health.policy import Policy
from holdfast.rundir.endpoint import read_endpoint
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.testing.fake_host import DEPLOYMENT

DEADLINE_S = 60.0
CALM_S = 4.0
"""Between two rounds: as long as what is looked at after a signal."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rounds = 4 if args.quick else 20
    found: dict[str, Any] = {}
    for fault in ("killed", "hangs"):
        rows = _measure(fault, rounds)
        found[fault] = {name: _summary([row[name] for row in rows]) for name in rows[0]}
        print(f"leader {fault}, {rounds} times")
        for name, row in found[fault].items():
            print(f"  {name:24} median {row['median']:.2f}  largest {row['max']:.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _summary(values: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "max": max(values), "all": values}


def _measure(fault: str, rounds: int) -> list[dict[str, float]]:
    spec = RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=Policy(workers=2))
    settings = LaunchSettings(nodes=2, spares=0, coordinators=3)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalRun(Path(folder) / "run", spec, settings) as run,
    ):
        rows = []
        for _ in range(rounds):
            run.wait_for(_calm, DEADLINE_S, "a calm run")
            time.sleep(CALM_S)
            rows.append(_round(run, fault))
        return rows


def _calm(view: RunView) -> bool:
    return all_running(view) and len(view.coordinators) == 3


def _round(run: LocalRun, fault: str) -> dict[str, float]:
    term = run.status().term
    at, start = time.time(), time.monotonic()
    pid = run.kill_coordinator() if fault == "killed" else run.stop_coordinator()
    leads_s = _until(run, term, lambda _: True) - start
    back_s = _until(run, term, lambda view: all(node.connected for node in view.nodes)) - start
    time.sleep(max(0.0, CALM_S - back_s))
    run.cont_coordinator(pid)
    return {
        "a new one leads after s": leads_s,
        "all nodes are back after s": back_s,
        "longest pause before s": _pause(run.run_dir, at - CALM_S, at),
        "longest pause after s": _pause(run.run_dir, at, at + CALM_S),
    }


def _until(run: LocalRun, term: int, condition: Callable[[RunView], bool]) -> float:
    """When the status of a newer leader first says so."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        endpoint = read_endpoint(run.run_dir)
        # One that hangs would not answer.
        if endpoint is not None and endpoint.term > term:
            with contextlib.suppress(ConnectionLostError):
                if condition(run.status()):
                    return time.monotonic()
        time.sleep(0.01)
    raise TimeoutError("no new leader")


def _pause(run_dir: Path, start: float, end: float) -> float:
    """The longest time between two slices of one unit within a span."""
    longest = 0.0
    for folder in (run_dir / "fake" / "log").iterdir():
        times = sorted(path.stat().st_mtime for path in folder.glob("*.json"))
        within = [at for at in times if start <= at <= end]
        longest = max(longest, *(b - a for a, b in itertools.pairwise(within)))
    return longest


if __name__ == "__main__":
    raise SystemExit(main())
