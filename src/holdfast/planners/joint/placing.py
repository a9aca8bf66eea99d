"""Which segments share a node, for segments that are given: so that no node's death is too long.

A node is as bad as its worst recovery or outage relative to its bound; the placement is best whose
worst node is least bad. What a node's death costs comes from bringing its segments back together
(`predict.losses`), which is no sum over them, so up to `LISTED` segments every placement is looked
at. Beyond that segments are dealt out, those that take longest to bring back first, each to the
node that has least to bring back; then single segments leave the worst node as long as that helps.

O(Bell(n)) placements over O(2^n) nodes, each worked out once; or O(n log n) and `MOVES` nodes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.joint.problem import Choice, Nodes, Problem, Size
from holdfast.predict.losses import Loss
from holdfast.predict.segments import SegmentPlan

LISTED = 7
"""Segments up to which every placement is looked at."""
MOVES = 60
"""Moves that are tried beyond that."""
_TARGETS = 3
"""Nodes that a segment is offered to, the least bad ones."""


def place(problem: Problem, segments: tuple[SegmentPlan, ...], size: Size, solve: Solve) -> Choice:
    """The best placement of segments on so many nodes."""
    count = min(size.nodes, len(segments))
    if count <= 1:
        nodes: Nodes = (tuple(range(len(segments))),)
    elif count == len(segments):
        nodes = tuple((i,) for i in range(count))
    elif len(segments) <= LISTED:
        nodes = _listed(problem, segments, size.spares, count)
    else:
        nodes = _Dealt(problem, segments, size.spares, count, solve).run()
    empty = ((),) * (size.nodes - len(nodes))
    return Choice(segments=segments, spares=size.spares, nodes=(*nodes, *empty))


def partitions(items: int, blocks: int) -> Iterator[Nodes]:
    """Every way to put so many items into so many blocks, none empty."""

    def extend(at: int, found: list[list[int]]) -> Iterator[Nodes]:
        if blocks - len(found) > items - at:
            return
        if at == items:
            yield tuple(map(tuple, found))
            return
        for block in found:
            block.append(at)
            yield from extend(at + 1, found)
            block.pop()
        if len(found) < blocks:
            found.append([at])
            yield from extend(at + 1, found)
            found.pop()

    return extend(0, [])


def badness(problem: Problem, segments: Sequence[SegmentPlan], loss: Loss) -> tuple[float, float]:
    """The worst of a node relative to its bound, above 1 if it breaks it; then how long it is."""
    worst = 0.0
    for i, p95 in zip(loss.segments, loss.p95.tolist(), strict=True):
        worst = max(worst, _relative(p95, problem.segment_bound(segments[i])))
    worst = max(worst, _relative(loss.results[1], problem.bounds.outage_s))
    return worst, loss.results[1]


def _relative(value: float, bound: float) -> float:
    if math.isinf(bound):
        return 0.0 if math.isfinite(value) else math.inf
    return value / max(bound, 1e-12)


def _listed(problem: Problem, segments: tuple[SegmentPlan, ...], spares: int, count: int) -> Nodes:
    known = problem.known(segments, spares)

    def worst(nodes: Nodes) -> tuple[float, float]:
        return max(badness(problem, segments, known.loss(node)) for node in nodes)

    return min(partitions(len(segments), count), key=worst)


class _Dealt:
    """A placement that is dealt out and then improved."""

    def __init__(
        self,
        problem: Problem,
        segments: tuple[SegmentPlan, ...],
        spares: int,
        count: int,
        solve: Solve,
    ) -> None:
        self._problem, self._segments, self._solve = problem, segments, solve
        self._known = problem.known(segments, spares)
        drawn = problem.model.draws.of([segment.operators for segment in segments])
        weight = np.median(drawn.build + drawn.plan + drawn.opening + drawn.loading, axis=1)
        load = [(0.0, node) for node in range(count)]
        self._nodes: list[set[int]] = [set() for _ in range(count)]
        for i in np.argsort(-weight, kind="stable").tolist():
            least, node = heapq.heappop(load)
            self._nodes[node].add(i)
            heapq.heappush(load, (least + float(weight[i]), node))
        self._bad = [self._badness(node) for node in self._nodes]

    def run(self) -> Nodes:
        tried = 0
        while tried < MOVES and not self._solve.should_stop():
            worst = max(range(len(self._nodes)), key=lambda node: self._bad[node])
            if self._bad[worst][0] <= 1.0 and self._bounded:
                break
            moved = False
            for i in sorted(self._nodes[worst]):
                for target in self._targets(worst):
                    tried += 1
                    if self._move(i, worst, target):
                        moved = True
                        break
                if moved or tried >= MOVES:
                    break
            if not moved:
                break
        return tuple(tuple(sorted(node)) for node in self._nodes if node)

    @property
    def _bounded(self) -> bool:
        problem = self._problem
        return bool(
            np.isfinite(problem.recovery_bound).any() or math.isfinite(problem.bounds.outage_s)
        )

    def _targets(self, worst: int) -> list[int]:
        others = [node for node in range(len(self._nodes)) if node != worst]
        return sorted(others, key=lambda node: self._bad[node])[:_TARGETS]

    def _move(self, i: int, source: int, target: int) -> bool:
        """Move a segment if the worse of both nodes gets better."""
        if len(self._nodes[source]) == 1:
            return False
        without, with_it = self._nodes[source] - {i}, self._nodes[target] | {i}
        after = self._badness(without), self._badness(with_it)
        if max(after) >= max(self._bad[source], self._bad[target]):
            return False
        self._nodes[source], self._nodes[target] = without, with_it
        self._bad[source], self._bad[target] = after
        return True

    def _badness(self, node: set[int]) -> tuple[float, float]:
        return badness(self._problem, self._segments, self._known.loss(tuple(node)))
