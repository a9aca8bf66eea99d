"""Plans over candidate segments, the cheapest first: best-first search with a bound from a table.

Problem: as in `master`, one column per segment and level, at a given load; list the partitions into
columns in order of their CPU. Reading: the columns that end in an operator are chosen from results
to sources, so that whoever reads an operator is known when its own segment is chosen, and with it
the longest interval that it may have. The least CPU of everything above an operator at such an
interval is a table made once, from sources to results; it is exact but where several segments read
one operator, or where end-to-end latency binds. A partial plan is worth what it has chosen and the
table's values of what is open; what cannot be in time any more, by a second table of the least time
that rows take to reach an operator, is left out. Alternatives of a choice are sorted once and
looked at one after the other, so each step puts at most two partial plans on the heap.

On in-trees without a latency bound the first plan takes one step per segment. Where the bounds of
the tables are far off it may take exponentially many: whoever asks says when to give up.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.planners.joint.columns import Columns, Segments
from holdfast.planners.joint.problem import SLACK, Problem
from holdfast.predict.recovery import FloatArray

IntArray = NDArray[np.int64]
_DIGITS = 12
"""Cores are compared so far: rounding must not say which of equally cheap plans comes first."""

_Chosen: TypeAlias = "tuple[int, _Chosen] | None"
"""Columns chosen so far, the last one first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """One plan."""

    cpu: float
    """Cores of its segments."""
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Open:
    """A partial plan: what is still to be chosen, and what is known of it."""

    chosen: _Chosen
    roots: dict[int, tuple[int, float]]
    """Per operator whose segment is to be chosen: its longest level, and how long rows take after
    it."""
    followers: int
    at: int
    """Of these the one that is chosen next, the furthest downstream."""
    cpu: float
    """Of what is chosen, and at least of what is open but for that one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """The columns for one operator up to a level, by what they and all above them take at least."""

    columns: list[int]
    least: list[float]


class Listing:
    """All plans over some columns at one load."""

    def __init__(
        self, problem: Problem, segments: Segments, columns: Columns, *, at_cpu: float
    ) -> None:
        self._problem, self._columns = problem, columns
        count, levels = problem.size, len(problem.epochs)
        self._rank = {v: place for place, v in enumerate(problem.topology.order)}
        self._roots = segments.roots[columns.segment]
        self._read = segments.read
        self._latency = problem.bounds.latency_s * (1 + SLACK) + SLACK
        self._bounded = math.isfinite(problem.bounds.latency_s)
        self._after = _after(problem, at_cpu) if self._bounded else None
        # The last row stands for an input that is not there, or is counted by itself.
        self._least = np.full((count + 1, levels), np.inf)
        self._soonest = np.full((count + 1, levels), -np.inf)
        self._least[count] = 0.0
        self._of_root: dict[int, IntArray] = {}
        self._total = np.empty(len(columns.segment))
        self._known_ways: dict[tuple[int, int], _Ways] = {}
        self._fill(segments)
        self.exhausted = False
        """There are no more plans."""
        self._heap: list[tuple[float, int, int, int, _Open | _Chosen]] = []
        """What it takes at least, minus how many columns are chosen, which way comes next."""
        self._number = 0
        begun = self._begun()
        if begun is not None:
            self._push(begun[0], 0, 0, begun[1])

    def _fill(self, segments: Segments) -> None:
        """The tables, from sources to results."""
        problem, columns = self._problem, self._columns
        order = np.argsort(self._roots, kind="stable")
        upto = np.searchsorted(self._roots[order], np.arange(problem.size + 1))
        by_itself = np.isin(segments.inputs, list(problem.fixed))
        read = np.where(by_itself, problem.size, segments.inputs)
        for v in problem.topology.order:
            here = order[upto[v] : upto[v + 1]]
            part, level = columns.segment[here], columns.level[here]
            soonest = columns.batch_s[here]
            if self._bounded and len(here):
                came = self._soonest[segments.inputs[part], level[:, None]].max(axis=1, initial=0.0)
                soonest = soonest + np.maximum(came, 0.0)
                wait = problem.levels[level] if self._after is None else self._after[v, level]
                kept = soonest + np.maximum(wait, problem.levels[level]) <= self._latency
                here, part, level, soonest = here[kept], part[kept], level[kept], soonest[kept]
            total = columns.cpu[here] + self._least[read[part], level[:, None]].sum(axis=1)
            self._of_root[v], self._total[here] = here, total
            self._least[v] = _least_upto(total, level, self._least.shape[1])
            self._soonest[v] = _least_upto(soonest, level, self._least.shape[1])

    def next(self, most: int) -> Listed | None:
        """The next cheapest plan; None: there is none, or it takes more than so many steps."""
        heap = self._heap
        for _ in range(most):
            if not heap:
                self.exhausted = True
                return None
            cpu, depth, _, place, partial = heapq.heappop(heap)
            if not isinstance(partial, _Open):
                return Listed(cpu=cpu, columns=_columns(partial))
            ways = self._ways(partial.at, partial.roots[partial.at][0])
            if place + 1 < len(ways.columns):
                other = partial.cpu + ways.least[place + 1]
                self._push(other, depth, place + 1, partial)
            more = self._chosen(partial, ways.columns[place])
            if more is not None:
                self._push(more[0], depth - 1, 0, more[1])
        return None

    def _push(self, cpu: float, depth: int, place: int, partial: _Open | _Chosen) -> None:
        # Of equally cheap ones the furthest along comes first, then the latest.
        self._number -= 1
        heapq.heappush(self._heap, (round(cpu, _DIGITS), depth, self._number, place, partial))

    def _chosen(self, partial: _Open, column: int) -> tuple[float, _Open | _Chosen] | None:
        """A partial plan with one more column, and what it takes at least; None: it cannot be."""
        problem, columns = self._problem, self._columns
        level, part = int(columns.level[column]), int(columns.segment[column])
        followers = partial.followers + int(columns.followers[column])
        if followers > problem.max_replicas:
            return None
        after = partial.roots[partial.at][1]
        if self._after is not None:
            after = max(after, float(self._after[partial.at, level]))
            after += float(columns.batch_s[column])
            if after > self._latency:
                return None
        cpu = partial.cpu + float(columns.cpu[column])
        roots = {v: known for v, known in partial.roots.items() if v != partial.at}
        for u in self._read[part]:
            before, tail = roots.get(u, (None, -math.inf))
            most = level if before is None else min(before, level)
            if self._after is not None:
                tail = max(tail, after)
                if tail + float(self._soonest[u, most]) > self._latency:
                    return None
            cpu += float(self._least[u, most])
            if before is not None:
                cpu -= float(self._least[u, before])
            roots[u] = (most, tail)
        if not math.isfinite(cpu):
            return None
        chosen = (column, partial.chosen)
        if not roots:
            return cpu, chosen
        return cpu, self._opened(chosen, roots, followers, cpu)

    def _begun(self) -> tuple[float, _Open] | None:
        """The plan of which nothing is chosen; None: some segment can be chosen in no way."""
        last = len(self._problem.epochs) - 1
        cpu = float(self._least[list(self._problem.fixed), last].sum())
        if not math.isfinite(cpu):
            return None
        roots = dict.fromkeys(self._problem.fixed, (last, -math.inf))
        return cpu, self._opened(None, roots, 0, cpu)

    def _opened(
        self, chosen: _Chosen, roots: dict[int, tuple[int, float]], followers: int, cpu: float
    ) -> _Open:
        at = max(roots, key=self._rank.__getitem__)
        own = float(self._least[at, roots[at][0]])
        return _Open(chosen=chosen, roots=roots, followers=followers, at=at, cpu=cpu - own)

    def _ways(self, root: int, most: int) -> _Ways:
        key = (root, most)
        if key not in self._known_ways:
            here = self._of_root[root]
            here = here[self._columns.level[here] <= most]
            total = self._total[here]
            order = np.argsort(total, kind="stable")
            order = order[np.isfinite(total[order])]
            self._known_ways[key] = _Ways(here[order].tolist(), total[order].tolist())
        return self._known_ways[key]


def _columns(chosen: _Chosen) -> tuple[int, ...]:
    found = []
    while chosen is not None:
        found.append(chosen[0])
        chosen = chosen[1]
    return tuple(found)


def _least_upto(value: FloatArray, level: IntArray, levels: int) -> FloatArray:
    """Per level, the least of those at most at it; infinite: there is none."""
    least = np.full(levels, np.inf)
    np.minimum.at(least, level, value)
    return np.minimum.accumulate(least)


def _after(problem: Problem, at_cpu: float) -> FloatArray:
    """Per operator and level, until a result is delivered that it makes; -inf: it makes none."""
    found = np.full((problem.size, len(problem.levels)), -np.inf)
    stretch = np.asarray(problem.model.stretch(at_cpu))
    for query in problem.topology.effective_queries:
        sink = problem.topology.index[query.sink]
        found[sink] = problem.levels + problem.model.export_s(sink, problem.levels, stretch)
    return found
