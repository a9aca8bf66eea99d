"""Brute force: every set of cuts and of replicas, all levels, snapshots, placements and sizes.

The reference the other algorithms are judged by. It shares the recovery model with them and nothing
else: plans are evaluated whole, at their own load, the cheapest first. What breaks a bound whatever
is lost with it (it does not keep up, results come too late, a recovery is above its bound even at
its floor) is left out before. O(2^n * levels^n * snapshots^n), so it is for small topologies only.
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
from holdfast.planners.joint.placing import partitions
from holdfast.planners.joint.problem import SLACK, Choice, Problem, Size, within
from holdfast.planners.joint.search import Search
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
    """What every combination of one set of cuts promises, and what it takes at least."""

    parts: list[tuple[int, ...]]
    level: NDArray[np.int64]
    snapshots: NDArray[np.int64]
    replicated: NDArray[np.bool_]
    may: NDArray[np.bool_]
    """Keeps every bound that does not depend on what is lost together."""
    cpu: FloatArray


def solve_exhaustive(problem: Problem, search: Search, solve: Solve) -> Search:
    """Look at every plan."""
    if len(problem.free) > MAX_FREE:
        raise BadInputError(
            f"there are {len(problem.free)} operators to cut or not, which is too many to try all",
            where="--algorithm",
            hint="write exact or auto",
        )
    for size in problem.sizes:
        for table in tables(problem, size.spares):
            if not _look(problem, table, size, search, solve):
                search.stopped = True
                return search
    search.proved = True
    search.bound = math.inf if search.best is None else search.best.cost
    return search


def _look(problem: Problem, table: Table, size: Size, search: Search, solve: Solve) -> bool:
    """Look at the plans of a table, the cheapest first; False: stopped."""
    for row in np.argsort(np.where(table.may, table.cpu, np.inf)).tolist():
        cost = problem.cost(float(table.cpu[row]), size)
        if not table.may[row] or (search.best is not None and cost >= search.best.cost):
            break
        segments = segments_in(problem, table, row)
        for nodes in partitions(len(segments), min(size.nodes, len(segments))):
            if solve.should_stop():
                return False
            empty = ((),) * (size.nodes - len(nodes))
            choice = Choice(segments=segments, spares=size.spares, nodes=(*nodes, *empty))
            if search.keeps(choice) is not None:
                return True
    return True


def count_plans(problem: Problem) -> float:
    """How many plans there are at most, sizes and placements not counted."""
    each = len(problem.levels) * (len(problem.snapshots) + (problem.max_replicas > 0))
    return float((1 + each) ** len(problem.free) * each ** len(problem.fixed))


def tables(problem: Problem, spares: int) -> Iterator[Table]:
    """Every plan, one table per set of cuts."""
    for count in range(len(problem.free) + 1):
        for cuts in combinations(problem.free, count):
            options = _options(problem, set(problem.fixed) | set(cuts))
            if len(options.level):
                yield _table(problem, options, spares)


def segments_in(problem: Problem, table: Table, row: int) -> tuple[SegmentPlan, ...]:
    """The plan of one row."""
    return tuple(
        SegmentPlan(
            operators=part,
            interval_s=float(problem.levels[table.level[row, k]]),
            snapshot_batches=int(table.snapshots[row, k]),
            replicated=bool(table.replicated[row, k]),
        )
        for k, part in enumerate(table.parts)
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
    may = np.asarray(cpu < model.machine.cores)
    floors = model.floors(parts, spares)
    for k, part in enumerate(parts):
        levels = np.asarray(problem.level_allowed[list(part)].all(axis=0))
        may &= levels[options.level[:, k]]
        bound = float(problem.recovery_bound[list(part)].min())
        hot = options.replicated[:, k]
        may &= ~hot | _within(failover_p95(stretch[:, 0]), bound)
        for level, count in product(range(len(problem.levels)), problem.snapshots):
            here = (options.level[:, k] == level) & (options.snapshots[:, k] == count) & ~hot
            if here.any():
                floor = float(floors.p95(float(problem.levels[level]), count)[k])
                may &= ~here | within(floor, bound)
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
    may &= (batch <= interval + SLACK * np.maximum(1.0, interval)).all(axis=1)
    uncut = problem.uncut_cpu
    overhead = (cpu - uncut) / uncut if uncut > 0 else np.zeros(len(cpu))
    may &= _within(latency, problem.bounds.latency_s) & _within(overhead, problem.bounds.overhead)
    return Table(
        parts=parts,
        level=options.level,
        snapshots=options.snapshots,
        replicated=options.replicated,
        may=may,
        cpu=cpu,
    )


def _within(value: FloatArray, bound: float) -> NDArray[np.bool_]:
    limit = bound + SLACK * max(1.0, abs(bound))
    return np.asarray(np.isfinite(value) & (value <= limit))
