"""PPA: the heuristics against the proved optimum, on mixed topologies of about 37 tasks."""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks._ppa_common import arguments, table, write_json
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import PLANNER
from holdfast.testing.generators import ppa_random

SHARES = (0.2, 0.3, 0.5, 0.7)
ALGORITHMS = ("exact", "auto", "sa", "sa-as-printed", "greedy")


def main() -> int:
    args = arguments(__doc__)
    count = 8 if args.quick else 60
    value: dict[tuple[str, float], list[float]] = {}
    ratio: dict[tuple[str, float], list[float]] = {}
    seconds = dict.fromkeys(ALGORITHMS, 0.0)
    below = unproved = made = sizes = seed = 0
    while made < count:
        seed += 1
        skew = 0.1 if seed % 2 else 0.0
        topology = ppa_random(
            (5, 10), parallelism=(1, 8), full=0.5, joins=0.3, skew=skew, seed=seed
        )
        if not 32 <= topology.task_count <= 42:
            continue
        made += 1
        sizes += topology.task_count
        for share in SHARES:
            reached: dict[str, float] = {}
            for name in ALGORITHMS:
                start = time.perf_counter()
                request = PlanRequest(algorithm=name, replicas=int(topology.task_count * share))
                plan = PLANNER.plan(topology, request, Solve())
                seconds[name] += time.perf_counter() - start
                reached[name] = plan.objective or 0.0
                unproved += name == "exact" and not plan.optimal
            below += reached["sa"] < reached["greedy"]
            for name in ALGORITHMS:
                value.setdefault((name, share), []).append(reached[name])
                if reached["exact"] > 0:
                    part = reached[name] / reached["exact"]
                    ratio.setdefault((name, share), []).append(part)
    print(f"{made} topologies of {sizes / made:.1f} tasks on average; {unproved} not proved\n")
    head = ("algorithm", *(f"OF at {share:.0%}" for share in SHARES), "of optimum", "ms each")
    rows = [
        (
            name,
            *(float(np.mean(value[name, share])) for share in SHARES),
            f"{np.mean(np.concatenate([ratio[name, share] for share in SHARES])):.1%}",
            1000 * seconds[name] / made / len(SHARES),
        )
        for name in ALGORITHMS
    ]
    print(table(head, rows))
    part = float(np.mean(np.concatenate([ratio["sa", share] for share in SHARES])))
    print(f"\nsa reaches {part:.1%} of the optimum on average and was below greedy {below} times")
    write_json(args.json, {"table": [dict(zip(head, row, strict=True)) for row in rows]})
    return 1 if part < 0.9 or below else 0


if __name__ == "__main__":
    sys.exit(main())
