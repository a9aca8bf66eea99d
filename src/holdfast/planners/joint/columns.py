"""Every segment that a plan may contain, with what it demands.

Operators with several consumers are boundaries in every plan, so a segment is a connected in-tree
that ends in its root. The segments ending in v number the product, over its inputs u, of 1 (if u
may be cut) plus the segments ending in u (if it may be fused): quadratic in all for a chain,
exponential where many streams meet. `count_segments` says how many without enumerating, and
`some_segments` keeps a spread of them when all are too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from holdfast.planners.joint.problem import Problem
from holdfast.predict.demand import WORK_HIGH
from holdfast.predict.recovery import FloatArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """Candidate segments; arrays run over them."""

    operators: tuple[tuple[int, ...], ...]
    """Positions of the operators, topologically ordered, root last."""
    cut_edges: tuple[tuple[tuple[int, int], ...], ...]
    """The edges over which the segment reads logs."""
    demand: FloatArray

    def __len__(self) -> int:
        return len(self.operators)

    @cached_property
    def roots(self) -> IntArray:
        """The last operator of each."""
        return np.array([part[-1] for part in self.operators], np.int64)

    @cached_property
    def read(self) -> tuple[tuple[int, ...], ...]:
        """The operators whose logs each reads."""
        return tuple(tuple(dict.fromkeys(u for u, _ in edges)) for edges in self.cut_edges)

    @cached_property
    def inputs(self) -> IntArray:
        """The same as rows of one length, filled up with -1."""
        width = max((len(read) for read in self.read), default=0)
        found = np.full((len(self.read), width), -1)
        for row, read in enumerate(self.read):
            found[row, : len(read)] = read
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Segments with a level and a snapshot interval at which their floors keep the bounds.

    If followers are allowed, there are the same with them, at the longest snapshot interval.
    """

    segment: IntArray
    level: IntArray
    snapshots: IntArray
    cpu: FloatArray
    batch_s: FloatArray
    followers: IntArray
    """How many units run as followers; 0: none has one."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A segment still to be closed below its last operator."""

    operators: tuple[int, ...]
    cut_edges: tuple[tuple[int, int], ...]
    demand: FloatArray


def count_segments(problem: Problem) -> int:
    """How many segments there are."""
    ending: dict[int, int] = {}
    total = 0
    for v in problem.topology.order:
        ways = 1
        for u in problem.topology.upstream[v]:
            ways *= (u not in problem.forbidden) + (0 if u in problem.fixed else ending[u])
        ending[v] = ways
        total += 0 if v in problem.forbidden else ways
    return total


def all_segments(problem: Problem) -> Segments:
    """Every segment; call `count_segments` first."""
    return _enumerate(problem, None)


def some_segments(problem: Problem, width: int) -> Segments:
    """At most `width` segments per root, spread over how much work they make."""
    return _enumerate(problem, width)


def _enumerate(problem: Problem, width: int | None) -> Segments:
    model, topology = problem.model, problem.topology
    ending: dict[int, list[_Open]] = {}
    closed: list[_Open] = []
    for v in topology.order:
        found = [_Open((), (), model.demands.member[v])]
        for u in topology.upstream[v]:
            ways: list[_Open] = []
            if u not in problem.forbidden:
                ways.append(_Open((), ((u, v),), model.demands.reading(u, v)))
            if u not in problem.fixed:
                ways += ending[u]
            found = _spread([_merge(*pair) for pair in product(found, ways)], width)
        ending[v] = [_Open((*part.operators, v), part.cut_edges, part.demand) for part in found]
        if v not in problem.forbidden:
            closed += [
                _Open(part.operators, part.cut_edges, part.demand + model.demands.closing[v])
                for part in ending[v]
            ]
    return _as_segments(problem, closed)


def _merge(one: _Open, other: _Open) -> _Open:
    return _Open(
        one.operators + other.operators,
        one.cut_edges + other.cut_edges,
        one.demand + other.demand,
    )


def _spread(parts: list[_Open], width: int | None) -> list[_Open]:
    """All of them, or `width` from the least to the most work."""
    if width is None or len(parts) <= width:
        return parts
    parts = sorted(parts, key=lambda part: float(part.demand[WORK_HIGH]))
    return [parts[round(k * (len(parts) - 1) / (width - 1))] for k in range(width)]


def _as_segments(problem: Problem, closed: list[_Open]) -> Segments:
    rank = np.empty(problem.size, np.int64)
    rank[list(problem.topology.order)] = np.arange(problem.size)
    place = rank.tolist()
    return Segments(
        operators=tuple(tuple(sorted(part.operators, key=place.__getitem__)) for part in closed),
        cut_edges=tuple(part.cut_edges for part in closed),
        demand=np.array([part.demand for part in closed]),
    )


def segments_from(problem: Problem, members: set[tuple[int, ...]]) -> Segments:
    """Chosen segments given by their operators, root last."""
    topology = problem.topology
    parts = sorted(members)
    edges = []
    for part in parts:
        inside = set(part)
        edges.append(tuple((u, v) for v in part for u in topology.upstream[v] if u not in inside))
    return Segments(
        operators=tuple(parts),
        cut_edges=tuple(edges),
        demand=np.array([problem.model.demands.of(part) for part in parts]),
    )
