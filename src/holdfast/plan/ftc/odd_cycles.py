"""Odd cycles of windows with two nodes: cuts that the linear relaxation does not see by itself.

Where bounds are short, most windows have two nodes and the problem is close to vertex cover: one
half everywhere satisfies every window. But a cycle of k such windows, k odd, needs (k + 1) / 2
backups, not k / 2. The slack of a window {u, v} is x(u) + x(v) - 1; a cycle is violated exactly
when its slacks add up to less than 1, so the shortest odd closed walks are the most violated ones.
They are shortest paths between the two copies of a node in a graph with two copies of each, in
which every window leads from one side to the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from holdfast.plan.ftc.core import Core
from holdfast.plan.ftc.windows import Window

IntArray = NDArray[np.int64]
Pairs = tuple[IntArray, IntArray]

_SOURCES = 60
"""Nodes through which a cycle is sought in one round."""
_STEP = 1e-3
"""Added to each slack, so that short cycles win; also keeps explicit zeros out of the matrix."""


def pairs_of(core: Core) -> Pairs:
    """All windows of two linked nodes."""
    times, costs = core.times, core.costs
    first: list[int] = []
    second: list[int] = []
    for v, consumers in enumerate(core.successors):
        if costs[v] < math.inf and consumers:
            left = min(core.caps[w] - times[w] for w in consumers) - times[v]
            for u in core.predecessors[v]:
                if costs[u] < math.inf and times[u] > left:
                    first.append(u)
                    second.append(v)
    return np.asarray(first, np.int64), np.asarray(second, np.int64)


def odd_cycles(pairs: Pairs, weight: Sequence[float], rng: np.random.Generator) -> list[Window]:
    """Cycles that a fractional plan covers too little, each as its sorted nodes."""
    first, second = pairs
    x = np.asarray(weight)
    slack = np.maximum(x[first] + x[second] - 1.0, 0.0) + _STEP
    size = len(x)
    ends = np.concatenate([first, first + size, second, second + size])
    others = np.concatenate([second + size, second, first + size, first])
    graph = csr_matrix((np.tile(slack, 4), (ends, others)), (2 * size, 2 * size))
    nodes = np.unique(first)
    sources = rng.choice(nodes, min(_SOURCES, len(nodes)), replace=False)
    far, before = dijkstra(graph, indices=sources, limit=1.0, return_predecessors=True)
    found: dict[Window, None] = {}
    for row, source in enumerate(sources.tolist()):
        if far[row, source + size] < 1.0:
            walk = [source]
            at = int(before[row, source + size])
            while at != source:
                walk.append(at % size)
                at = int(before[row, at])
            cycle = tuple(sorted(set(walk)))
            # A walk that meets itself holds a shorter cycle, which another source will find.
            if len(cycle) == len(walk) and x[list(cycle)].sum() < (len(cycle) + 1) / 2 - 0.01:
                found[cycle] = None
    return list(found)
