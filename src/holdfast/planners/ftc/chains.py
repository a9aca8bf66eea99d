"""Chains that share no node: a lower bound in nearly linear time, and the first windows of the LP.

Dropping links leaves fewer windows, so the optimum of what is left is a lower bound. A largest
matching of producers to consumers gives every node at most one of each: a cover of the instance by
chains, as few as possible, in which hardly a node is wasted. Nodes that begin or end a chain are
then hung on another one; the forests that come of it are solved exactly (see `forest`).

On layers with T = 1 this bound is the optimum. Elsewhere the windows along the chains start the
linear relaxation close to its end, where windows found one by one take a hundred rounds to get.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.forest import solve_in_forest, solve_out_forest
from holdfast.planners.ftc.heuristics import packed_bound
from holdfast.planners.ftc.windows import Window

Links = list[list[int]]
IntArray = NDArray[np.int64]


def chain_cover(core: Core, order: IntArray | None = None) -> list[int]:
    """Per node the next of its chain, or -1; `order`, a permutation, picks among the covers."""
    links = _through_hubs(core)
    counts = np.fromiter(map(len, links), np.int64, core.size)
    sources = np.repeat(np.arange(core.size), counts)
    targets = np.fromiter((w for consumers in links for w in consumers), np.int64, counts.sum())
    rank = np.arange(core.size) if order is None else order
    ones = np.ones(len(sources), np.int8)
    graph = csr_matrix((ones, (rank[sources], rank[targets])), (core.size, core.size))
    matched = maximum_bipartite_matching(graph, perm_type="column")
    back = np.argsort(rank)
    following = np.where(matched >= 0, back[matched], -1)
    chosen: list[int] = following[rank].tolist()
    return chosen


def forest_bound(core: Core) -> float:
    """A proved lower bound: the optimum of the chains, with their loose ends hung on others."""
    return _forest_bound(core, chain_cover(core), both=True)


def fast_bound(core: Core) -> float:
    """The same where every pass counts: only the ends of chains are hung on others."""
    return _forest_bound(core, chain_cover(core), both=False)


def _forest_bound(core: Core, following: list[int], *, both: bool) -> float:
    inward: Links = [[w] if w >= 0 else core.successors[v][:1] for v, w in enumerate(following)]
    falling = _linked(core, inward, _mirror(inward))
    bound = falling.cost(solve_in_forest(falling))
    if not both:
        return bound
    before = [-1] * core.size
    for v, w in enumerate(following):
        if w >= 0:
            before[w] = v
    outward: Links = [[u] if u >= 0 else core.predecessors[v][:1] for v, u in enumerate(before)]
    rising = _linked(core, _mirror(outward), outward)
    return max(bound, rising.cost(solve_out_forest(rising)))


def quick_bound(core: Core) -> float:
    """The better of disjoint windows and disjoint chains; a few linear passes."""
    return max(packed_bound(core), forest_bound(core))


def chain_windows(core: Core, following: list[int]) -> list[Window]:
    """All windows along the chains that hold no smaller one."""
    first = bytearray(b"\1") * core.size
    for w in following:
        if w >= 0:
            first[w] = 0
    windows: list[Window] = []
    for v in range(core.size):
        if first[v]:
            chain = [v]
            while following[chain[-1]] >= 0:
                chain.append(following[chain[-1]])
            windows.extend(_along(core, chain))
    return windows


def _along(core: Core, chain: list[int]) -> list[Window]:
    times, caps, costs = core.times, core.caps, core.costs
    found: list[Window] = []
    start, total, used = 0, 0.0, -1
    for at, v in enumerate(chain):
        total += times[v]
        while total - times[chain[start]] > caps[v]:
            total -= times[chain[start]]
            start += 1
        # A window that starts where an earlier one did holds all of it.
        if total > caps[v] and start > used:
            used = start
            found.append(tuple(u for u in chain[start:at] if costs[u] < math.inf))
    return [window for window in found if window]


def _through_hubs(core: Core) -> Links:
    """Consumers per node; a hub, which any number of chains may pass, is skipped in pairs."""
    links = [list(consumers) for consumers in core.successors]
    for v, producers in enumerate(core.predecessors):
        if core.costs[v] == math.inf and core.times[v] == 0.0 and core.successors[v]:
            consumers = links[v]
            links[v] = []
            # The shorter side goes round, so that every node of the longer one has a partner.
            for i in range(max(len(producers), len(consumers))):
                u = producers[i % len(producers)] if producers else -1
                if u >= 0:
                    links[u].append(consumers[i % len(consumers)])
    return links


def _mirror(links: Links) -> Links:
    mirrored: Links = [[] for _ in links]
    for v, others in enumerate(links):
        for w in others:
            mirrored[w].append(v)
    return mirrored


def _linked(core: Core, successors: Links, predecessors: Links) -> Core:
    return Core(
        times=core.times,
        caps=core.caps,
        costs=core.costs,
        predecessors=predecessors,
        successors=successors,
        members=core.members,
    )
