"""How soon another path takes over when one fails, and how soon the first one is back.

The paper's topology (examples/locations.py) on real nodes. A fault is put into the functions of the
first path: its workers are stopped (SLP), every row takes longer (THR), memory leaks (MEM), it
raises (ERR). Times are those of the records: from the fault to the first slice that the next path
published (time to adapt), and from when the fault has ended and the next probe is due to the first
slice of the first path (time to return). Phases: fault to detection, detection to the change on
record, to the first slice. What arrives is checked against an independent computation.

    python -m benchmarks.paths [--quick] [--kinds slp,thr,mem,err] [--runs N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.clock import SystemClock
from holdfast.control.facts import BreakerChanged
from holdfast.deployment import Segment
from holdfast.faults.campaign import Campaign
from holdfast.faults.inject import Injector
from holdfast.faults.schedule import Fault, FaultKind, Schedule
from holdfast.health.breaker import BreakerPolicy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.layout import member, record_folder
from holdfast.rundir.paths import sabotage_path
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.node.processes import session_members
from holdfast.runtime.paths import carried, splits
from holdfast.runtime.spark.start.prepare import prepare
from holdfast.streams.steps import changes
from holdfast.verify.check import verify

APP = Path(__file__).parents[1] / "examples" / "locations.py"
KINDS: tuple[FaultKind, ...] = ("slp", "thr", "mem", "err")
AMOUNT = {"slp": "", "thr": "400", "mem": "200", "err": ""}
"""Milliseconds a row; megabytes a second."""
SETTLE_S = 40.0
"""Without a fault, before each: what is normal must be known."""
FAULT_S = 12.0
OPEN_S = 8.0
BARS = {"adapt_s": 2.0, "return_s": 5.0}
DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """One fault and what followed, seconds."""

    kind: str
    why: str
    """As the breaker said."""
    detect_s: float
    """From the fault to the open breaker."""
    switch_s: float
    """From there to the change on record."""
    start_s: float
    """From there to the first slice of the next path."""
    adapt_s: float
    return_s: float
    """From the first probe due after the fault had ended to the first slice of the first path."""
    bad_probes: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--runs", type=int, default=4, help="faults of each kind")
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before each fault")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    rounds = 1 if args.quick else args.runs
    found, ok = measure([kind for _ in range(rounds) for kind in kinds], args.settle)
    result = summary(found)
    for item in found:
        print(asdict(item), flush=True)
    print(json.dumps(result, indent=1))
    print("rows as expected" if ok else "ROWS LOST OR DOUBLED")
    if args.json:
        args.json.write_text(
            json.dumps({"runs": [asdict(item) for item in found], "summary": result, "exact": ok})
        )
    return 0 if ok else 1


def measure(kinds: Sequence[FaultKind], settle_s: float) -> tuple[list[Adapted], bool]:
    """Faults one after another in one run, and whether the rows were right in the end."""
    pipeline = load_pipeline(str(APP))
    deployment = deploy(pipeline)
    campaign = Campaign(
        app=str(APP),
        pipeline=pipeline,
        deployment=deployment,
        schedule=Schedule(faults=(Fault(at_s=0, kind="slp"),)),
        nodes=1,
        spares=1,
        breaker=BreakerPolicy(open_s=OPEN_S, cooldown_s=OPEN_S),
    )
    prepare(lambda line: print(line, flush=True))
    with tempfile.TemporaryDirectory(prefix="holdfast-paths-") as folder:
        spec = RunSpec(
            app=campaign.app,
            host="spark",
            deployment=deployment,
            policy=campaign.policy,
            options=campaign.options,
        )
        settings = LaunchSettings(nodes=campaign.policy.workers, spares=campaign.spares)
        run = LocalRun(Path(folder) / "run", spec, settings)
        with run:
            run.wait_for(all_running, DEADLINE_S, "the start")
            spares = campaign.policy.workers + campaign.spares
            run.wait_for(
                lambda view: sum(node.ready for node in view.nodes) == spares, DEADLINE_S, "warmth"
            )
            found = [_one(run, kind, splits(deployment)[0], settle_s) for kind in kinds]
        return found, verify(run.run_dir, claims(pipeline)).ok


def _one(run: LocalRun, kind: FaultKind, split: Segment, settle_s: float) -> Adapted:
    first = split.paths[0]
    calm = time.monotonic() + settle_s
    while time.monotonic() < calm:
        # The breaker must be closed and the path must carry all that time.
        if not _on(run, first):
            calm = time.monotonic() + settle_s
        time.sleep(0.2)
    log = SliceLog(run.run_dir)
    before = carried(log, split).change
    fault = Fault(
        at_s=0.0, kind=kind, target=f"{split.name}:{first}", duration_s=FAULT_S, text=AMOUNT[kind]
    )
    injector = Injector(
        run,
        Schedule(faults=(fault,)),
        SystemClock(),
        processes=lambda name: _processes(run, name),
    )
    injector.step()
    place = sabotage_path(run.run_dir, split.name, first)
    began = place.stat().st_mtime
    ended = 0.0
    slices: dict[int, float] = {}
    end = time.monotonic() + DEADLINE_S
    while injector.step() or ended == 0.0 or not _on(run, first) or len(slices) < 2:
        if ended == 0.0 and not place.exists():
            ended = time.time()
        if time.monotonic() > end:
            raise TimeoutError(f"{kind}: {run.status().splits}")
        _note_slices(log, split, before, slices)
        time.sleep(0.05)
    return _adapted(run, kind, split, log, before, began, ended, slices)


def _note_slices(log: SliceLog, split: Segment, before: int, known: dict[int, float]) -> None:
    """When the first slice of each change after `before` was put; soon they are trimmed."""
    for change in log.run(log.steps().changes_of(split.name))[before + 1 :]:
        if change.number not in known:
            found = log.slice(change.children[0].unit, 0)
            at = log.put_time(found) if found is not None else None
            if at is not None:
                known[change.number] = at


def _on(run: LocalRun, path: str) -> bool:
    view = run.status()
    (split,) = view.splits
    return split.active == split.carried == path and all_running(view)


def _adapted(
    run: LocalRun,
    kind: str,
    split: Segment,
    log: SliceLog,
    before: int,
    began: float,
    ended: float,
    slices: dict[int, float],
) -> Adapted:
    """From the journal's timeline and the put times of records."""
    left, back = before + 1, max(slices)
    facts = [
        fact
        for fact in run.status().timeline
        if isinstance(fact, BreakerChanged) and fact.breaker.path == split.paths[0]
    ]
    opened = next(f for f in facts if f.breaker.state == "open" and f.at > began)
    probes = [f for f in facts if f.breaker.state == "half-open" and f.at > ended]
    first, last = slices[left], slices[back]
    cut = log.store.put_time(member(record_folder(changes(split.name)), left)) or 0.0
    return Adapted(
        kind=kind,
        why=opened.breaker.why,
        detect_s=round(opened.at - began, 3),
        switch_s=round(cut - opened.at, 3),
        start_s=round(first - cut, 3),
        adapt_s=round(first - began, 3),
        return_s=round(last - probes[0].at, 3) if probes else -1.0,
        bad_probes=max(f.breaker.bad_probes for f in facts),
    )


def _processes(run: LocalRun, name: str) -> list[int]:
    child = run.launcher.node(name)
    return session_members(child.pid, run.launcher.launch) if child else []


def summary(found: Sequence[Adapted]) -> dict[str, Any]:
    """Medians by kind, and whether they are within the bars."""
    result: dict[str, Any] = {}
    for kind in dict.fromkeys(item.kind for item in found):
        mine = [item for item in found if item.kind == kind]
        medians = {
            name: round(statistics.median(getattr(item, name) for item in mine), 3)
            for name in ("detect_s", "switch_s", "start_s", "adapt_s", "return_s")
        }
        within = {name: medians[name] <= bar for name, bar in BARS.items()}
        result[kind] = {"runs": len(mine), "median": medians, "within": within}
    return result


if __name__ == "__main__":
    raise SystemExit(main())
