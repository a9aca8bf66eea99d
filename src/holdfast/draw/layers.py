"""Layers and orders of a layered (Sugiyama) drawing.

Layers by longest path, then every node moves within its slack towards the side with more edges,
which shortens edges. Long edges become chains of dummy nodes, one per layer they pass. Within
layers, barycentre sweeps in both directions with exchanges of neighbours; the order with the
fewest crossings is kept. All ties fall to the topology's order, so a drawing is deterministic.
Cost: O(sweeps * E log E) with E counted after long edges are cut.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

_SWEEPS = 24
_SWAP_LIMIT = 4000
"""Nodes, dummies included, up to which neighbours are exchanged; more would take seconds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layered:
    """A graph whose every edge leads from one layer to the next."""

    size: int
    """Real nodes come first: `0 .. size - 1`; the rest are dummies."""
    layer: list[int]
    """Per node, dummies included, its layer."""
    order: list[list[int]]
    """Per layer, its nodes from one side to the other."""
    up: list[list[int]]
    down: list[list[int]]
    routes: list[list[int]]
    """Per edge of the input, the nodes it passes: source, dummies, target."""


def arrange(size: int, edges: Sequence[tuple[int, int]], topological: Sequence[int]) -> Layered:
    """Layer and order a DAG given by edges over `0 .. size - 1`."""
    layer = assign_layers(size, edges, topological)
    up: list[list[int]] = [[] for _ in range(size)]
    down: list[list[int]] = [[] for _ in range(size)]
    routes: list[list[int]] = []
    for u, v in edges:
        route = [u]
        for level in range(layer[u] + 1, layer[v]):
            layer.append(level)
            up.append([])
            down.append([])
            route.append(len(layer) - 1)
        route.append(v)
        for a, b in itertools.pairwise(route):
            down[a].append(b)
            up[b].append(a)
        routes.append(route)
    order = _initial_order(layer, up, down)
    order = _reduce_crossings(order, up, down)
    return Layered(size=size, layer=layer, order=order, up=up, down=down, routes=routes)


def assign_layers(
    size: int, edges: Sequence[tuple[int, int]], topological: Sequence[int]
) -> list[int]:
    """Longest-path layers, then moves within the slack that shorten edges; from 0."""
    up: list[list[int]] = [[] for _ in range(size)]
    down: list[list[int]] = [[] for _ in range(size)]
    for u, v in edges:
        down[u].append(v)
        up[v].append(u)
    layer = [0] * size
    for v in topological:
        layer[v] = max((layer[u] + 1 for u in up[v]), default=0)
    for turn in range(8):
        moved = False
        for v in topological if turn % 2 else reversed(topological):
            pull = len(down[v]) - len(up[v])
            if pull > 0:
                best = min(layer[w] for w in down[v]) - 1
            elif pull < 0:
                best = max(layer[u] for u in up[v]) + 1
            else:
                continue
            moved = moved or best != layer[v]
            layer[v] = best
        if not moved:
            break
    first = min(layer, default=0)
    return [level - first for level in layer]


def crossings(order: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """Edge crossings between all neighbouring layers."""
    total = 0
    for upper, lower in itertools.pairwise(order):
        at = {v: i for i, v in enumerate(lower)}
        seen: list[int] = []
        for u in upper:
            ends = sorted(at[v] for v in down[u])
            for end in ends:
                total += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return total


def _initial_order(
    layer: Sequence[int], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Depth-first from each source, so that trees start without crossings."""
    order: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    seen = [False] * len(layer)
    for root in (v for v in range(len(layer)) if not up[v]):
        walk = [root]
        while walk:
            v = walk.pop()
            if seen[v]:
                continue
            seen[v] = True
            order[layer[v]].append(v)
            # Both directions: an in-tree is as much a tree as an out-tree.
            walk += [w for w in reversed([*up[v], *down[v]]) if not seen[w]]
    return order


def _reduce_crossings(
    order: list[list[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> list[list[int]]:
    best, fewest = [list(row) for row in order], crossings(order, down)
    swap = sum(map(len, order)) <= _SWAP_LIMIT
    idle = 0
    for sweep in range(_SWEEPS):
        if fewest == 0 or idle == 6:
            break
        forward = sweep % 2 == 0
        rows = range(1, len(order)) if forward else range(len(order) - 2, -1, -1)
        near = up if forward else down
        for row in rows:
            fixed = order[row - 1 if forward else row + 1]
            _sort_by_barycentre(order[row], fixed, near, flip=sweep % 4 >= 2)
        if swap:
            _exchange(order, up, down)
        count = crossings(order, down)
        if count < fewest:
            best, fewest, idle = [list(row) for row in order], count, 0
        else:
            idle += 1
    return best


def _sort_by_barycentre(
    row: list[int], fixed: Sequence[int], near: Sequence[Sequence[int]], *, flip: bool
) -> None:
    at = {v: i for i, v in enumerate(fixed)}
    keys: dict[int, tuple[float, int]] = {}
    for i, v in enumerate(row):
        ends = [at[w] for w in near[v]]
        # A node without neighbours there keeps its relative place.
        middle = sum(ends) / len(ends) if ends else i * len(fixed) / len(row)
        # Flipping ties now and then leaves local optima that a stable sort stays in.
        keys[v] = (middle, -i if flip else i)
    row.sort(key=keys.__getitem__)


def _exchange(
    order: list[list[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> None:
    position = {v: i for row in order for i, v in enumerate(row)}
    for _ in range(4):
        better = False
        for row in order:
            for i in range(len(row) - 1):
                a, b = row[i], row[i + 1]
                gain = 0
                for near in (up, down):
                    left = sorted(position[w] for w in near[a])
                    right = sorted(position[w] for w in near[b])
                    gain += _inversions(left, right) - _inversions(right, left)
                if gain > 0:
                    row[i], row[i + 1] = b, a
                    position[a], position[b] = i + 1, i
                    better = True
        if not better:
            return


def _inversions(left: Sequence[int], right: Sequence[int]) -> int:
    """Pairs (l, r) with l > r: crossings when left's node stands before right's."""
    return sum(len(left) - bisect_right(left, r) for r in right)
