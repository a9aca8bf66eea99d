"""Odd cycles of windows: cuts that the linear relaxation does not see by itself.

Add up k windows, k odd, halve the sum and round up: if node v lies on n(v) of them, every plan has
the sum of ceil(n(v) / 2) x(v) at least (k + 1) / 2, because the left side is whole. This cuts off a
fractional plan exactly when the windows' slacks (x of the window, less 1) and the x(v) of nodes on
an odd number of the windows add up to less than 1. (With windows of two nodes these are the odd
cycles of vertex cover; in general they are the {0, 1/2} Chvatal-Gomory cuts.)

Such sums are sought as closed walks. Cut every window that is nearly tight into a beginning and an
end: the window is an *odd* step from one to the other that costs its slack. Two windows that share
a part meet there and the part's nodes count twice, that is, nothing. An *even* step drops or adds
one node of a part, at the price of its x. A closed walk with an odd number of odd steps that costs
less than 1 is a violated cut, and the cheapest are shortest paths from a part to itself in a graph
with two copies of everything, where odd steps change sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from holdfast.planners.ftc.windows import Window

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_SOURCES = 150
"""Parts through which a cycle is sought in one round."""
_CELLS = 3_000_000
"""Fewer parts where the distances from all of them would take more room than this."""
_STEP = 0.05
"""Added to each odd step: of two cycles the shorter one cuts deeper, and is found sooner."""
_LIMIT = 0.9
"""Walks that cost more are not followed: their cuts would hardly cut."""
_NEAR = 0.2
"""Windows with more slack than this take no part."""
_DEPTH = 0.02
"""Cuts that a fractional plan breaks by less are left."""


class Cut(NamedTuple):
    """The sum of counts times x over the nodes is at least `least` in every plan."""

    nodes: Window
    counts: tuple[int, ...]
    least: int


def halved(windows: Iterable[Window]) -> Cut:
    """Half the sum of an odd number of windows, rounded up."""
    chosen = list(windows)
    on = Counter(v for window in chosen for v in window)
    nodes = tuple(sorted(on))
    return Cut(nodes, tuple((on[v] + 1) // 2 for v in nodes), (len(chosen) + 1) // 2)


class WindowGraph:
    """All windows met so far, cut into beginnings and ends; grows with them."""

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self._known: set[Window] = set()
        self._parts: dict[Window, int] = {}
        self._odd: list[tuple[int, int, int]] = []
        """Beginning, end, window."""
        self._even: dict[tuple[int, int], int] = {}
        """Part and a part with one node more: that node."""

    def add(self, windows: Iterable[Window]) -> None:
        """Take in windows; known ones are passed over."""
        parts = self._parts
        for window in windows:
            if window in self._known:
                continue
            self._known.add(window)
            own = len(self.windows)
            self.windows.append(window)
            first = [parts.setdefault(window[:i], len(parts)) for i in range(1, len(window))]
            last = [parts.setdefault(window[i:], len(parts)) for i in range(1, len(window))]
            self._odd.extend((a, b, own) for a, b in zip(first, last, strict=True))
            for i in range(1, len(window) - 1):
                self._even[first[i - 1], first[i]] = window[i]
                self._even[last[i], last[i - 1]] = window[i]

    def slacks(self, x: FloatArray) -> FloatArray:
        """Per window its x, less 1."""
        lengths = np.fromiter(map(len, self.windows), np.int64, len(self.windows))
        nodes = np.fromiter((v for w in self.windows for v in w), np.int64, lengths.sum())
        return np.add.reduceat(x[nodes], np.cumsum(lengths) - lengths) - 1.0

    def cycles(self, x: FloatArray, slack: FloatArray, rng: np.random.Generator) -> list[Cut]:
        """Cuts that a fractional plan breaks, those that cut deepest first."""
        odd = np.asarray(self._odd, np.int64).reshape(-1, 3)
        odd = odd[slack[odd[:, 2]] < _NEAR]
        if not len(odd):
            return []
        # Of windows that join the same two parts the tightest counts.
        odd = odd[np.argsort(slack[odd[:, 2]], kind="stable")]
        odd = odd[np.unique(odd[:, :2], axis=0, return_index=True)[1]]
        used = np.unique(odd[:, :2])
        size = len(used)
        place = np.full(len(self._parts), -1)
        place[used] = np.arange(size)
        a, b, via = place[odd[:, 0]], place[odd[:, 1]], odd[:, 2]
        graph = _two_sided(size, a, b, np.maximum(slack[via], 0.0) + _STEP, *self._drops(place, x))
        between = dict(zip(zip(a.tolist(), b.tolist(), strict=True), via.tolist(), strict=True))
        sources = rng.choice(size, min(_SOURCES, size, 1 + _CELLS // size), replace=False)
        far, before = dijkstra(graph, indices=sources, limit=_LIMIT, return_predecessors=True)
        found: dict[Cut, float] = {}
        for row, source in enumerate(sources.tolist()):
            if far[row, source + size] < _LIMIT:
                walk = _odd_steps(before[row], source, size)
                steps = (between[p, q] if (p, q) in between else between[q, p] for p, q in walk)
                cut = halved(self.windows[k] for k in steps)
                counts = np.asarray(cut.counts)
                depth = cut.least - float(counts @ x[list(cut.nodes)])
                if depth > _DEPTH:
                    found[cut] = depth / float(np.linalg.norm(counts))
        return sorted(found, key=found.__getitem__, reverse=True)

    def _drops(self, place: IntArray, x: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        ends = np.asarray(list(self._even), np.int64).reshape(-1, 2)
        nodes = np.fromiter(self._even.values(), np.int64, len(ends))
        less, more = place[ends[:, 0]], place[ends[:, 1]]
        both = (less >= 0) & (more >= 0)
        # A step that is free has to stay in the matrix.
        return less[both], more[both], x[nodes[both]] + 1e-6


def _two_sided(
    size: int,
    a: IntArray,
    b: IntArray,
    odd: FloatArray,
    less: IntArray,
    more: IntArray,
    even: FloatArray,
) -> csr_matrix:
    """Odd steps change sides, even ones do not; all lead both ways."""
    rows = (a, a + size, b, b + size, less, more, less + size, more + size)
    columns = (b + size, b, a + size, a, more, less, more + size, less + size)
    costs = np.concatenate([np.tile(odd, 4), np.tile(even, 4)])
    return csr_matrix((costs, (np.concatenate(rows), np.concatenate(columns))), (2 * size,) * 2)


def _odd_steps(before: NDArray[np.int32], source: int, size: int) -> list[tuple[int, int]]:
    """The odd steps of the walk that ends on the other side of where it began."""
    steps: list[tuple[int, int]] = []
    at = source + size
    while at != source:
        last = int(before[at])
        if (at < size) != (last < size):
            steps.append((at % size, last % size))
        at = last
    return steps
