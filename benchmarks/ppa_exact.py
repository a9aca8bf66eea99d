"""PPA: `exact` and `dp` against every set of tasks, on small topologies of every kind."""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks._ppa_common import (
    arguments,
    brute_force,
    costs_of,
    small_topology,
    table,
    write_json,
)
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import PLANNER

SHARES = (0.3, 0.5, 0.7)


def main() -> int:
    args = arguments(__doc__)
    count = 60 if args.quick else 400
    wrong = dict.fromkeys(("exact", "dp", "auto"), 0)
    seconds = dict.fromkeys(wrong, 0.0)
    queries = joins = compared = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        topology = small_topology(rng, most_tasks=14, costs=seed % 4 == 0)
        queries += len(topology.queries) > 1
        joins += any(op.input == "correlated" for op in topology.operators)
        budget = round(float(costs_of(topology).sum()) * SHARES[seed % 3] * 2) / 2
        best = brute_force(topology, budget)
        for algorithm in wrong:
            start = time.perf_counter()
            request = PlanRequest(algorithm=algorithm, replicas=budget)
            plan = PLANNER.plan(topology, request, Solve())
            seconds[algorithm] += time.perf_counter() - start
            reached = plan.objective
            off = best is None or reached is None or abs(reached - best) > 1e-9
            wrong[algorithm] += off or not plan.optimal
        compared += 1
    print(f"{compared} topologies, {joins} with joins, {queries} with two queries or more\n")
    rows = [(name, wrong[name], 1000 * seconds[name] / compared) for name in wrong]
    print(table(("algorithm", "wrong or unproved", "ms each"), rows))
    write_json(args.json, {"topologies": compared, "wrong": wrong, "seconds": seconds})
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
