"""FastRecover: optima against brute force, speed, and the thesis' comparison at its defaults.

Part 1 compares `exact` with every set of anchors under closed-form frequencies, on random chains
and out-trees. Part 2 times it. Part 3 is the thesis' table: mean expected recovery time of the
naive plans, its grid algorithm, refined frequencies and the optimum, on the same topologies.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.clock import SystemClock
from holdfast.model.rates import operator_rates
from holdfast.model.topology import Topology, per_operator
from holdfast.plan.fastrecover import PLANNER
from holdfast.plan.fastrecover.result import FastRecoverPlan
from holdfast.plan.protocol import PlanRequest, Solve
from holdfast.plan.session import make_solve
from holdfast.testing.generators import random_dag, thesis_chain, thesis_tree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    quick = args.quick
    result: dict[str, Any] = {
        "brute_force": brute_force(60 if quick else 500, 30 if quick else 300),
        "speed": speed(3 if quick else 7),
        "thesis_chain": compare(
            "chain", thesis_chain, ("onesegment", "nsegments", "chain", "rsrfs"), quick=quick
        ),
        "thesis_tree": compare(
            "tree", thesis_tree, ("onesegment", "nsegments", "tree"), quick=quick
        ),
    }
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def plan(
    topology: Topology, algorithm: str, overhead: float, seconds: float | None = None
) -> FastRecoverPlan:
    request = PlanRequest(algorithm=algorithm, max_overhead=overhead)
    solve = Solve() if seconds is None else make_solve(SystemClock(), time_limit_s=seconds)
    found = PLANNER.plan(topology, request, solve)
    if not isinstance(found, FastRecoverPlan):
        raise TypeError("not a FastRecover plan")
    return found


def brute_force(chains: int, trees: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(21)
    rows = []
    for shape, count, most, tolerance in (("chain", chains, 10, 1e-6), ("tree", trees, 9, 1e-3)):
        worst, below, missed, feasible = 0.0, 0, 0, 0
        for _ in range(count):
            size, seed = int(rng.integers(2, most + 1)), int(rng.integers(1_000_000_000))
            topology = (thesis_chain if shape == "chain" else thesis_tree)(size, seed=seed)
            overhead = float(rng.uniform(0.16, 0.9))
            best = _optimum(topology, overhead)
            found = plan(topology, "exact", overhead)
            missed += found.feasible != (best is not None)
            if best is None or found.expected_recovery_time is None:
                continue
            feasible += 1
            error = found.expected_recovery_time / best - 1.0 if best else 0.0
            worst = max(worst, error)
            below += error < -1e-9
        rows.append(
            {
                "shape": shape,
                "compared": count,
                "feasible": feasible,
                "worst": worst,
                "below_optimum": below,
                "feasibility_differs": missed,
                "within": worst <= tolerance,
            }
        )
        print(
            f"{shape}: {count} compared, {feasible} feasible, worst relative error {worst:.1e} "
            f"(bar {tolerance:g}), below the optimum {below}, feasibility differs {missed}",
            flush=True,
        )
    return rows


def _optimum(topology: Topology, overhead: float) -> float | None:
    """Every set of anchors with closed-form frequencies: RT = K + S^2 / (C - D)."""
    operators, storage = topology.operators, topology.storage
    rate = operator_rates(topology).input
    parent = [up[0] if up else -1 for up in topology.upstream]
    others = [i for i, p in enumerate(parent) if p >= 0]
    work = [per_operator(o.cost) * rate[i] for i, o in enumerate(operators)]
    state = [storage.state_cost * per_operator(o.state_size, how="sum") for o in operators]
    fail = [per_operator(o.failure_rate, how="sum") for o in operators]
    save = [
        storage.tuple_cost * per_operator(o.tuple_size) * rate[i] for i, o in enumerate(operators)
    ]
    best: float | None = None
    for count in range(len(others) + 1):
        for chosen in itertools.combinations(others, count):
            value = _closed_form(
                topology.order, parent, set(chosen), (work, state, fail, save), overhead
            )
            if value is not None and (best is None or value < best):
                best = value
    return best


def _closed_form(
    order: Sequence[int],
    parent: Sequence[int],
    anchors: set[int],
    numbers: tuple[Sequence[float], ...],
    overhead: float,
) -> float | None:
    work, state, fail, save = numbers
    head: dict[int, int] = {}
    path_work: dict[int, float] = {}
    path_state: dict[int, float] = {}
    a: dict[int, float] = {}
    b: dict[int, float] = {}
    fixed = 0.0
    for i in order:
        begins = parent[i] < 0 or i in anchors
        head[i] = i if begins else head[parent[i]]
        path_work[i] = work[i] + (0.0 if begins else path_work[parent[i]])
        path_state[i] = state[i] + (0.0 if begins else path_state[parent[i]])
        h = head[i]
        a[h] = a.get(h, 0.0) + fail[i] * (save[h] + path_work[i])
        b[h] = b.get(h, 0.0) + state[i]
        fixed += fail[i] * path_state[i]
    left = overhead - sum(save[h] for h in a)
    if left <= 0:
        return None
    return float(fixed + sum(math.sqrt(a[h] * b[h]) for h in a) ** 2 / left)


def speed(repeats: int) -> list[dict[str, Any]]:
    cases: list[tuple[str, float, Callable[[int], Topology], str, float]] = [
        ("chain of 15", 0.02, lambda s: thesis_chain(15, seed=s), "exact", 0.4),
        ("chain of 200", 1.0, lambda s: thesis_chain(200, seed=s), "exact", 0.6),
        ("tree of 150", 1.0, lambda s: thesis_tree(150, seed=s), "exact", 2.0),
        ("DAG of 60", 2.0, lambda s: random_dag(60, density=0.05, seed=s), "dag", 30.0),
    ]
    print(f"\n{'one core, CPU time':20} {'bar s':>7} {'median s':>9} {'worst s':>8}  verdict")
    rows = []
    for name, bar, make, algorithm, overhead in cases:
        times, verdicts = [], []
        for seed in range(repeats):
            topology = make(seed)
            start = time.process_time()
            found = plan(topology, algorithm, overhead, 2.0 if algorithm == "dag" else None)
            times.append(time.process_time() - start)
            if found.feasible and found.objective and found.bound is not None:
                verdicts.append(found.objective / found.bound - 1.0 if found.bound else math.inf)
        gap = max(verdicts, default=math.nan)
        rows.append(
            {
                "case": name,
                "bar_s": bar,
                "median_s": statistics.median(times),
                "worst_s": max(times),
                "worst_gap": gap,
                "planned": len(verdicts),
            }
        )
        print(
            f"{name:20} {bar:7.2f} {statistics.median(times):9.3f} {max(times):8.3f}  "
            f"{len(verdicts)}/{repeats} planned, worst gap to the bound {gap:.2%}",
            flush=True,
        )
    return rows


def compare(
    shape: str,
    make: Callable[..., Topology],
    algorithms: tuple[str, ...],
    *,
    quick: bool,
    size: int = 15,
    overhead: float = 0.4,
) -> dict[str, Any]:
    """Means over the topologies that every algorithm can plan; and how many each can."""
    found: dict[str, list[float | None]] = {name: [] for name in (*algorithms, "exact")}
    for seed in range(20 if quick else 100):
        topology = make(size, seed=seed)
        for name, values in found.items():
            values.append(plan(topology, name, overhead).expected_recovery_time)
    common = [
        i for i in range(len(found["exact"])) if all(v[i] is not None for v in found.values())
    ]
    base = statistics.fmean(found["exact"][i] or 0.0 for i in common) if common else math.nan
    print(
        f"\nthesis {shape}s of {size}, overhead {overhead}: mean over {len(common)} topologies "
        "that all can plan"
    )
    rows = {}
    for name, values in found.items():
        mean = statistics.fmean(values[i] or 0.0 for i in common) if common else math.nan
        rows[name] = {
            "mean": mean,
            "over_exact": mean / base - 1.0,
            "planned": sum(v is not None for v in values),
        }
        print(
            f"  {name:12} {mean:.5f}  {mean / base - 1.0:+8.1%} against exact, "
            f"{rows[name]['planned']} of {len(values)} planned",
            flush=True,
        )
    return {"common": len(common), "algorithms": rows}


if __name__ == "__main__":
    main()
