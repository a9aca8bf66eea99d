"""The joint plan against the two hand-made extremes: never cut, and cut at every operator.

Each round runs the three plans in turn on the same pipeline and rates: until it is steady, then for
a while undisturbed (processor time of all nodes, spares included), then under kills. The extremes
run as `holdfast run` would without a plan: a batch every epoch and one warm spare. All are held to
the same bounds.

    cores       processor time per second of all processes of all nodes
    us/row      the same per input row
    recovery    from the kill until nothing is missing in any unit, median and 95th percentile
    kept        recoveries within --max-recovery
    objective   cores, and spare_cost for every warm spare: what the joint planner minimises, but
                for the cores of the uncut pipeline, which are the same for all

The bar: of the plans that keep the bound, the joint plan has the least objective.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._stream_common import end_on_terminate, scratch
from holdfast.clock import SystemClock
from holdfast.control.client import ControlClient
from holdfast.deployment import Deployment
from holdfast.pipeline import Pipeline, deploy, load_pipeline
from holdfast.pipeline.deploy import deploy_options
from holdfast.plan import JointPlan, Plan
from holdfast.planners.interface import PlanRequest
from holdfast.planners.planning import plan_topology
from holdfast.predict.statistics import Statistics, load_statistics
from holdfast.profile.cpu import sessions_cpu
from holdfast.prove.judge import Normal, Recovered, bound_kept, percentile
from holdfast.prove.result import Audience, Proof, Struck
from holdfast.prove.run import Proving, prove

JOINT, NEVER, EVERYWHERE = "joint", "never cut", "cut everywhere"
EXAMPLE = Path(__file__).parents[1] / "examples" / "word_count.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to run the pipeline."""

    name: str
    deployment: Deployment
    plan: Plan
    spares: int
    predicted_cores: float | None = None


@dataclass(slots=True)
class Tally:
    """What was measured of one contender over all rounds."""

    cores: list[float] = field(default_factory=list)
    row_us: list[float] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    kept: bool = True
    exact: bool = True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, two kills, 15 s calm")
    parser.add_argument("--app", default=str(EXAMPLE))
    parser.add_argument("--stats", type=Path, help="statistics file; default: reference machine")
    parser.add_argument("--max-recovery", type=float, default=5.0)
    parser.add_argument("--max-latency", type=float, default=4.0)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--kills", type=int, help="per round and plan")
    parser.add_argument("--calm", type=float, help="seconds of undisturbed running")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    rounds = args.rounds or (1 if args.quick else 3)
    kills = args.kills or (2 if args.quick else 7)
    calm_s = args.calm or (15.0 if args.quick else 60.0)
    pipeline = load_pipeline(args.app)
    measured = Statistics() if args.stats is None else load_statistics(args.stats)
    contenders = make_contenders(
        pipeline, measured, recovery=args.max_recovery, latency=args.max_latency
    )
    tallies = {item.name: Tally() for item in contenders}
    for number in range(rounds):
        for item in contenders:
            print(f"round {number + 1} of {rounds}: {item.name}", file=sys.stderr, flush=True)
            proving = Proving(
                app=args.app,
                pipeline=pipeline,
                deployment=item.deployment,
                plan=item.plan,
                faults=kills,
                nodes=args.nodes,
                spares=item.spares,
                seed=number,
                max_recovery=args.max_recovery,
            )
            with scratch() as root:
                watcher = Meter(root / "run", calm_s)
                proof = prove(proving, root / "run", watcher)
            add(tallies[item.name], proof, watcher)
    rows = [row(item, tallies[item.name], measured.machine.spare_cost.value) for item in contenders]
    met = show(rows, args.max_recovery)
    if args.json:
        args.json.write_text(json.dumps({"plans": rows, "met": met}, indent=1) + "\n")
    return 0


def make_contenders(
    pipeline: Pipeline, measured: Statistics, *, recovery: float, latency: float
) -> list[Contender]:
    """The joint plan and the two extremes."""
    request = PlanRequest(
        statistics=measured, max_recovery=recovery, max_latency=latency, max_replicas=0
    )
    plan = plan_topology(pipeline.topology(), request, clock=SystemClock(), method="joint")
    if not isinstance(plan, JointPlan) or not plan.feasible:
        raise SystemExit(f"no joint plan: {plan.note}")
    extremes = {NEVER: deploy(pipeline), EVERYWHERE: deploy(pipeline, cuts="all")}
    by_hand = JointPlan(algorithm="by hand", feasible=True, max_recovery=recovery)
    return [
        Contender(
            name=JOINT,
            deployment=deploy(pipeline, **deploy_options(plan)),
            plan=plan,
            spares=plan.spares or 0,
            predicted_cores=plan.cpu,
        ),
        *(
            Contender(name=name, deployment=deployment, plan=by_hand, spares=1)
            for name, deployment in extremes.items()
        ),
    ]


