"""FTC: how fast optima are proved, how far the other algorithms are from them, how `auto` grows.

Part 1 times proofs of optimality on the paper's shapes (one core, medians of process time). Part 2
counts the extra backups of every algorithm over the optimum on the paper's four shapes, uniform and
1..10 weights. Part 3 compares `exact` with brute force and `tree` with `exact`. Part 4 shows, shape
by shape, how far `auto` is from its own bound at 1,000 tasks after 9.8 s of process time. Part 5
lets `auto` grow to 100,000 tasks. Choose parts with --parts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from holdfast.clock import SystemClock
from holdfast.plan import FtcPlan
from holdfast.planners.ftc import PLANNER
from holdfast.planners.ftc.effects import effect_graph, recovery_latencies, reprocess_times
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.planning import make_solve
from holdfast.testing.generators import (
    in_tree,
    layered_dag,
    out_tree,
    parallel_lines,
    random_dag,
    sentiment,
    signalguru,
)
from holdfast.testing.generators.applications import SIGNALGURU_TASKS
from holdfast.topology.graph import Edge, Operator, Topology

COMPARED = ("late", "dag", "share", "auto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="draw the growth here")
    parser.add_argument(
        "--parts",
        nargs="*",
        choices=("proofs", "extra_backups", "brute_force", "trees", "thousand", "growth"),
        help="only these parts",
    )
    args = parser.parse_args()
    quick = args.quick
    sizes = (1_000, 10_000) if quick else (1_000, 3_000, 10_000, 20_000, 30_000, 100_000)
    parts: dict[str, Callable[[], Any]] = {
        "proofs": lambda: proofs(3 if quick else 9),
        "extra_backups": lambda: extra_backups(2 if quick else 8),
        "brute_force": lambda: brute_force(100 if quick else 1000),
        "trees": lambda: trees(100 if quick else 1000),
        "thousand": lambda: thousand(2.0 if quick else 9.8),
        "growth": lambda: growth(sizes),
    }
    result = {name: parts[name]() for name in args.parts or parts}
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    if args.plot and "growth" in result:
        plot(result["growth"], args.plot)


class _ProcessClock(SystemClock):
    """Counts this process' own time, so that other work on the machine does not matter."""

    def now(self) -> float:
        return time.process_time()


def plan(topology: Topology, bound: float, algorithm: str, seconds: float | None = None) -> FtcPlan:
    request = PlanRequest(algorithm=algorithm, max_recovery=bound)
    solve = Solve() if seconds is None else make_solve(_ProcessClock(), time_limit_s=seconds)
    return PLANNER.plan(topology, request, solve)


def proofs(repeats: int) -> list[dict[str, Any]]:
    """Median time to a proved optimum, over bounds that need backups."""
    cases: list[tuple[str, float, Callable[[int], Topology], tuple[float, ...]]] = [
        (
            "sentiment (50,20,20)",
            0.1,
            lambda s: sentiment(50, 20, 20, weights="random", seed=s),
            (15.0, 20.0, 30.0),
        ),
        (
            "sentiment (30,30,30)",
            0.1,
            lambda s: sentiment(30, 30, 30, weights="random", seed=s),
            (15.0, 20.0, 30.0),
        ),
        (
            "signalguru 1..10",
            1.0,
            lambda s: signalguru(weights="random", seed=s),
            (15.0, 20.0, 30.0),
        ),
        (
            "layered 150 sparse",
            2.0,
            lambda s: layered_dag(15, 10, density=0.15, weights="random", seed=s),
            (15.0, 20.0, 30.0),
        ),
    ]
    rows = []
    print(f"{'proved optimal':24} {'bar s':>6} {'median s':>9} {'worst s':>8}  proved")
    for name, bar, make, bounds in cases:
        times, proved = [], 0
        for seed in range(repeats):
            for bound in bounds:
                topology = make(seed)
                start = time.process_time()
                found = plan(topology, bound, "auto")
                times.append(time.process_time() - start)
                proved += found.optimal
        rows.append(
            {
                "shape": name,
                "bar_s": bar,
                "median_s": statistics.median(times),
                "worst_s": max(times),
                "proved": proved,
                "of": len(times),
            }
        )
        print(
            f"{name:24} {bar:6.1f} {statistics.median(times):9.3f} {max(times):8.3f}  "
            f"{proved}/{len(times)}",
            flush=True,
        )
    return rows


