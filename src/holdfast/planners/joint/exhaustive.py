"""Brute force: every set of cuts and of replicas, all levels, snapshot intervals and spares.

The reference the other algorithms are judged by. It shares the recovery model with them and nothing
else: plans are evaluated whole, at their own load. O(2^n * levels^n * snapshots^n), so it is for
small topologies only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.planners.interface import Solve
from holdfast.planners.joint.exact import Search
from holdfast.planners.joint.problem import SLACK, Choice, Problem
from holdfast.predict.demand import CPU_SNAPSHOT
from holdfast.predict.recovery import FloatArray
from holdfast.predict.replicas import FOLLOWER_CPU, failover_p95
from holdfast.predict.segments import SegmentPlan, segments_of

MAX_FREE = 12
"""Operators that may be cut or not, beyond which nobody would wait."""
MAX_COMBINATIONS = 4_000_000
"""Combinations of levels and snapshots of one set of cuts, beyond which memory would not do."""


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """All combinations for one set of cuts; rows are combinations, columns segments."""

    parts: list[tuple[int, ...]]
    level: NDArray[np.int64]
    snapshots: NDArray[np.int64]
    replicated: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """What every combination of one set of cuts and number of spares promises."""

    parts: list[tuple[int, ...]]
    spares: int
    level: NDArray[np.int64]
    snapshots: NDArray[np.int64]
    replicated: NDArray[np.bool_]
    sound: NDArray[np.bool_]
    """Keeps up, fits the machine, has allowed levels: a plan at all."""
    excess: FloatArray
    """Worst recovery relative to nothing but the global bound: the slowest segment, seconds."""
    own: NDArray[np.bool_]
    """Whether the operators' own recovery bounds are kept."""
    latency_s: FloatArray
    overhead: FloatArray
    cost: FloatArray

    def feasible(self, problem: Problem) -> NDArray[np.bool_]:
        bounds = problem.bounds
        return np.asarray(
            self.sound
            & self.own
            & _within(self.excess, bounds.recovery_s)
            & _within(self.latency_s, bounds.latency_s)
            & _within(self.overhead, bounds.overhead)
        )


def solve_exhaustive(problem: Problem, search: Search, solve: Solve) -> Search:
    """Look at every plan."""
    if len(problem.free) > MAX_FREE:
        raise BadInputError(
            f"there are {len(problem.free)} operators to cut or not, which is too many to try all",
            where="--algorithm",
            hint="write exact or auto",
        )
    for table in tables(problem):
        if solve.should_stop():
            search.stopped = True
            return search
        cost = np.where(table.feasible(problem), table.cost, math.inf)
        row = int(np.argmin(cost))
        if math.isfinite(cost[row]) and (search.best is None or cost[row] < search.best.cost):
            search.offer(choice_of(problem, table, row))
    search.proved = True
    search.bound = math.inf if search.best is None else search.best.cost
    return search


def tables(problem: Problem) -> Iterator[Table]:
    """Every plan, one table per set of cuts and number of spares."""
    for count in range(len(problem.free) + 1):
        for cuts in combinations(problem.free, count):
            options = _options(problem, set(problem.fixed) | set(cuts))
            if len(options.level):
                for spares in problem.spare_options:
                    yield _table(problem, options, spares)


def choice_of(problem: Problem, table: Table, row: int) -> Choice:
    return Choice(
        segments=tuple(
            SegmentPlan(
                operators=part,
                interval_s=float(problem.levels[table.level[row, k]]),
                snapshot_batches=int(table.snapshots[row, k]),
                replicated=bool(table.replicated[row, k]),
            )
            for k, part in enumerate(table.parts)
        ),
        spares=table.spares,
    )