class Meter(Audience):
    """Measures processor time while nothing is disturbed, and says what happens on stderr."""

    def __init__(self, run_dir: Path, calm_s: float) -> None:
        self._run_dir = run_dir
        self._calm_s = calm_s
        self.cores = 0.0
        self.row_us = 0.0

    def steady(self, normal: Mapping[str, Normal]) -> None:
        del normal
        began, cpu, rows = time.monotonic(), *self._look()
        time.sleep(self._calm_s)
        used, more = self._look()
        self.cores = (used - cpu) / (time.monotonic() - began)
        self.row_us = 1e6 * (used - cpu) / max(1, more - rows)
        print(f"  {self.cores:.2f} cores", file=sys.stderr, flush=True)

    def recovered(self, fault: Struck, recoveries: Sequence[Recovered]) -> None:
        del fault
        print(f"  {worst(recoveries):.2f} s", file=sys.stderr, flush=True)

    def _look(self) -> tuple[float, int]:
        """Processor seconds of all nodes so far, and rows that the sources have read."""
        with ControlClient(self._run_dir) as client:
            view = client.status()
        used = sessions_cpu([node.pid for node in view.nodes])
        first = view.units[0].unit.rpartition("#")[0]
        units = [unit for unit in view.units if unit.unit.rpartition("#")[0] == first]
        return used, sum(unit.rows_in or 0 for unit in units)


def worst(recoveries: Sequence[Recovered]) -> float:
    """Until the whole pipeline is back; infinite if it did not come back."""
    return max(float("inf") if item.seconds is None else item.seconds for item in recoveries)


def add(tally: Tally, proof: Proof, watcher: Meter) -> None:
    """One run of a contender."""
    if proof.note:
        print(f"  {proof.note}", file=sys.stderr, flush=True)
    tally.cores.append(watcher.cores)
    tally.row_us.append(watcher.row_us)
    for fault in proof.struck:
        hit = [item for item in proof.recoveries if item.fault == fault.number]
        tally.recoveries.append(worst(hit) if hit else float("inf"))
    tally.kept = tally.kept and bound_kept(proof.comparisons)
    tally.exact = tally.exact and proof.exact


def row(item: Contender, tally: Tally, spare_cost: float) -> dict[str, Any]:
    """A line of the table, as values."""
    cores = statistics.median(tally.cores)
    bounds = [value for value in tally.recoveries if value < float("inf")]
    return {
        "plan": item.name,
        "segments": sum(segment.kind != "exporter" for segment in item.deployment.segments),
        "batch_s": max(s.batch_epochs for s in item.deployment.segments) * item.deployment.epoch_s,
        "spares": item.spares,
        "cores": cores,
        "predicted_cores": item.predicted_cores,
        "us_per_row": statistics.median(tally.row_us),
        "n": len(tally.recoveries),
        "median_s": percentile(bounds, 50) if bounds else None,
        "p95_s": percentile(bounds, 95) if bounds else None,
        "recoveries": tally.recoveries,
        "kept": tally.kept,
        "exact": tally.exact,
        "objective": cores + spare_cost * item.spares,
    }


def show(rows: Sequence[Mapping[str, Any]], bound: float) -> bool:
    """Print the table; whether the bar is met."""
    print(
        f"{'plan':16}{'segments':>9}{'batch':>7}{'spares':>8}{'cores':>8}{'us/row':>10}"
        f"{'recovery':>10}{'95%':>8}{'kept':>9}{'exact':>7}{'objective':>11}"
    )
    for item in rows:
        kept = f"{sum(value <= bound for value in item['recoveries'])}/{item['n']}"
        median = "-" if item["median_s"] is None else f"{item['median_s']:.2f} s"
        p95 = "-" if item["p95_s"] is None else f"{item['p95_s']:.2f} s"
        print(
            f"{item['plan']:16}{item['segments']:9}{item['batch_s']:5g} s{item['spares']:8}"
            f"{item['cores']:8.2f}{item['us_per_row']:10,.0f}{median:>10}{p95:>8}"
            f"{kept:>9}{'yes' if item['exact'] else 'NO':>7}"
            f"{item['objective']:11.3f}"
        )
    joint = next(item for item in rows if item["plan"] == JOINT)
    others = [item for item in rows if item is not joint and item["kept"]]
    met = bool(joint["kept"]) and all(joint["objective"] < item["objective"] for item in others)
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"bar, joint cheapest of those that keep {bound:g} s: {'met' if met else 'missed'}")
    return met


if __name__ == "__main__":
    sys.exit(main())