def shapes(seeds: int) -> Iterator[tuple[str, str, Topology, float]]:
    cases: tuple[tuple[Literal["uniform", "random"], tuple[float, ...]], ...] = (
        ("uniform", (2.0, 3.0, 4.0)),
        ("random", (12.0, 18.0, 26.0)),
    )
    for weights, bounds in cases:
        for seed in range(seeds):
            for bound in bounds:
                yield "lines", weights, parallel_lines(5, 10, weights=weights, seed=seed), bound
                yield "tree", weights, in_tree(60, weights=weights, seed=seed), bound
                yield "signalguru", weights, signalguru(weights=weights, seed=seed), bound
                yield "sentiment", weights, sentiment(12, 8, 8, weights=weights, seed=seed), bound


def extra_backups(seeds: int) -> list[dict[str, Any]]:
    """Backups beyond the proved optimum, in per cent of it."""
    sums: dict[tuple[str, str], dict[str, float]] = {}
    unproved = 0
    for shape, weights, topology, bound in shapes(seeds):
        best = plan(topology, bound, "exact", 20.0)
        unproved += not best.optimal
        row = sums.setdefault((shape, weights), dict.fromkeys(("optimum", *COMPARED), 0.0))
        row["optimum"] += best.count or 0
        for algorithm in COMPARED:
            row[algorithm] += plan(topology, bound, algorithm).count or 0
    print(f"\n{'extra backups':24}" + "".join(f"{name:>9}" for name in COMPARED))
    rows = []
    for (shape, weights), row in sums.items():
        extra = {name: row[name] / max(row["optimum"], 1.0) - 1.0 for name in COMPARED}
        rows.append({"shape": shape, "weights": weights, "optimum": row["optimum"], **extra})
        label = f"{shape}, {'T = 1' if weights == 'uniform' else 'T = 1..10'}"
        print(f"{label:24}" + "".join(f"{extra[name]:9.1%}" for name in COMPARED))
    if unproved:
        print(f"({unproved} optima not proved within 20 s)")
    return rows


