"""PPA: planning time as topologies grow, and the two promised sizes.

The time includes preparing the fidelity model. Promised is a budget of 80% of the tasks, as in the
paper's figure 18(b), where 50 operators of 10 to 20 tasks take half a second.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from benchmarks._ppa_common import arguments, table, write_json
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import PLANNER
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.testing.generators import ppa_random
from holdfast.topology.graph import Topology

OPERATORS = (10, 20, 30, 40, 50, 100, 200, 400, 667)
SHARES = (0.2, 0.5, 0.8)
ALGORITHMS = ("auto", "sa", "greedy")
LIMITS = {50: 0.5, 667: 5.0}
"""Seconds promised: 50 operators (750 tasks) and 667 (10,000 tasks)."""


def main() -> int:
    args = arguments(__doc__, plot=True)
    repeats = 1 if args.quick else 3
    rows, broken = [], []
    for operators in OPERATORS:
        made = [
            ppa_random(operators, parallelism=(10, 20), full=0.5, joins=0.3, seed=seed)
            for seed in range(repeats)
        ]
        tasks = round(statistics.mean(topology.task_count for topology in made))
        for share in SHARES:
            middle = [
                statistics.median(_time(topology, share, name) for topology in made)
                for name in ALGORITHMS
            ]
            rows.append((operators, tasks, f"{share:.0%}", *middle))
            limit = LIMITS.get(operators)
            if share == 0.8 and limit is not None and max(middle) > limit:
                broken.append(f"{operators} operators took {max(middle):.2f} s")
    head = ("operators", "tasks", "budget", *(f"{name} s" for name in ALGORITHMS))
    print(table(head, rows))
    for line in broken:
        print(f"over the limit: {line}")
    if args.plot:
        _plot(args.plot, rows)
    write_json(args.json, {"table": [dict(zip(head, row, strict=True)) for row in rows]})
    return 1 if broken else 0


def _time(topology: Topology, share: float, algorithm: str) -> float:
    """Seconds to plan; the better of two, since other programs may be running."""
    request = PlanRequest(algorithm=algorithm, replicas=int(topology.task_count * share))
    times = []
    for _ in range(2):
        fidelity_model.cache_clear()
        start = time.perf_counter()
        PLANNER.plan(topology, request, Solve())
        times.append(time.perf_counter() - start)
    return min(times)


def _plot(path: Path, rows: list[tuple[object, ...]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for k, name in enumerate(ALGORITHMS):
        for share, style in (("20%", ":"), ("80%", "-")):
            points = [(row[1], row[3 + k]) for row in rows if row[2] == share]
            axes.plot(
                *zip(*points, strict=True),
                style,
                marker="o",
                ms=3,
                color=f"C{k}",
                label=f"{name}, budget {share}",
            )
    axes.plot([775, 10_000], [0.5, 5.0], "kv", ms=7, label="promised at 80%")
    axes.set(xscale="log", yscale="log", xlabel="tasks", ylabel="planning time (s)")
    axes.set_title("PPA planning time")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
