"""PPA: planning time as topologies grow, and the two promised sizes.

Every topology is new to the process (nothing is cached); the time includes preparing the model. The
budget is 80% of the tasks, as in the paper's figure 18(b), where 50 operators of 10 to 20 tasks
take half a second.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from benchmarks._ppa_common import arguments, table, write_json
from holdfast.model.fidelity import fidelity_model
from holdfast.plan.ppa import PLANNER
from holdfast.plan.protocol import PlanRequest, Solve
from holdfast.testing.generators import ppa_random

OPERATORS = (10, 20, 30, 40, 50, 100, 200, 400, 667)
ALGORITHMS = ("auto", "sa", "greedy")
LIMITS = {50: 0.5, 667: 5.0}
"""Seconds promised: 50 operators (750 tasks) and 667 (10,000 tasks)."""


def main() -> int:
    args = arguments(__doc__, plot=True)
    repeats = 1 if args.quick else 5
    rows, broken = [], []
    for operators in OPERATORS:
        for share in (0.2, 0.5, 0.8):
            times: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
            tasks = 0
            for seed in range(repeats):
                for name in ALGORITHMS:
                    tasks, seconds = _time(operators, share, name, seed)
                    times[name].append(seconds)
            middle = {name: statistics.median(times[name]) for name in ALGORITHMS}
            rows.append((operators, tasks, f"{share:.0%}", *middle.values()))
            limit = LIMITS.get(operators)
            if share == 0.8 and limit is not None and max(middle.values()) > limit:
                broken.append(f"{operators} operators took {max(middle.values()):.2f} s")
    head = ("operators", "tasks", "budget", *(f"{name} s" for name in ALGORITHMS))
    print(table(head, rows))
    for line in broken:
        print(f"over the limit: {line}")
    if args.plot:
        _plot(args.plot, rows)
    write_json(args.json, {"table": [dict(zip(head, row, strict=True)) for row in rows]})
    return 1 if broken else 0


def _time(operators: int, share: float, algorithm: str, seed: int) -> tuple[int, float]:
    """Tasks and seconds; the better of two, since other programs may be running."""
    times: list[float] = []
    for _ in range(2):
        topology = ppa_random(operators, parallelism=(10, 20), full=0.5, joins=0.3, seed=seed)
        budget = int(topology.task_count * share)
        fidelity_model.cache_clear()
        start = time.perf_counter()
        PLANNER.plan(topology, PlanRequest(algorithm=algorithm, replicas=budget), Solve())
        times.append(time.perf_counter() - start)
    return topology.task_count, min(times)


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
