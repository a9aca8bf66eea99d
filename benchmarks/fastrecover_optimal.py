"""FastRecover: optima against brute force, speed, and the thesis' comparison at its defaults.

Part 1 compares `exact` (and `dag`) with every set of anchors under closed-form frequencies, on
random chains, out-trees and graphs with joins. Part 2 times them, up to a chain of 100,000. Part 3
is the thesis' table: mean expected recovery time of the naive plans, its grid algorithm, refined
frequencies and the optimum, on the same topologies, with the two measures of its section 4.3.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.plan import FastRecoverPlan
from holdfast.planners.fastrecover import PLANNER
from holdfast.planners.fastrecover.checkpointing import checkpoint_model
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.testing.generators import thesis_chain, thesis_tree
from holdfast.topology.graph import Edge, Topology, per_operator
from holdfast.topology.rates import operator_rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    quick = args.quick
    result: dict[str, Any] = {
        "brute_force": brute_force(60 if quick else 500, 30 if quick else 300),
        "brute_force_dag": brute_force_dag(20 if quick else 200),
        "speed": speed(3 if quick else 7),
        "thesis_chain": compare(
            "chain",
            thesis_chain,
            ("onesegment", "nsegments", "chain", "rsrfs", "rsrfs-exact"),
            quick=quick,
        ),
        "thesis_tree": compare(
            "tree", thesis_tree, ("onesegment", "nsegments", "tree"), quick=quick, overhead=0.5
        ),
    }
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def plan(topology: Topology, algorithm: str, overhead: float) -> FastRecoverPlan:
    request = PlanRequest(algorithm=algorithm, max_overhead=overhead)
    found = PLANNER.plan(topology, request, Solve())
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


def brute_force_dag(count: int) -> dict[str, Any]:
    """Graphs with joins: every set of anchors, segments and ancestor sets by definition."""
    rng = np.random.default_rng(22)
    worst, below, above = 0.0, 0, 0
    for _ in range(count):
        topology = thesis_dag(int(rng.integers(3, 9)), "random", int(rng.integers(1_000_000)))
        overhead = _sources(topology) * float(rng.uniform(1.05, 4.0))
        best = min(
            _definition(topology, frozenset(chosen), overhead)
            for many in range(len(topology.operators))
            for chosen in itertools.combinations(range(len(topology.operators)), many)
        )
        found = plan(topology, "dag", overhead)
        if found.objective is None or found.bound is None:
            raise AssertionError("a bound above the sources' saving is feasible")
        worst = max(worst, found.objective / best - 1.0)
        below += found.objective < best * (1 - 1e-9)
        above += found.bound > best * (1 + 1e-9)
    print(
        f"dag: {count} compared, worst relative error {worst:.1e} (bar 0.001), "
        f"below the optimum {below}, bounds above it {above}",
        flush=True,
    )
    return {"compared": count, "worst": worst, "below_optimum": below, "wrong_bounds": above}


def _sources(topology: Topology) -> float:
    """Overhead of saving what the sources receive."""
    rate = operator_rates(topology).input
    return float(sum(topology.storage.tuple_cost * rate[i] for i in topology.sources))


def _definition(topology: Topology, chosen: frozenset[int], overhead: float) -> float:
    """K + S^2 / (C - D) with segments and ancestors as plain sets."""
    anchors = chosen | frozenset(topology.sources)
    rate, storage = operator_rates(topology).input, topology.storage
    behind: dict[int, frozenset[int]] = {}
    segment: dict[int, set[int]] = {}
    for i in topology.order:
        members = {i}
        behind[i] = frozenset({i})
        if i not in anchors:
            for j in topology.upstream[i]:
                behind[i] |= behind[j]
                members |= segment[j]
        for k in members:
            segment[k] = members
    fixed = strength = 0.0
    saved = sum(storage.tuple_cost * rate[i] for i in anchors)
    for parts in {frozenset(members) for members in segment.values()}:
        a = b = 0.0
        for i in parts:
            fails = per_operator(topology.operators[i].failure_rate, how="sum")
            b += storage.state_cost * per_operator(topology.operators[i].state_size, how="sum")
            for k in behind[i]:
                op = topology.operators[k]
                fixed += fails * storage.state_cost * per_operator(op.state_size, how="sum")
                a += fails * rate[k] * per_operator(op.cost)
                a += fails * storage.tuple_cost * rate[k] if k in anchors else 0.0
        strength += math.sqrt(a * b)
    left = overhead - saved
    return float(fixed + strength**2 / left) if left > 0 else math.inf


def thesis_dag(size: int, kind: str, seed: int) -> Topology:
    """Operators by the thesis' rules on a graph with joins."""
    rng = np.random.default_rng(seed)
    pairs: set[tuple[int, int]] = set()
    for v in range(1, size):
        pool = range(v)
        if kind == "layered":
            pool = range(v // 6 * 6 - 6, v // 6 * 6) if v >= 6 else range(0)
        elif kind == "local":
            pool = range(max(0, v - 10), v)
        many = 1 + int(rng.random() < 0.3) if kind == "sparse" else int(rng.integers(1, 4))
        if pool:
            fed = rng.choice(np.asarray(pool), size=min(len(pool), many), replace=False)
            pairs |= {(int(u), v) for u in fed}
    base = thesis_chain(size, seed=rng)
    names = [op.name for op in base.operators]
    fed_names = {names[v] for _, v in pairs}
    return replace(
        base,
        name=f"{kind}-{size}",
        edges=tuple(Edge(source=names[u], target=names[v]) for u, v in sorted(pairs)),
        rates={name: 1000.0 for name in names if name not in fed_names},
    )


def long_chain(size: int, seed: int) -> Topology:
    """A chain whose rate wanders between 300 and 3000 tuples per minute."""
    base = thesis_chain(size, seed=seed)
    rng = np.random.default_rng(seed)
    rate, operators = 1000.0, []
    for op in base.operators:
        s = float(rng.uniform(0.5, 1.5))
        s = s if 300 <= rate * s <= 3000 else 1 / s
        operators.append(replace(op, selectivity=s))
        rate *= s
    return replace(base, operators=tuple(operators), rates={base.operators[0].name: 1000.0})


def _dag_of_60(kind: str, seed: int) -> Topology:
    return thesis_dag(60, kind, seed)


def speed(repeats: int) -> list[dict[str, Any]]:
    """CPU times; the overhead allowed is what the sources need plus a share of all other saving."""
    cases: list[tuple[str, float, Callable[[int], Topology], str, float, int]] = [
        ("chain of 15", 0.02, lambda s: thesis_chain(15, seed=s), "exact", 0.0, 10),
        ("chain of 200", 1.0, lambda s: long_chain(200, s), "exact", 0.3, 3),
        ("tree of 150", 1.0, lambda s: thesis_tree(150, seed=s), "exact", 0.3, 3),
    ]
    for kind in ("sparse", "layered", "local", "random"):
        for share in (0.1, 0.4, 1.0):
            name = f"{kind} DAG of 60, {share:g}"
            cases.append((name, 2.0, partial(_dag_of_60, kind), "dag", share, 1))
    cases.append(("chain of 100,000", 10.0, lambda s: long_chain(100_000, s), "auto", 0.3, 0))
    print(f"\n{'one core, CPU time':26} {'bar s':>6} {'median s':>9} {'worst s':>8}  verdict")
    rows = []
    for name, bar, make, algorithm, share, times_as_many in cases:
        times, verdicts = [], []
        repeats_here = max(1, repeats * times_as_many)
        for seed in range(repeats_here):
            topology = make(seed)
            overhead = 0.4
            if share:
                saved = checkpoint_model(topology).save
                sources = float(saved[list(topology.sources)].sum())
                overhead = 1.1 * sources + share * (float(saved.sum()) - sources)
            start = time.process_time()
            found = plan(topology, algorithm, overhead)
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
                "median_gap": statistics.median(verdicts),
                "worst_gap": gap,
                "planned": len(verdicts),
            }
        )
        print(
            f"{name:26} {bar:6.2f} {statistics.median(times):9.4f} {max(times):8.4f}  "
            f"{len(verdicts)}/{repeats_here} planned, gap to the bound: median "
            f"{statistics.median(verdicts):.2%}, worst {gap:.2%}",
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
    lost: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    for seed in range(20 if quick else 100):
        topology = make(size, seed=seed)
        for name, values in found.items():
            made = plan(topology, name, overhead)
            values.append(made.expected_recovery_time)
            lost[name].append(
                (made.computational_recovery_time or 0.0, made.mean_recovery_latency or 0.0)
            )
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
            "computational": statistics.fmean(lost[name][i][0] for i in common),
            "latency": statistics.fmean(lost[name][i][1] for i in common),
        }
        print(
            f"  {name:12} {mean:.5f}  {mean / base - 1.0:+8.1%} against exact, "
            f"{rows[name]['planned']} of {len(values)} planned; a lost machine: "
            f"{rows[name]['computational']:.4f} work, {rows[name]['latency']:.4f} latency",
            flush=True,
        )
    return {"common": len(common), "algorithms": rows}


if __name__ == "__main__":
    main()
