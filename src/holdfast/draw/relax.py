"""Compact coordinates for dense graphs: means of neighbours, projected onto the order.

Aligned blocks (see `place`) spread dense graphs far beyond their widest layer. Here each layer in
turn is moved to the weighted means of its neighbours' places; the nearest places, in least
squares, that keep the order and the separations are found exactly by pooling adjacent violators.
Stretches of long edges weigh more, so that they stay nearly straight. Cost: linear per sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from holdfast.draw.layers import Layered

_SWEEPS = 24


def relax(graph: Layered, sizes: Sequence[float], gap: float, dummy_gap: float) -> list[float]:
    """Centres across the layers, the outermost at their own half size."""
    x = [0.0] * len(graph.layer)
    offsets: list[list[float]] = []
    for row in graph.order:
        apart = [
            (sizes[a] + sizes[b]) / 2 + (gap if a < graph.size and b < graph.size else dummy_gap)
            for a, b in pairwise(row)
        ]
        offsets.append([0.0, *accumulate(apart)])
        for v, at in zip(row, offsets[-1], strict=True):
            x[v] = at - offsets[-1][-1] / 2
    rows = range(len(graph.order))
    for sweep in range(_SWEEPS):
        sides = [graph.up] if sweep % 2 == 0 else [graph.down]
        if sweep >= _SWEEPS - 4:
            sides = [graph.up, graph.down]
        for r in rows if sweep % 2 == 0 else reversed(rows):
            _settle(graph, graph.order[r], offsets[r], sides, x)
    first = min((at - size / 2 for at, size in zip(x, sizes, strict=True)), default=0.0)
    return [at - first for at in x]


def _settle(
    graph: Layered,
    row: Sequence[int],
    offsets: Sequence[float],
    sides: Sequence[Sequence[Sequence[int]]],
    x: list[float],
) -> None:
    wanted: list[float] = []
    weights: list[float] = []
    for v in row:
        total, moment = 0.0, 0.0
        for near in sides:
            for w in near[v]:
                # A stretch between two dummies is part of a long edge: keep it straight.
                weight = 1.0 + 3.0 * (v >= graph.size) * (w >= graph.size)
                total += weight
                moment += weight * x[w]
        wanted.append(moment / total if total else x[v])
        weights.append(total or 0.2)
    level = project([d - o for d, o in zip(wanted, offsets, strict=True)], weights)
    for v, at, offset in zip(row, level, offsets, strict=True):
        x[v] = at + offset


def project(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to `values` in weighted least squares."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while pools and pools[-1][0] >= mean:
            other, other_total, other_count = pools.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total += other_total
            count += other_count
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]