def _options(problem: Problem, ends: set[int]) -> _Options:
    parts = segments_of(problem.topology, ends)
    steps = range(len(problem.epochs))
    levels = np.array(list(product(steps, repeat=len(parts))), np.int64)
    for i, read in enumerate(_inputs(problem, parts)):
        for j in read:
            levels = levels[levels[:, i] >= levels[:, j]]
    stateful = [problem.model.demands.of(part)[CPU_SNAPSHOT] > 0 for part in parts]
    choices = [problem.snapshots if keeps else problem.snapshots[-1:] for keeps in stateful]
    snapshots = np.array(list(product(*choices)), np.int64)
    hot = _replicated(problem, parts)
    if len(levels) * len(snapshots) * len(hot) > MAX_COMBINATIONS:
        raise BadInputError(
            "there are too many combinations of intervals to try all",
            where="--algorithm",
            hint="write exact or auto",
        )
    paces = np.repeat(levels, len(snapshots), axis=0)
    kept = np.tile(snapshots, (len(levels), 1))
    return _Options(
        parts,
        np.repeat(paces, len(hot), axis=0),
        np.repeat(kept, len(hot), axis=0),
        np.tile(hot, (len(paces), 1)),
    )


def _replicated(problem: Problem, parts: list[tuple[int, ...]]) -> NDArray[np.bool_]:
    """Every set of segments that may have followers; rows are sets."""
    if not problem.max_replicas:
        return np.zeros((1, len(parts)), np.bool_)
    sets = np.array(list(product((False, True), repeat=len(parts))), np.bool_)
    shards = np.array([problem.model.load.shards[part[-1]] for part in parts])
    return np.asarray(sets[(sets * shards).sum(axis=1) <= problem.max_replicas])


def _inputs(problem: Problem, parts: list[tuple[int, ...]]) -> list[set[int]]:
    place = {v: i for i, part in enumerate(parts) for v in part}
    upstream = problem.topology.upstream
    return [{place[u] for v in part for u in upstream[v]} - {i} for i, part in enumerate(parts)]


def _table(problem: Problem, options: _Options, spares: int) -> Table:
    model, parts = problem.model, options.parts
    demand = np.array([model.demands.of(part) for part in parts])[None, :, :]
    interval = problem.levels[options.level]
    snapshots = options.snapshots.astype(float)
    each = model.cpu(demand, interval, snapshots)
    each = each * (1.0 + FOLLOWER_CPU * options.replicated)
    cpu = each.sum(axis=1) + model.export_cpu
    stretch = model.stretch(cpu)[:, None]
    batch = model.batch_s(demand, interval, stretch)
    p95 = model.phases(demand, interval, snapshots, stretch, spares).p95
    p95 = np.where(options.replicated, failover_p95(stretch), p95)
    allowed = np.ones(len(cpu), np.bool_)
    own = np.ones(len(cpu), np.bool_)
    for k, part in enumerate(parts):
        levels = np.asarray(problem.level_allowed[list(part)].all(axis=0))
        allowed &= levels[options.level[:, k]]
        own &= _within(p95[:, k], float(problem.recovery_bound[list(part)].min()))
    finish = np.zeros_like(interval)
    results = {problem.topology.index[query.sink] for query in problem.topology.effective_queries}
    latency = np.zeros(len(cpu))
    for i, read in enumerate(_inputs(problem, parts)):
        finish[:, i] = batch[:, i]
        if read:
            finish[:, i] += np.max(finish[:, sorted(read)], axis=1)
        if parts[i][-1] in results:
            deliver = model.export_s(parts[i][-1], interval[:, i], stretch[:, 0])
            latency = np.maximum(latency, finish[:, i] + interval[:, i] + deliver)
    keeps_up = (batch <= interval + SLACK * np.maximum(1.0, interval)).all(axis=1)
    uncut = problem.uncut_cpu
    return Table(
        parts=parts,
        spares=spares,
        level=options.level,
        snapshots=options.snapshots,
        replicated=options.replicated,
        sound=allowed & keeps_up & (cpu < model.machine.cores),
        excess=p95.max(axis=1),
        own=own,
        latency_s=latency,
        overhead=(cpu - uncut) / uncut if uncut > 0 else np.zeros(len(cpu)),
        cost=cpu - uncut + spares * model.machine.spare_cost.value,
    )


def _within(value: FloatArray, bound: float) -> NDArray[np.bool_]:
    limit = bound + SLACK * max(1.0, abs(bound))
    return np.asarray(np.isfinite(value) & (value <= limit))
