"""Large topologies: a spread of segments instead of all, and a bound from a relaxation.

The plan is the best one made of a spread of candidate segments (`some_segments`), so it may miss
the optimum. How far it can be from it is told by a lower bound that needs no enumeration: drop the
coupling of levels across forced boundaries, end-to-end latency, and what is not additive in the
recovery of a segment. What is left says that a segment's parts must fit into a budget of time,

    load + 2 fixed + work (R + T/2 + fixed) <= R - detection - restore - their spread,

and is solved block by block (a block is the in-tree above a forced boundary) by dynamic programming
over operators, levels and the budget used so far, counted in whole buckets rounded down so that the
bound stays one. O(operators * levels * buckets^2), vectorised.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast.model.recovery import (
    CPU_BATCH,
    CPU_RATE,
    CPU_SNAPSHOT,
    FIXED_HIGH,
    LOAD,
    LOG_FIXED,
    LOG_RATE,
    WORK_HIGH,
    FloatArray,
)
from holdfast.plan.joint.columns import segments_from, some_segments
from holdfast.plan.joint.exact import ExactSearch, Search
from holdfast.plan.joint.problem import SLACK, Problem
from holdfast.plan.protocol import Solve

BUCKETS = 240
WIDTH = 16
"""Candidate segments per root."""
ROUNDS = 3
"""How often the neighbourhood of the best plan is added to the candidates."""


def solve_large(
    problem: Problem, search: Search, solve: Solve, *, most_spares: bool = False
) -> Search:
    """A good plan with a proved bound on its cost; with `most_spares` only such plans are tried."""
    options = problem.spare_options[-1:] if most_spares else problem.spare_options
    floor = lower_bound(problem)
    segments = some_segments(problem, WIDTH)
    known = set(segments.operators)
    for _ in range(ROUNDS):
        before = search.best.cost if search.best else math.inf
        ExactSearch(search, segments, solve).run(options)
        if search.best is None or solve.should_stop() or search.best.cost >= before:
            break
        known = known | neighbours(problem, search)
        segments = segments_from(problem, known)
    search.proved = floor >= (search.best.cost - SLACK if search.best else math.inf)
    search.stopped = solve.should_stop()
    search.bound = floor
    return search


def neighbours(problem: Problem, search: Search) -> set[tuple[int, ...]]:
    """Segments one move away from those of the best plan: one operator more, split or fused."""
    if search.best is None:
        return set()
    topology = problem.topology
    rank = {v: position for position, v in enumerate(topology.order)}
    parts = [segment.operators for segment in search.best.choice.segments]
    ends = {part[-1]: part for part in parts}
    found: set[tuple[int, ...]] = set()

    def keep(members: set[int]) -> None:
        found.add(tuple(sorted(members, key=rank.__getitem__)))

    for part in parts:
        inside = set(part)
        reads = {u for v in part for u in topology.upstream[v]} - inside
        for u in reads - problem.fixed.keys():
            keep(inside | set(ends[u]))
            if not problem.forbidden & set(topology.upstream[u]):
                keep(inside | {u})
        for v in inside - {part[-1]} - problem.forbidden:
            above = _above(problem, v, inside)
            keep(inside - above)
            keep(above)
    return found


def _above(problem: Problem, v: int, inside: set[int]) -> set[int]:
    """The part of a segment that ends in v."""
    found, stack = {v}, [v]
    while stack:
        more = [u for u in problem.topology.upstream[stack.pop()] if u in inside]
        found.update(more)
        stack += more
    return found


def lower_bound(problem: Problem) -> float:
    """Cost that no plan is below; infinite: there is no plan."""
    return min(
        problem.cost(_least_cpu(problem, spares), spares) for spares in problem.spare_options
    )


def _least_cpu(problem: Problem, spares: int) -> float:
    model = problem.model
    bound = float(problem.recovery_bound.max())
    least = problem.uncut_cpu
    if not math.isfinite(bound):
        return least
    restore, detection = model.restore(spares), model.machine.detection
    spread = math.hypot(detection.high - detection.value, restore.high - restore.value)
    budget = bound - detection.value - restore.value - spread
    stretch = float(model.stretch(least))
    if budget <= 0 or not math.isfinite(stretch):
        return math.inf
    tree = _Relaxed(problem, bound, budget / BUCKETS, stretch)
    return max(least, tree.solve())


class _Relaxed:
    """The dynamic program; `closed[v]` is the least CPU of v's block down to v, by level."""

    def __init__(self, problem: Problem, bound: float, bucket: float, stretch: float) -> None:
        self.problem = problem
        self.levels = problem.levels
        self.bucket = bucket
        self.stretch = stretch
        closing = problem.model.closing
        least_fixed = stretch * float(closing[:, FIXED_HIGH].min())
        self.per_work = bound + self.levels / 2 + least_fixed

    def solve(self) -> float:
        problem, topology = self.problem, self.problem.topology
        used: dict[int, FloatArray] = {}
        closed: dict[int, FloatArray] = {}
        total = problem.model.export_cpu
        for v in topology.order:
            table = self._own(v)
            for u in topology.upstream[v]:
                table = self._fuse(table, self._way(u, v, used, closed))
            used[v] = table
            closed[v] = self._close(v, table)
            if v in problem.fixed:
                total += float(closed[v].min())
        return total

    def _slot(self, demand: FloatArray, level: int) -> int:
        need = 2 * demand[FIXED_HIGH] + demand[WORK_HIGH] * self.per_work[level]
        return math.floor(self.stretch * float(need) / self.bucket)

    def _cpu(self, demand: FloatArray, level: int, snapshots: float = math.inf) -> float:
        batch = demand[CPU_BATCH] + demand[CPU_SNAPSHOT] / snapshots
        return float(demand[CPU_RATE] + batch / self.levels[level])

    def _own(self, v: int) -> FloatArray:
        demand = self.problem.model.member[v]
        table = np.full((len(self.levels), BUCKETS + 1), np.inf)
        for level, interval in enumerate(self.levels):
            if not self.problem.level_allowed[v, level]:
                continue
            per_log = demand[LOG_FIXED] + demand[LOG_RATE] * interval
            need = 2 * demand[FIXED_HIGH] + demand[WORK_HIGH] * self.per_work[level]
            for count in self.problem.snapshots:
                load = demand[LOAD] + 0.5 * (count - 1) * per_log
                slot = math.floor(self.stretch * (need + load) / self.bucket)
                if slot <= BUCKETS:
                    cpu = self._cpu(demand, level, count)
                    table[level, slot] = min(table[level, slot], cpu)
        return table

    def _way(
        self, u: int, v: int, used: dict[int, FloatArray], closed: dict[int, FloatArray]
    ) -> FloatArray:
        """What input u may add to a segment that contains v."""
        table = np.full((len(self.levels), BUCKETS + 1), np.inf)
        if u not in self.problem.fixed:
            table = used[u].copy()
        if u not in self.problem.forbidden:
            demand = self.problem.model.reading(u, v)
            upstream = np.minimum.accumulate(closed[u])
            for level in range(len(self.levels)):
                slot = self._slot(demand, level)
                if slot <= BUCKETS:
                    before = 0.0 if u in self.problem.fixed else float(upstream[level])
                    value = before + self._cpu(demand, level)
                    table[level, slot] = min(table[level, slot], value)
        return table

    def _fuse(self, table: FloatArray, way: FloatArray) -> FloatArray:
        merged = np.full_like(table, np.inf)
        for level in range(len(self.levels)):
            for slot in np.flatnonzero(np.isfinite(way[level])).tolist():
                room = BUCKETS + 1 - slot
                value = table[level, :room] + way[level, slot]
                np.minimum(merged[level, slot:], value, out=merged[level, slot:])
        return merged

    def _close(self, v: int, table: FloatArray) -> FloatArray:
        demand = self.problem.model.closing[v]
        least = np.full(len(self.levels), np.inf)
        for level in range(len(self.levels)):
            room = BUCKETS + 1 - self._slot(demand, level)
            if room > 0:
                least[level] = table[level, :room].min() + self._cpu(demand, level)
        return least
