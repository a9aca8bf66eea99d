"""A relaxation that needs no list of segments: a bound on the cost, and segments worth trying.

Drop the coupling of levels across forced boundaries, most of end-to-end latency (`_in_time` keeps
the rest), and what is not additive in the recovery of a segment, taking tangents where that is
convex (see `relaxation`). What is left says that the needs of a segment's parts add up to at most a
budget. It is solved block by block (a block is the in-tree above a fixed boundary) by dynamic
programming over operators, levels and the budget used so far, counted in whole buckets. Rounded
down, its value is one that no plan is below.
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
    FIXED_HIGH,
    LOAD,
    LOG_FIXED,
    LOG_RATE,
    QUERY,
    WORK,
    WORK_HIGH,
)
from holdfast.predict.recovery import PHASE_P95, FloatArray
from holdfast.predict.statistics import Measure

BUCKETS_BOUND = 2000
"""Buckets of the bound: rounding costs up to one per operator of a segment."""
BUCKETS_TRIAL = 150
"""Buckets when only segments worth trying are wanted."""


def lower_bound(problem: Problem, *, buckets: int = BUCKETS_BOUND) -> float:
    """Cost that no plan is below; infinite: there is no plan."""
    known: dict[Measure, float] = {}
    bounds = []
    for spares in problem.spare_options:
        restore = problem.model.restore(spares)
        if restore not in known:
            # A follower keeps any bound, at a price that is not looked at here.
            hot = problem.max_replicas > 0
            tree = None if hot else relaxation(problem, spares, buckets=buckets)
            known[restore] = problem.uncut_cpu if tree is None else tree.solve()
        bounds.append(problem.cost(max(problem.uncut_cpu, known[restore]), spares))
    return min(bounds)


def relaxation(
    problem: Problem, spares: int, *, buckets: int = BUCKETS_TRIAL, margin: float = 1.0
) -> Relaxation | None:
    """The relaxation for a number of spares; None: nothing bounds recovery.

    With w for work, f for fixed, and c for the spread of detection and restore, recovery keeps its
    bound R only if load + 2 f + w (R + f + T/2) + w^2 T + hypot(c, 0.45 w T) stays within
    R - detection - restore. The last two terms are convex in w, so their tangents at any one w are
    below them; that at the largest w a segment could have is taken.
    """
    model = problem.model
    bound = float(problem.recovery_bound.max())
    if not math.isfinite(bound) or model.demands.threads.all():
        return None
    restore, detection = model.restore(spares), model.machine.detection
    spread = math.hypot(detection.high - detection.value, restore.high - restore.value)
    room = bound - detection.value - restore.value
    stretch = float(model.stretch(problem.uncut_cpu)) * margin
    fixed = stretch * float(model.demands.closing[:, FIXED_HIGH].min())
    per_work = np.zeros(len(problem.levels))
    budget = np.zeros(len(problem.levels))
    for level, interval in enumerate(problem.levels.tolist()):
        plain = bound + fixed + interval / 2
        away = (PHASE_P95 - 0.5) * interval
        most = _largest_work(room - 2 * fixed, plain, interval, spread, away)
        slope = away**2 * most / max(math.hypot(spread, away * most), 1e-12)
        per_work[level] = plain + 2 * most * interval + slope
        at_zero = math.hypot(spread, away * most) - slope * most - most**2 * interval
        budget[level] = room - at_zero
    # A thread has its own, shorter restore, and a smaller spread.
    saved = restore.value + spread - model.machine.restore_thread.value
    return Relaxation(problem, per_work, budget, stretch, buckets, saved=max(0.0, saved))


def _largest_work(room: float, plain: float, interval: float, spread: float, away: float) -> float:
    """The work at which a segment without state just keeps the bound, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        need = middle * plain + middle**2 * interval + math.hypot(spread, away * middle)
        low, high = (middle, high) if need <= room else (low, middle)
    return low


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
        per_work: FloatArray,
        budget: FloatArray,
        stretch: float,
        buckets: int,
        *,
        saved: float = 0.0,
    ) -> None:
        self.problem = problem
        self.saved = saved
        """Seconds of the bound that a thread leaves over, because it restarts sooner."""
        self.levels = problem.levels
        self.per_work = per_work
        self.stretch = stretch
        self.buckets = buckets
        most = float(budget.max())
        self.bucket = most / buckets
        self.missing = most - budget
        """Per level, what its budget lacks of the largest: counted when a segment is closed."""
        self.allowed = problem.level_allowed & _in_time(problem, stretch)
        self.solvable = most > 0 and math.isfinite(stretch)
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

    def _slot(self, demand: FloatArray, level: int, load: float = 0.0) -> int:
        """Buckets that a part needs, rounded down."""
        need = 2 * demand[FIXED_HIGH] + demand[WORK_HIGH] * self.per_work[level] + load
        return math.floor(min(self.stretch * float(need) / self.bucket, self.buckets + 1.0))

    def _room(self, root: int, level: int) -> int:
        """Buckets from 0 that a segment may have used before it is closed."""
        demand = self.problem.model.demands.closing[root]
        need = 2 * demand[FIXED_HIGH] + demand[WORK_HIGH] * self.per_work[level]
        need = self.stretch * float(need) + float(self.missing[level])
        if not demand[QUERY]:
            need -= self.saved
        return self.buckets + 1 - math.floor(min(need / self.bucket, self.buckets + 1.0))

    def _cpu(self, demand: FloatArray, level: int, snapshots: float = math.inf) -> float:
        batch = demand[CPU_BATCH] + demand[CPU_SNAPSHOT] / snapshots
        return float(demand[CPU_RATE] + batch / self.levels[level])

    def _own(self, v: int) -> FloatArray:
        demand = self.problem.model.demands.member[v]
        table = self._empty()
        for level, interval in enumerate(self.levels):
            if not self.allowed[v, level]:
                continue
            per_log = demand[LOG_FIXED] + demand[LOG_RATE] * interval
            for count in self.problem.snapshots:
                load = float(demand[LOAD] + 0.5 * (count - 1) * per_log)
                slot = self._slot(demand, level, load)
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
            slot = self._slot(demand, level)
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
