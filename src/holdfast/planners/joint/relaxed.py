"""A relaxation that needs no list of segments: a bound on the cost, and segments worth trying.

Drop the coupling of levels across forced boundaries, most of end-to-end latency (`_in_time` keeps
the rest), and what units that are lost together cost each other. What is left of a recovery is its
floor, and of that what most failures take at least (`Draws.least`); it is the sum of what the parts
of a segment need, which must fit into a budget. At intervals that are shorter than this budget a
segment must rather keep up: what its parts add to a batch must fit into the interval. It is solved
block by block (a block is the in-tree above a fixed boundary) by dynamic programming over
operators, levels and the budget used so far, counted in whole buckets. Rounded down, its value is
one that no plan is below.
With every need taken somewhat larger (`margin`), the segments it chooses tend to keep the bounds
for real, and are good candidates for a plan.

O(operators * levels * buckets^2), vectorised over buckets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast.planners.joint.problem import SLACK, BoolArray, Problem
from holdfast.predict.demand import (
    CPU_BATCH,
    CPU_RATE,
    CPU_SNAPSHOT,
    FIXED,
    LOG_FIXED,
    LOG_RATE,
    QUERY,
    WORK,
)
from holdfast.predict.draws import Least
from holdfast.predict.recovery import FloatArray

BUCKETS_BOUND = 2000
"""Buckets of the bound: rounding costs up to one per operator of a segment."""
BUCKETS_TRIAL = 150
"""Buckets when only segments worth trying are wanted."""


def lower_bound(problem: Problem, *, buckets: int = BUCKETS_BOUND) -> float:
    """Cost that no plan is below; infinite: there is no plan."""
    known: dict[float, float] = {}
    bounds = []
    for size in problem.sizes:
        missing = problem.model.missing(size.spares)
        if missing not in known:
            known[missing] = _least_cpu(problem, size.spares, missing, buckets)
        bounds.append(problem.cost(max(problem.uncut_cpu, known[missing]), size))
    return min(bounds)


def _least_cpu(problem: Problem, spares: int, missing: float, buckets: int) -> float:
    """Cores that no plan with so many spares is below."""
    if problem.max_replicas > 0:
        # A follower keeps any bound, at a price that is not looked at here.
        return problem.uncut_cpu
    found = problem.uncut_cpu
    for hardest in problem.model.draws.subsets(missing):
        tree = relaxation(problem, spares, buckets=buckets, hardest=hardest)
        if tree is None:
            break
        found = max(found, tree.solve())
    return found


def relaxation(
    problem: Problem,
    spares: int,
    *,
    buckets: int = BUCKETS_TRIAL,
    margin: float = 1.0,
    hardest: int | None = None,
    keep_up: bool = True,
) -> Relaxation | None:
    """The relaxation for a number of spares; None: nothing bounds recovery.

    With `hardest`, recoveries are looked at in so many of the drawn failures; without `keep_up`,
    at recoveries alone.
    """
    model = problem.model
    bound = float(problem.recovery_bound.max())
    if not math.isfinite(bound) or model.demands.threads.all():
        return None
    least = model.draws.least(model.missing(spares), hardest)
    query = float(least.start.min())
    budget = bound - least.ready - query
    # A thread needs no query.
    saved = max(0.0, query - float(least.thread.min()))
    return Relaxation(problem, least, budget, margin, buckets, saved=saved, keep_up=keep_up)


def _in_time(problem: Problem, stretch: float) -> BoolArray:
    """Per operator and level, whether results can still be in time.

    Intervals do not shrink downstream, so an operator at interval T makes every path below it, and
    the wait for the last batch, at least that long.
    """
    model, topology, levels = problem.model, problem.topology, problem.levels
    work = stretch * model.demands.member[:, WORK]
    fixed = stretch * float(model.demands.closing[:, FIXED].min())
    above, below = np.zeros(problem.size), np.full((problem.size, len(levels)), -np.inf)
    for v in topology.order:
        above[v] = max((above[u] + work[u] * levels[0] for u in topology.upstream[v]), default=0.0)
    for query in topology.effective_queries:
        sink = topology.index[query.sink]
        below[sink] = levels + fixed + model.export_s(sink, levels, np.asarray(stretch))
    for v in reversed(topology.order):
        for u in topology.downstream[v]:
            below[v] = np.maximum(below[v], below[u])
        below[v] += work[v] * levels
    return np.asarray(above[:, None] + below <= problem.bounds.latency_s * (1 + SLACK) + SLACK)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A segment being traced back: what it has so far, and where others end above it."""

    inside: list[int]
    closed: list[tuple[int, int]]
    """(root, level) of the segments it reads in its own block."""


