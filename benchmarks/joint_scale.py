"""Joint planning of 100 operators, on one node and on 20: how long it takes, how near it is."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.joint.columns import count_segments
from holdfast.planners.joint.problem import make_problem
from holdfast.planners.joint.run import make_plan
from holdfast.predict.statistics import REFERENCE_MACHINE, Statistics
from holdfast.testing.generators import chain, in_tree, layered_dag, parallel_lines
from holdfast.testing.joint import random_joint_problem
from holdfast.topology.graph import Topology

LIMIT_S = 10.0
MACHINE = Statistics(machine=replace(REFERENCE_MACHINE, cores=64))


def light(made: Topology, rate: float, selectivity: float = 1.0) -> Topology:
    """A shape with stateless operators of the same small cost."""
    operators = tuple(
        replace(
            operator,
            cost=1e-5,
            tuple_size=0.1,
            selectivity=selectivity,
            state_size=0.0,
            failure_rate=1e-4,
        )
        for operator in made.operators
    )
    edges = tuple(replace(edge, partitioning="one-to-one") for edge in made.edges)
    rates = dict.fromkeys(made.rates, rate)
    return replace(made, operators=operators, edges=edges, rates=rates)


def cases(size: int) -> Iterator[tuple[str, Topology, PlanRequest]]:
    """Shapes of `size` operators, with recovery bounds and with latency bounds."""
    bounds = PlanRequest(statistics=MACHINE, max_recovery=8.0)
    yield "chain", light(chain(size), 3000), bounds
    yield "chain, latency", light(chain(size), 3000), replace(bounds, max_latency=20.0)
    for seed in (0, 3):
        tree = light(in_tree(size, seed=seed), 800)
        yield f"in-tree {seed}", tree, replace(bounds, max_recovery=12.0)
        yield f"in-tree {seed}, latency", tree, replace(bounds, max_recovery=12.0, max_latency=6.0)
    lines = light(parallel_lines(size // 10, 10), 2500)
    yield "parallel lines", lines, replace(bounds, max_recovery=10.0)
    layers = light(layered_dag(size // 5, 5), 50, selectivity=0.4)
    yield "layered DAG", layers, replace(bounds, max_latency=30.0)
    for seed in range(4):
        topology, request = random_joint_problem(seed, operators=size)
        wanted = replace(request, max_recovery=60.0, max_latency=30.0, max_overhead=None)
        yield f"random {seed}", topology, wanted
    for seed in range(4):
        topology, request = random_joint_problem(seed, operators=size)
        placed = replace(request, max_recovery=10.0, max_latency=30.0, max_overhead=None)
        yield f"random {seed}, 20 nodes", topology, replace(placed, nodes=20, max_outage=25.0)
    yield from hopeless(size)


def hopeless(size: int) -> Iterator[tuple[str, Topology, PlanRequest]]:
    """Random DAGs with bounds that no plan keeps at 100 operators: the nearest ones are told."""
    for seed in (1, 4, 7):
        topology, request = random_joint_problem(seed, operators=size)
        wanted = replace(request, max_recovery=10.0, max_latency=30.0, max_overhead=None)
        yield f"infeasible {seed}", topology, wanted
    for seed in (0, 1):
        topology, request = random_joint_problem(seed, operators=size)
        wanted = replace(request, max_recovery=10.0, max_latency=5.0, max_overhead=None)
        placed = replace(wanted, nodes=20, max_outage=25.0)
        yield f"infeasible {seed}, 20 nodes", topology, placed


def run(name: str, topology: Topology, request: PlanRequest) -> dict[str, Any]:
    started = time.perf_counter()
    cpu = time.process_time()
    plan = make_plan(topology, request, Solve())
    cpu = time.process_time() - cpu
    seconds = time.perf_counter() - started
    gap = None
    if plan.objective is not None and plan.bound:
        gap = (plan.objective - plan.bound) / plan.bound
    return {
        "name": name,
        "operators": len(topology.operators),
        "segments": float(count_segments(make_problem(topology, request))),
        "algorithm": plan.algorithm,
        "feasible": plan.feasible,
        "optimal": plan.optimal,
        "gap": gap,
        "boundaries": len(plan.boundaries),
        "forced": len(plan.forced),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "nearest": dict(plan.nearest),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"{'shape':22} {'segments':>9} algorithm  verdict      gap boundaries  wall s  CPU s")
    for name, topology, request in cases(40 if args.quick else 100):
        row = run(name, topology, request)
        rows.append(row)
        verdict = "optimal" if row["optimal"] else "feasible" if row["feasible"] else "infeasible"
        gap = "-" if row["gap"] is None else f"{row['gap']:.1%}"
        print(
            f"{name:22} {row['segments']:9.3g} {row['algorithm']:9} {verdict:10} {gap:>6} "
            f"{row['boundaries']:10d} {row['seconds']:7.2f} {row['cpu_seconds']:6.2f}",
            flush=True,
        )
    slow = [row["name"] for row in rows if row["cpu_seconds"] > LIMIT_S]
    print(f"{len(rows) - len(slow)} of {len(rows)} within {LIMIT_S:g} s of CPU")
    if args.json:
        args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
