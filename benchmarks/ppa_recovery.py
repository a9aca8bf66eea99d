"""PPA: incremental recovery, `inc` and the paper's `to` against the exact order."""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks._ppa_common import arguments, small_topology, table, write_json
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import PLANNER
from holdfast.testing.generators import ppa_random
from holdfast.topology.graph import Topology

ALGORITHMS = ("exact", "inc", "to")


def main() -> int:
    args = arguments(__doc__)
    count = 30 if args.quick else 300
    value: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    seconds = dict.fromkeys(ALGORITHMS, 0.0)
    for seed in range(count):
        topology = _topology(seed)
        for name in ALGORITHMS:
            start = time.perf_counter()
            plan = PLANNER.plan(topology, PlanRequest(algorithm=name, recover=True), Solve())
            seconds[name] += time.perf_counter() - start
            value[name].append(plan.objective or 0.0)
    best = np.asarray(value["exact"])
    some = best > 0
    rows = []
    for name in ALGORITHMS:
        part = np.asarray(value[name])[some] / best[some]
        rows.append(
            (
                name,
                float(np.mean(value[name])),
                f"{part.mean():.2%}",
                f"{part.min():.1%}",
                1000 * seconds[name] / count,
            )
        )
    print(f"{count} topologies of at most 11 tasks, all failed, one slot per time unit\n")
    head = ("order", "average OF", "of exact", "worst", "ms each")
    print(table(head, rows))
    reached = float(np.mean(value["inc"]) / np.mean(best))
    write_json(args.json, {"table": [dict(zip(head, row, strict=True)) for row in rows]})
    return 1 if reached < 0.97 else 0


def _topology(seed: int) -> Topology:
    """Half from the paper's generator, half with all that this library allows."""
    if seed % 2:
        return small_topology(np.random.default_rng(seed), most_tasks=11)
    rng = np.random.default_rng(seed)
    while True:
        made = ppa_random((3, 5), parallelism=(1, 4), full=0.5, joins=0.3, seed=rng)
        if made.task_count <= 11:
            return made


if __name__ == "__main__":
    sys.exit(main())
