"""The plain shapes: lines, trees, layered and random DAGs.

These are the dummy topologies of the FTC paper's evaluation (one task per operator, weights 1 or
1..10) and the shapes that planners are compared on. Every edge leads from an earlier to a later
operator (in-trees: the other way round), so they are acyclic by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from holdfast.testing.generators.common import (
    Links,
    LinksOption,
    ParallelismOption,
    Range,
    RateOption,
    SeedOption,
    Weights,
    WeightsOption,
    at_least,
    connect,
    draw,
    fraction,
    generator_of,
    plain_operator,
    source_rates,
)
from holdfast.topology.graph import Topology

Pairs = Sequence[tuple[int, int]]


def chain(
    n: Annotated[int, "operators in the line"] = 10,
    *,
    parallelism: ParallelismOption = 1,
    links: LinksOption = "full",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """A sequential line: op1 -> op2 -> ... -> opN."""
    at_least("n", n, 1)
    rng = generator_of(seed)
    pairs = [(i, i + 1) for i in range(n - 1)]
    names = [f"op{i + 1}" for i in range(n)]
    return _build(
        f"chain-{n}",
        names,
        pairs,
        rng,
        parallelism=parallelism,
        links=links,
        weights=weights,
        rate=rate,
    )


def parallel_lines(
    lines: Annotated[int, "number of lines"] = 3,
    length: Annotated[Range, "operators in each line, N or MIN-MAX"] = 4,
    *,
    parallelism: ParallelismOption = 1,
    links: LinksOption = "full",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """Several lines that join at one sink, as in figure 4B of the FTC paper."""
    at_least("lines", lines, 1)
    rng = generator_of(seed)
    names: list[str] = []
    pairs: list[tuple[int, int]] = []
    ends: list[int] = []
    for line in range(lines):
        for step in range(draw(rng, "length", length)):
            if step:
                pairs.append((len(names) - 1, len(names)))
            names.append(f"l{line + 1}s{step + 1}")
        ends.append(len(names) - 1)
    pairs += [(end, len(names)) for end in ends]
    names.append("sink")
    return _build(
        f"lines-{lines}",
        names,
        pairs,
        rng,
        parallelism=parallelism,
        links=links,
        weights=weights,
        rate=rate,
    )


def in_tree(
    n: Annotated[int, "operators in the tree"] = 15,
    *,
    fan_in: Annotated[int, "most producers of one operator"] = 3,
    parallelism: ParallelismOption = 1,
    links: LinksOption = "full",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """A random tree of several sources and one sink (`op1`), the FTC paper's tree topology."""
    at_least("n", n, 1)
    at_least("fan_in", fan_in, 1)
    rng = generator_of(seed)
    pairs = [(child, parent) for parent, child in random_tree(rng, n, fan_in)]
    names = [f"op{i + 1}" for i in range(n)]
    return _build(
        f"in-tree-{n}",
        names,
        pairs,
        rng,
        parallelism=parallelism,
        links=links,
        weights=weights,
        rate=rate,
    )


def out_tree(
    n: Annotated[int, "operators in the tree"] = 15,
    *,
    fan_out: Annotated[int, "most consumers of one operator"] = 3,
    parallelism: ParallelismOption = 1,
    links: LinksOption = "full",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """A random tree of one source (`op1`) and several sinks."""
    at_least("n", n, 1)
    at_least("fan_out", fan_out, 1)
    rng = generator_of(seed)
    names = [f"op{i + 1}" for i in range(n)]
    pairs = random_tree(rng, n, fan_out)
    return _build(
        f"out-tree-{n}",
        names,
        pairs,
        rng,
        parallelism=parallelism,
        links=links,
        weights=weights,
        rate=rate,
    )


def layered_dag(
    layers: Annotated[int, "number of layers"] = 5,
    width: Annotated[Range, "operators in each layer, N or MIN-MAX"] = 4,
    *,
    density: Annotated[float, "chance of an edge between two operators of adjacent layers"] = 0.4,
    parallelism: ParallelismOption = 1,
    links: LinksOption = "full",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """Layers with random edges between neighbours; only the ends are sources and sinks."""
    at_least("layers", layers, 1)
    fraction("density", density)
    rng = generator_of(seed)
    names: list[str] = []
    pairs: list[tuple[int, int]] = []
    before: range = range(0)
    for layer in range(layers):
        size = draw(rng, "width", width)
        own = range(len(names), len(names) + size)
        names += [f"l{layer + 1}n{k + 1}" for k in range(size)]
        if before:
            pairs += _between(rng, before, own, density)
        before = own
    return _build(
        f"layered-{layers}",
        names,
        pairs,
        rng,
        parallelism=parallelism,
        links=links,
        weights=weights,
        rate=rate,
    )


def random_dag(
    n: Annotated[int, "operators"] = 12,
    *,
    density: Annotated[float, "chance of an edge from an earlier to a later operator"] = 0.2,
    sources: Annotated[int, "operators that may stay without producers"] = 1,
    parallelism: ParallelismOption = 1,
    links: LinksOption = "full",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """A random DAG; an operator left without producers gets one, past the first `sources`."""
    at_least("n", n, 1)
    at_least("sources", sources, 1)
    fraction("density", density)
    rng = generator_of(seed)
    pairs: list[tuple[int, int]] = []
    for v in range(1, n):
        producers = np.flatnonzero(rng.random(v) < density).tolist()
        if not producers and v >= sources:
            producers = [int(rng.integers(v))]
        pairs += [(int(u), v) for u in producers]
    names = [f"op{i + 1}" for i in range(n)]
    return _build(
        f"dag-{n}",
        names,
        pairs,
        rng,
        parallelism=parallelism,
        links=links,
        weights=weights,
        rate=rate,
    )


def random_tree(rng: np.random.Generator, n: int, fan: int) -> list[tuple[int, int]]:
    """(parent, child) pairs: each node hangs below an earlier one with fewer than `fan`."""
    pairs: list[tuple[int, int]] = []
    children = [0] * n
    free = [0]
    for child in range(1, n):
        at = int(rng.integers(len(free)))
        parent = free[at]
        pairs.append((parent, child))
        children[parent] += 1
        if children[parent] == fan:
            free[at] = free[-1]
            free.pop()
        free.append(child)
    return pairs


def _between(
    rng: np.random.Generator, before: range, own: range, density: float
) -> list[tuple[int, int]]:
    linked = rng.random((len(before), len(own))) < density
    for j in np.flatnonzero(~linked.any(axis=0)).tolist():
        linked[int(rng.integers(len(before))), j] = True
    for i in np.flatnonzero(~linked.any(axis=1)).tolist():
        linked[i, int(rng.integers(len(own)))] = True
    return [(before[i], own[j]) for i, j in np.argwhere(linked).tolist()]


def _build(
    name: str,
    names: Sequence[str],
    pairs: Pairs,
    rng: np.random.Generator,
    *,
    parallelism: Range,
    links: Links,
    weights: Weights,
    rate: float,
) -> Topology:
    at_least("rate", rate, 0)
    operators = tuple(
        plain_operator(rng, own, draw(rng, "parallelism", parallelism), weights) for own in names
    )
    return Topology(
        name=name,
        operators=operators,
        edges=connect(rng, operators, pairs, links),
        rates=source_rates(operators, pairs, rate),
    )