def brute_force(count: int) -> dict[str, int]:
    """`exact` against every set of backups, on random DAGs of up to 12 tasks."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(count):
        topology, bound = _small(rng)
        found = plan(topology, bound, "exact")
        wrong += abs((found.objective or 0.0) - _cheapest(topology, bound)) > 1e-9
    print(f"\nexact against brute force: {count - wrong} of {count} equal", flush=True)
    return {"compared": count, "different": wrong}


def trees(count: int) -> dict[str, int]:
    """The one-pass `tree` against the exact search, on random in-trees."""
    from holdfast.planners.ftc.exact import PATIENT, search
    from holdfast.planners.ftc.problem import make_problem

    rng = np.random.default_rng(12)
    wrong = 0
    for _ in range(count):
        topology = in_tree(
            int(rng.integers(2, 60)), weights="random", seed=int(rng.integers(1_000_000_000))
        )
        bound = float(rng.integers(10, 40))
        problem = make_problem(topology, PlanRequest(max_recovery=bound))
        best = search(problem, Solve(), PATIENT)
        wrong += plan(topology, bound, "tree").count != len(best.backups) or not best.optimal
    print(f"tree against exact: {count - wrong} of {count} equal", flush=True)
    return {"compared": count, "different": wrong}


def _small(rng: np.random.Generator) -> tuple[Topology, float]:
    size = int(rng.integers(2, 13))
    priced, density = rng.random() < 0.5, 0.1 + 0.4 * rng.random()
    operators = tuple(
        Operator(
            name=str(v),
            reprocess_time=float(rng.integers(0, 6)),
            backup_cost=float(rng.integers(1, 5)) if priced else None,
            backup="required" if rng.random() < 0.1 else "free",
        )
        for v in range(size)
    )
    edges = tuple(
        Edge(source=str(u), target=str(v))
        for v in range(size)
        for u in range(v)
        if rng.random() < density
    )
    topology = Topology(name="small", operators=operators, edges=edges)
    times = reprocess_times(topology)
    return topology, float(times.max() + rng.random() * 0.6 * times.sum())


def _cheapest(topology: Topology, bound: float) -> float:
    graph, times = effect_graph(topology), reprocess_times(topology)
    operators = topology.operators
    costs = [float(np.max(o.backup_cost)) if o.backup_cost is not None else 1.0 for o in operators]
    required = [v for v, o in enumerate(operators) if o.backup == "required"]
    free = [v for v, o in enumerate(operators) if o.backup == "free" and topology.downstream[v]]
    best = float("inf")
    for size in range(len(free) + 1):
        for chosen in itertools.combinations(free, size):
            cost = sum(costs[v] for v in (*chosen, *required))
            if cost < best - 1e-12:
                found = recovery_latencies(graph, times, {*chosen, *required})
                if max(found) <= bound + 1e-9:
                    best = cost
    return best


def thousand_tasks() -> Iterator[tuple[str, Topology, float]]:
    """Shapes of about 1,000 tasks; `links` is the mean number of consumers of a task."""
    cases: tuple[tuple[Literal["uniform", "random"], str, tuple[float, float, float]], ...] = (
        ("uniform", "T = 1", (2.0, 4.0, 8.0)),
        ("random", "T = 1..10", (15.0, 30.0, 60.0)),
    )
    for weights, label, bounds in cases:
        made = [
            (
                f"layered {layers} x {width}, {links} links",
                layered_dag(layers, width, density=links / width, weights=weights),
            )
            for layers, width in ((50, 20), (20, 50), (10, 100))
            for links in (2, 4)
        ]
        made += [
            (
                f"random, {links} links",
                random_dag(1000, density=links / 500, weights=weights),
            )
            for links in (1.5, 3)
        ]
        steps = tuple(18 * count for count in SIGNALGURU_TASKS)
        made += [
            ("signalguru x 18", signalguru(tasks=steps, weights=weights)),
            ("sentiment (400,300,300)", sentiment(400, 300, 300, weights=weights)),
            ("in-tree", in_tree(1000, weights=weights)),
            ("out-tree", out_tree(1000, weights=weights)),
        ]
        for name, topology in made:
            for bound in bounds:
                yield f"{name}, {label}", topology, bound
    # The sparse layers of the proofs, as many links a task and the same bounds.
    for layers, width in ((50, 20), (20, 50), (10, 100)):
        for bound in (15.0, 20.0, 30.0):
            sparse = layered_dag(layers, width, density=1.5 / width, weights="random")
            yield f"layered {layers} x {width}, 1.5 links, T = 1..10", sparse, bound


def thousand(seconds: float) -> list[dict[str, Any]]:
    """1,000 tasks: how far the plan of `auto` is from its own proved bound."""
    print(f"\n{'1,000 tasks':42} {'R':>4} {'backups':>8} {'bound':>6} {'gap':>7} {'CPU s':>6}")
    rows = []
    for name, topology, bound in thousand_tasks():
        start = time.process_time()
        found = plan(topology, bound, "auto", seconds)
        spent = time.process_time() - start
        gap = found.objective / found.bound - 1.0 if found.objective and found.bound else 0.0
        rows.append(
            {
                "shape": name,
                "R": bound,
                "count": found.count,
                "bound": found.bound,
                "gap": gap,
                "cpu_s": spent,
                "optimal": found.optimal,
            }
        )
        print(
            f"{name:42} {bound:4.0f} {found.count:8} {found.bound:6.0f} {gap:7.1%} {spent:6.1f}",
            flush=True,
        )
    return rows


def growth(sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """Time of `auto` after loading, on lines and on sparse random DAGs."""
    print(
        f"\n{'tasks':>8} {'DAG s':>8} {'line s':>8} {'late s':>8} {'backups':>8} {'bound':>7}"
        "   (process time, after loading)"
    )
    rows = []
    for size in sizes:
        width = max(10, size // 100)
        dag = layered_dag(
            size // width, width, density=min(1.0, 2.0 / width), weights="random", seed=1
        )
        line = parallel_lines(1, size, weights="random", seed=1)
        row = {"tasks": float(size)}
        for name, topology, algorithm in (
            ("dag_s", dag, "auto"),
            ("line_s", line, "auto"),
            ("late_s", dag, "late"),
        ):
            start = time.process_time()
            found = plan(topology, 40.0, algorithm, 10.0)
            row[name] = time.process_time() - start
            if not found.feasible:
                raise SystemExit(f"no plan for {size} tasks")
            if name == "dag_s":
                row |= {"backups": found.objective or 0.0, "bound": found.bound or 0.0}
        rows.append(row)
        print(
            f"{size:8,} {row['dag_s']:8.2f} {row['line_s']:8.2f} {row['late_s']:8.2f} "
            f"{row['backups']:8.0f} {row['bound']:7.0f}",
            flush=True,
        )
    return rows


def plot(rows: list[dict[str, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    xs = [row["tasks"] for row in rows]
    for name, label in (("dag_s", "auto, DAG"), ("line_s", "auto, line"), ("late_s", "late, DAG")):
        axes.loglog(xs, [row[name] for row in rows], marker="o", label=label)
    axes.loglog(xs, [rows[-1]["late_s"] * x / xs[-1] for x in xs], "k:", label="linear")
    axes.set_xlabel("tasks")
    axes.set_ylabel("process time, s")
    axes.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
