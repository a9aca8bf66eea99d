"""What PPA benchmarks and tests share: small random topologies and a judge written differently.

The judge spells eq. 1 to 4 out task by task over the link arrays of the task graph, and tries every
set of tasks. It shares no code with the fidelity model or the planners.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.topology.graph import Edge, Operator, Query, Topology, per_task
from holdfast.topology.links import Partitioning, effective_partitioning, reach
from holdfast.topology.rates import task_rates
from holdfast.topology.tasks import task_graph

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def small_topology(
    rng: np.random.Generator, *, most_tasks: int = 14, costs: bool = False
) -> Topology:
    """Joins, unions, splits, merges, Full links, shared operators and one or two queries."""
    while True:
        count = int(rng.integers(2, 7))
        widths = [int(rng.integers(1, 5)) for _ in range(count)]
        if sum(widths) <= most_tasks:
            break
    edges: list[Edge] = []
    for v in range(1, count):
        producers = min(v, 1 if rng.random() < 0.5 else 2)
        for u in rng.choice(v, producers, replace=False).tolist():
            if v > 1 and rng.random() < 0.1:
                continue
            edges.append(_edge(rng, f"o{u}", f"o{v}", widths[u], widths[v]))
    fed = {edge.target for edge in edges}
    operators = [
        Operator(
            name=f"o{i}",
            parallelism=widths[i],
            input="correlated" if rng.random() < 0.4 else "independent",
            selectivity=float(rng.choice([0.5, 1.0, 2.0])),
            replica_cost=tuple(rng.choice([0.5, 1.0, 1.5, 2.0], widths[i]).tolist())
            if costs
            else 1.0,
        )
        for i in range(count)
    ]
    sources = [op for op in operators if op.name not in fed]
    return Topology(
        name="small",
        operators=tuple(operators),
        edges=tuple(edges),
        task_rates={
            op.name: tuple(rng.integers(1, 6, op.parallelism).astype(float).tolist())
            for op in sources
        },
        queries=_queries(rng, operators, edges),
    )


def _queries(
    rng: np.random.Generator, operators: Sequence[Operator], edges: Sequence[Edge]
) -> tuple[Query, ...]:
    feeding = {edge.source for edge in edges}
    sinks = [op.name for op in operators if op.name not in feeding]
    if len(sinks) == 1 and rng.random() < 0.5:
        # A query may also read an operator that others feed on.
        sinks.append(operators[int(rng.integers(len(operators)))].name)
    return tuple(
        Query(name=f"q{k}", sink=name, priority=float(rng.integers(1, 4)))
        for k, name in enumerate(dict.fromkeys(sinks))
    )


def _edge(rng: np.random.Generator, source: str, target: str, a: int, b: int) -> Edge:
    kinds: list[Partitioning] = ["full"]
    kinds += ["one-to-one"] if a == b else (["split"] if b > a else ["merge"])
    kind = kinds[int(rng.integers(len(kinds)))]
    shares: tuple[tuple[float, ...], ...] | None = None
    if rng.random() < 0.3:
        rows = []
        for fed in reach(effective_partitioning(kind, a, b), a, b):
            parts = rng.integers(1, 5, len(fed)).astype(float)
            rows.append(tuple((parts / parts.sum()).tolist()))
        shares = tuple(rows)
    return Edge(source=source, target=target, partitioning=kind, shares=shares)


def judge(topology: Topology, alive: BoolArray) -> FloatArray:
    """OF of every row of `alive`, from the definition."""
    graph, rates = task_graph(topology), task_rates(topology)
    complete = np.zeros(alive.shape)
    for task in graph.order.tolist():
        links = graph.incoming(task)
        operator = topology.operators[int(graph.operator_of[task])]
        arriving = np.ones(len(alive))
        if len(links):
            streams = {}
            for edge in np.unique(graph.link_edge[links]).tolist():
                own = links[graph.link_edge[links] == edge]
                rate = rates.link[own]
                streams[edge] = (
                    float(rate.sum()),
                    complete[:, graph.link_source[own]] @ rate / rate.sum(),
                )
            if operator.input == "correlated":
                for _, kept in streams.values():
                    arriving = arriving * kept
            else:
                total = sum(rate for rate, _ in streams.values())
                arriving = sum(
                    (rate / total * kept for rate, kept in streams.values()), np.zeros(len(alive))
                )
        complete[:, task] = alive[:, task] * arriving
    value = np.zeros(len(alive))
    weight = 0.0
    for query in topology.effective_queries:
        tasks = list(graph.tasks_of(topology.index[query.sink]))
        rate = rates.output[tasks]
        value += query.priority * (complete[:, tasks] @ rate / rate.sum())
        weight += query.priority
    return value / weight


def all_sets(size: int) -> BoolArray:
    """Every set of tasks, one row each."""
    numbers = np.arange(1 << size)[:, None]
    return np.asarray(numbers >> np.arange(size) & 1, bool)


def costs_of(topology: Topology) -> FloatArray:
    return np.concatenate(
        [np.asarray(per_task(op.replica_cost, op.parallelism)) for op in topology.operators]
    )


def brute_force(
    topology: Topology,
    budget: float,
    *,
    required: Sequence[int] = (),
    forbidden: Sequence[int] = (),
) -> float | None:
    """The best OF of all sets of tasks within the budget; None: none is allowed."""
    sets = all_sets(topology.task_count)
    allowed = sets @ costs_of(topology) <= budget + 1e-9
    allowed &= sets[:, list(required)].all(axis=1) & ~sets[:, list(forbidden)].any(axis=1)
    if not allowed.any():
        return None
    return float(judge(topology, sets[allowed]).max())


# -- scripts ---------------------------------------------------------------------------------------


def arguments(text: str | None, *, plot: bool = False) -> argparse.Namespace:
    """The options every benchmark takes."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--quick", action="store_true", help="a small sample")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    if plot:
        parser.add_argument("--plot", type=Path, help="write the picture there")
    return parser.parse_args()


def write_json(path: Path | None, result: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(result, indent=1) + "\n")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns aligned for reading."""
    cells = [[_cell(item) for item in row] for row in (head, *rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join((lines[0].rstrip(), "-" * len(lines[0]), *map(str.rstrip, lines[1:])))


def _cell(item: object) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)
