"""Joint planning against brute force: 240 random topologies of up to 8 operators, 4 levels.

For each: exact must find the cost of the best of all plans (or that there is none), large must not
be below it and its bound not above it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.joint.exhaustive import tables
from holdfast.planners.joint.problem import make_problem
from holdfast.planners.joint.run import make_plan
from holdfast.testing.joint import random_joint_problem

TOLERANCE = 1e-8


def judge(seed: int) -> dict[str, Any]:
    """One topology: costs and times of brute force, exact and large."""
    topology, request = random_joint_problem(seed)
    problem = make_problem(topology, request)
    started = time.perf_counter()
    plans, best = 0, math.inf
    for table in tables(problem):
        plans += len(table.cost)
        costs = np.where(table.feasible(problem), table.cost, math.inf)
        best = min(best, float(costs.min()))
    brute_s = time.perf_counter() - started
    started = time.perf_counter()
    exact = make_plan(topology, request, Solve())
    exact_s = time.perf_counter() - started
    large = make_plan(topology, replace(request, algorithm="large"), Solve())
    cost = math.inf if exact.objective is None else exact.objective
    agree = math.isinf(best) and math.isinf(cost)
    tried = math.inf if large.objective is None else large.objective
    return {
        "seed": seed,
        "operators": len(topology.operators),
        "plans": plans,
        "feasible": math.isfinite(best),
        "equal": agree or abs(cost - best) <= TOLERANCE,
        "cut": len(exact.boundaries) > len(exact.forced),
        "large_equal": (math.isinf(best) and math.isinf(tried)) or abs(tried - best) <= TOLERANCE,
        "large_sound": tried >= best - TOLERANCE
        and (large.bound is None or large.bound <= best + TOLERANCE),
        "brute_s": brute_s,
        "exact_s": exact_s,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [judge(seed) for seed in range(24 if args.quick else 240)]
    feasible = [row for row in rows if row["feasible"]]
    summary = {
        "topologies": len(rows),
        "feasible": len(feasible),
        "with cuts beyond the forced ones": sum(row["cut"] for row in feasible),
        "plans looked at by brute force": sum(row["plans"] for row in rows),
        "exact equals brute force": sum(row["equal"] for row in rows),
        "large equals brute force": sum(row["large_equal"] for row in rows),
        "large keeps its bound": sum(row["large_sound"] for row in rows),
        "brute force, total s": round(sum(row["brute_s"] for row in rows), 2),
        "exact, total s (feasible only)": round(sum(row["exact_s"] for row in feasible), 2),
    }
    for name, value in summary.items():
        print(f"{name:36} {value}")
    wrong = [row["seed"] for row in rows if not (row["equal"] and row["large_sound"])]
    if wrong:
        print(f"wrong: seeds {wrong}")
    if args.json:
        args.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