class Relaxation:
    """The dynamic program; tables are (level, bucket) -> least CPU of what lies above."""

    def __init__(
        self,
        problem: Problem,
        least: Least,
        budget: float,
        margin: float,
        buckets: int,
        *,
        saved: float = 0.0,
        keep_up: bool = True,
    ) -> None:
        self.problem = problem
        self.least = least
        self.saved = saved
        """Seconds of the bound that a thread leaves over, because it restarts sooner."""
        self.levels = problem.levels
        self.margin = margin
        self.buckets = buckets
        self.stretch = stretch = float(problem.model.stretch(problem.uncut_cpu))
        self.pace = (self.levels < budget) & keep_up
        """Per level, whether the budget is what a batch may take, and not what a recovery may."""
        self.bucket = np.where(self.pace, self.levels, budget) / buckets
        self.allowed = problem.level_allowed & _in_time(problem, stretch)
        self.solvable = budget > 0 and math.isfinite(stretch)
        self._stages: dict[int, list[FloatArray]] = {}
        """Per operator, its table with no input counted, with one, ..., with all."""
        self._ways: dict[tuple[int, int], FloatArray] = {}
        self._closed: dict[int, FloatArray] = {}

    def solve(self) -> float:
        """The least CPU of all blocks together; infinite when nothing fits."""
        if not self.solvable:
            return math.inf
        topology = self.problem.topology
        total = self.problem.model.export_cpu
        for v in topology.order:
            stages = [self._own(v)]
            for u in topology.upstream[v]:
                self._ways[u, v] = self._way(u, v)
                stages.append(_fuse(stages[-1], self._ways[u, v]))
            self._stages[v] = stages
            self._closed[v] = self._close(v, stages[-1])
            if v in self.problem.fixed:
                total += float(self._closed[v].min())
        return total

    def segments(self) -> set[tuple[int, ...]]:
        """The segments of the cheapest way to cut each block, for each level of its root."""
        found: set[tuple[int, ...]] = set()
        if not self._stages:
            return found
        rank = {v: position for position, v in enumerate(self.problem.topology.order)}
        todo = [(v, level) for v in self.problem.fixed for level in range(len(self.levels))]
        seen = set(todo)
        while todo:
            root, level = todo.pop()
            if not math.isfinite(self._closed[root][level]):
                continue
            room = self._room(root, level)
            slot = int(np.argmin(self._stages[root][-1][level, :room]))
            parts = _Parts([], [])
            self._trace(root, level, slot, parts)
            found.add(tuple(sorted(parts.inside, key=rank.__getitem__)))
            todo += [way for way in parts.closed if way not in seen]
            seen.update(parts.closed)
        return found

    def _trace(self, root: int, level: int, slot: int, parts: _Parts) -> None:
        stack = [(root, slot)]
        while stack:
            v, slot = stack.pop()
            parts.inside.append(v)
            stages = self._stages[v]
            for k in range(len(stages) - 1, 0, -1):
                u = self.problem.topology.upstream[v][k - 1]
                way = self._ways[u, v][level]
                sums = stages[k - 1][level, slot::-1] + way[: slot + 1]
                taken = int(np.argmin(sums))
                slot -= taken
                if u in self.problem.fixed:
                    continue
                if self._stages[u][-1][level, taken] <= way[taken]:
                    stack.append((u, taken))
                else:
                    upto = self._closed[u][: level + 1]
                    parts.closed.append((u, int(np.argmin(upto))))

    def _slot(self, need: float, level: int) -> int:
        """Buckets that a part needs, rounded down."""
        return self._whole(self.margin * need, level)

    def _whole(self, need: float, level: int) -> int:
        return math.floor(min(need / float(self.bucket[level]), self.buckets + 1.0))

    def _batch(self, demand: FloatArray, level: int) -> float:
        """What a part adds to every batch."""
        return self.stretch * float(demand[FIXED] + demand[WORK] * self.levels[level])

    def _room(self, root: int, level: int) -> int:
        """Buckets from 0 that a segment may have used before it is closed."""
        demand = self.problem.model.demands.closing[root]
        if self.pace[level]:
            return self.buckets + 1 - self._slot(self._batch(demand, level), level)
        floor = demand[QUERY] * self.problem.model.machine.batch_floor.value
        need = max(0.0, float(demand[FIXED]) - floor)
        need += float(demand[WORK]) * float(self.levels[level])
        need *= self.margin
        if not demand[QUERY]:
            need -= self.saved
        else:
            need += float(self.least.start[root] - self.least.start.min())
        return self.buckets + 1 - self._whole(float(need), level)

    def _cpu(self, demand: FloatArray, level: int, snapshots: float = math.inf) -> float:
        batch = demand[CPU_BATCH] + demand[CPU_SNAPSHOT] / snapshots
        return float(demand[CPU_RATE] + batch / self.levels[level])

    def _own(self, v: int) -> FloatArray:
        demand = self.problem.model.demands.member[v]
        table = self._empty()
        for level, interval in enumerate(self.levels):
            if not self.allowed[v, level]:
                continue
            if self.pace[level]:
                slot = self._slot(self._batch(demand, level), level)
                if slot <= self.buckets:
                    table[level, slot] = self._cpu(demand, level, self.problem.snapshots[-1])
                continue
            per_log = demand[LOG_FIXED] + demand[LOG_RATE] * interval
            own = float(self.least.once[v] + self.least.work[v] * interval)
            for count in self.problem.snapshots:
                slot = self._slot(own + float((count - 1) * per_log) * self.least.logs, level)
                if slot <= self.buckets:
                    cpu = self._cpu(demand, level, count)
                    table[level, slot] = min(table[level, slot], cpu)
        return table

    def _way(self, u: int, v: int) -> FloatArray:
        """What input u may add to a segment that contains v: itself and more, or a log to read."""
        fixed = u in self.problem.fixed
        table = self._empty() if fixed else self._stages[u][-1].copy()
        if u in self.problem.forbidden:
            return table
        demand = self.problem.model.demands.reading(u, v)
        upstream = np.minimum.accumulate(self._closed[u])
        for level in range(len(self.levels)):
            need = float(demand[FIXED] + demand[WORK] * self.levels[level])
            slot = self._slot(need * self.stretch if self.pace[level] else need, level)
            if slot <= self.buckets:
                before = 0.0 if fixed else float(upstream[level])
                value = before + self._cpu(demand, level)
                table[level, slot] = min(table[level, slot], value)
        return table

    def _close(self, v: int, table: FloatArray) -> FloatArray:
        demand = self.problem.model.demands.closing[v]
        least = np.full(len(self.levels), np.inf)
        for level in range(len(self.levels)):
            room = self._room(v, level)
            if room > 0:
                least[level] = table[level, :room].min() + self._cpu(demand, level)
        return least

    def _empty(self) -> FloatArray:
        return np.full((len(self.levels), self.buckets + 1), np.inf)


def _fuse(table: FloatArray, way: FloatArray) -> FloatArray:
    """Min-plus convolution over buckets, level by level."""
    merged = np.full_like(table, np.inf)
    size = table.shape[1]
    for level in range(len(table)):
        slots = np.flatnonzero(np.isfinite(way[level]))
        if not len(slots):
            continue
        padded = np.concatenate([np.full(size, np.inf), table[level]])
        # Row s of the windows is the table moved s buckets up.
        moved = np.lib.stride_tricks.sliding_window_view(padded, size)[size - slots]
        merged[level] = (moved + way[level, slots, None]).min(axis=0)
    return merged
