"""Small instances for the FTC tests, from plain lists, and brute force over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.topology.graph import Edge, Operator, Topology

Links = Iterable[tuple[int, int]]


def topology_of(times: Sequence[float], edges: Links, **more: dict[int, object]) -> Topology:
    """One operator per task, named by its number; `more` gives fields as {task: value}."""
    operators = tuple(
        Operator(
            name=str(v),
            reprocess_time=float(time),
            **{field: values[v] for field, values in more.items() if v in values},
        )
        for v, time in enumerate(times)
    )
    links = tuple(Edge(source=str(u), target=str(v)) for u, v in edges)
    return Topology(name="small", operators=operators, edges=links)


def latency(
    times: Sequence[float], edges: Links, backups: Iterable[int], *, durable: bool = False
) -> list[float]:
    """L straight from its definition."""
    producers: list[list[int]] = [[] for _ in times]
    for u, v in edges:
        producers[v].append(u)
    survives = set(backups)
    if durable:
        survives |= {v for v in range(len(times)) if not producers[v]}
    known: dict[int, float] = {}

    def of(v: int) -> float:
        if v not in known:
            waits = [of(u) for u in producers[v] if u not in survives]
            known[v] = times[v] + max(waits, default=0.0)
        return known[v]

    return [of(v) for v in range(len(times))]


def cheapest(
    times: Sequence[float],
    edges: Links,
    bounds: Sequence[float],
    *,
    costs: Sequence[float] | None = None,
    required: Iterable[int] = (),
    forbidden: Iterable[int] = (),
    durable: bool = False,
) -> float | None:
    """The optimal cost by trying every set of backups; None if no plan exists."""
    edges = list(edges)
    size = len(times)
    costs = costs or [1.0] * size
    free = [v for v in range(size) if v not in set(required) | set(forbidden)]
    best = None
    for count in range(len(free) + 1):
        for chosen in itertools.combinations(free, count):
            backups = {*chosen, *required}
            cost = sum(costs[v] for v in backups)
            if best is not None and cost >= best - 1e-12:
                continue
            found = latency(times, edges, backups, durable=durable)
            if all(own <= bound + 1e-9 for own, bound in zip(found, bounds, strict=True)):
                best = cost
    return best


def random_instance(
    rng: np.random.Generator, most: int, *, tree: bool = False
) -> tuple[list[float], list[tuple[int, int]], float]:
    """Times, edges and a bound: zero, equal and random weights, isolated tasks, several sinks."""
    size = int(rng.integers(1, most + 1))
    weights = rng.integers(0, 3)
    times = [
        1.0 if weights == 0 else float(rng.integers(0, 5)) if weights == 1 else float(rng.random())
        for _ in range(size)
    ]
    if tree:
        edges = [
            (v, int(rng.integers(0, v))) for v in range(1, size) if rng.random() < 0.9
        ]  # a later number feeds an earlier one, and only one
    else:
        density = rng.random() * 0.6
        edges = [(u, v) for v in range(size) for u in range(v) if rng.random() < density]
    bound = max(times) + rng.random() * 0.6 * sum(times)
    return times, edges, float(bound)
