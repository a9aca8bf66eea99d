"""Joint planning with placement against brute force: 240 random topologies on up to 3 nodes.

For each: exact must find the cost of the best of all plans (or that there is none), each of which
brute force looks at whole; large must not be below it and its bound not above it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.planners.interface import Solve
from holdfast.planners.joint.run import Runner, algorithm_for
from holdfast.planners.joint.search import first_search
from holdfast.testing.joint import brute_force_case, every_plan

TOLERANCE = 1e-8


def judge(seed: int) -> dict[str, Any]:
    """One topology: costs and times of brute force, exact and large."""
    case = brute_force_case(seed)
    problem = case.problem
    started = time.process_time()
    best = every_plan(problem)
    brute_s = time.process_time() - started
    started = time.process_time()
    runner = Runner(algorithm_for(problem, "exact"), Solve())
    exact = runner.run(replace(problem))
    exact_s = time.process_time() - started
    large = Runner("large", Solve())._run(  # noqa: SLF001 - the bound alone, not the nearest ones
        replace(problem), first_search(problem), feasibility=False
    )
    cost = math.inf if exact.best is None else exact.best.cost
    tried = math.inf if large.best is None else large.best.cost
    nodes = 0 if exact.best is None else exact.best.choice.size.nodes
    return {
        "seed": seed,
        "operators": len(case.topology.operators),
        "feasible": math.isfinite(best),
        "equal": _equal(cost, best),
        "proved": exact.proved,
        "nodes": nodes,
        "cut": exact.best is not None and len(exact.best.choice.segments) > len(problem.fixed),
        "large_equal": _equal(tried, best),
        "large_sound": tried >= best - TOLERANCE and large.bound <= best + TOLERANCE,
        "brute_s": brute_s,
        "exact_s": exact_s,
    }


def _equal(cost: float, best: float) -> bool:
    return (math.isinf(best) and math.isinf(cost)) or abs(cost - best) <= TOLERANCE


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
        "on more than one node": sum(row["nodes"] > 1 for row in feasible),
        "exact equals brute force": sum(row["equal"] for row in rows),
        "exact proved": sum(row["proved"] for row in rows),
        "large equals brute force": sum(row["large_equal"] for row in rows),
        "large keeps its bound": sum(row["large_sound"] for row in rows),
        "brute force, total CPU s": round(sum(row["brute_s"] for row in rows), 2),
        "exact, total CPU s": round(sum(row["exact_s"] for row in rows), 2),
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
