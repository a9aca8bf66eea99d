"""Coordinates across the layers: Brandes and Koepf's alignment, compacted as a longest path.

Four times (to either side, from either end) each node is aligned with a median neighbour into
blocks, long edges first, so that they run straight; blocks are packed as tightly as the order and
the sizes allow; the four results are lined up with the narrowest and each node takes the mean of
its two middle values. Order and separation hold in each of the four, so they hold in the mean.

Reading: U. Brandes and B. Koepf, Fast and Simple Horizontal Coordinate Assignment (2002). Their
compaction by classes is known to be wrong in corner cases; the longest path over blocks, once
from each side, is used instead. Cost: linear in nodes and edges, after sorting.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from holdfast.draw.layers import Layered
from holdfast.draw.relax import relax

_LOOSE = 1.4
"""Width, in widest layers, from which aligned coordinates give way to compact ones."""


def place(graph: Layered, sizes: Sequence[float], gap: float, dummy_gap: float) -> list[float]:
    """Centres across the layers; `sizes` are extents across, `gap` the space between nodes."""
    aligned = align(graph, sizes, gap, dummy_gap)
    widest = max(
        sum(sizes[v] + (gap if v < graph.size else dummy_gap) for v in row) for row in graph.order
    )
    if max(aligned) <= _LOOSE * widest:
        return aligned
    return relax(graph, sizes, gap, dummy_gap)


def align(graph: Layered, sizes: Sequence[float], gap: float, dummy_gap: float) -> list[float]:
    """Coordinates by aligned blocks."""
    marked = _conflicts(graph)
    results: list[list[float]] = []
    for downward in (True, False):
        for leftward in (True, False):
            rows = [list(row) for row in (graph.order if downward else graph.order[::-1])]
            if not leftward:
                rows = [row[::-1] for row in rows]
            near = graph.up if downward else graph.down
            root = _align(rows, near, marked)
            xs = _compact(rows, root, sizes, graph.size, gap, dummy_gap)
            results.append(xs if leftward else [-x for x in xs])
    return _balance(results, sizes)


def _conflicts(graph: Layered) -> set[tuple[int, int]]:
    """Edges that cross a stretch of a long edge between two dummies: these give way."""
    marked: set[tuple[int, int]] = set()
    for upper, lower in zip(graph.order, graph.order[1:], strict=False):
        at = {v: i for i, v in enumerate(upper)}
        done, low = 0, 0
        for i, v in enumerate(lower):
            inner = next((u for u in graph.up[v] if u >= graph.size <= v), None)
            if inner is None and i < len(lower) - 1:
                continue
            high = at[inner] if inner is not None else len(upper) - 1
            for w in lower[done : i + 1]:
                marked |= {
                    (u, w)
                    for u in graph.up[w]
                    if not low <= at[u] <= high and not u >= graph.size <= w
                }
            done, low = i + 1, high
    return marked


def _align(
    rows: Sequence[Sequence[int]], near: Sequence[Sequence[int]], marked: set[tuple[int, int]]
) -> dict[int, int]:
    """Per node, the root of its block; blocks have at most one node a layer."""
    root = {v: v for row in rows for v in row}
    follower = dict(root)
    for before, row in itertools.pairwise(rows):
        at = {v: i for i, v in enumerate(before)}
        reached = -1
        for v in row:
            ends = sorted(near[v], key=at.__getitem__)
            if not ends:
                continue
            middle = (len(ends) - 1) / 2
            for k in sorted({int(middle), int(middle + 0.5)}):
                u = ends[k]
                free = follower[v] == v and reached < at[u]
                if free and (u, v) not in marked and (v, u) not in marked:
                    follower[u] = v
                    follower[v] = root[v] = root[u]
                    reached = at[u]
    return root


def _compact(
    rows: Sequence[Sequence[int]],
    root: dict[int, int],
    sizes: Sequence[float],
    real: int,
    gap: float,
    dummy_gap: float,
) -> list[float]:
    """Pack blocks to the left, then pull each to the right as far as its followers allow."""
    after: dict[int, dict[int, float]] = {r: {} for r in root.values()}
    missing: dict[int, int] = dict.fromkeys(after, 0)
    for row in rows:
        for a, b in itertools.pairwise(row):
            space = gap if a < real and b < real else dummy_gap
            apart = (sizes[a] + sizes[b]) / 2 + space
            ra, rb = root[a], root[b]
            if rb not in after[ra]:
                missing[rb] += 1
            after[ra][rb] = max(after[ra].get(rb, 0.0), apart)
    order = [r for r, count in missing.items() if count == 0]
    x = dict.fromkeys(after, 0.0)
    for r in order:
        for s, apart in after[r].items():
            x[s] = max(x[s], x[r] + apart)
            missing[s] -= 1
            if missing[s] == 0:
                order.append(s)
    for r in reversed(order):
        if after[r]:
            x[r] = max(x[r], min(x[s] - apart for s, apart in after[r].items()))
    return [x[root[v]] for v in range(len(root))]


def _balance(results: Sequence[Sequence[float]], sizes: Sequence[float]) -> list[float]:
    if not results[0]:
        return []
    spans = [
        (
            min(x - s / 2 for x, s in zip(xs, sizes, strict=True)),
            max(x + s / 2 for x, s in zip(xs, sizes, strict=True)),
        )
        for xs in results
    ]
    low, high = min(spans, key=lambda span: span[1] - span[0])
    lined_up = [
        # Results packed to the left line up on the left, the others on the right.
        [x + (low - own[0] if i % 2 == 0 else high - own[1]) for x in xs]
        for i, (xs, own) in enumerate(zip(results, spans, strict=True))
    ]
    columns = (sorted(values) for values in zip(*lined_up, strict=True))
    centres = [(column[1] + column[2]) / 2 for column in columns]
    first = min(x - s / 2 for x, s in zip(centres, sizes, strict=True))
    return [x - first for x in centres]
