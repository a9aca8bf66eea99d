"""Choose segments and levels by a list or a mixed-integer program over candidate segments.

Reading: one 0/1 variable per (segment, level) that keeps its own bounds at a given load. For every
edge u -> v, what covers v but not u balances what covers u but not v, which together with one
segment per fixed root makes the chosen segments a partition. Counting only levels up to l, the
balance becomes "no more often than its inputs". End-to-end latency is a bound on every path; the
worst path of a solution that breaks it is added as a row and the program solved again, which ends
because there are finitely many paths. The relaxation is integral on chains but for path rows.

The load is a parameter here: batch durations and latency are those at `at_cpu` cores. What a node's
death costs is no sum over its segments, so recoveries are only held to their floors here: what they
take at least, whatever else is lost. Combinations that turn out to break a bound all the same are
barred by whoever looks at them whole. Where a list of plans, the cheapest first (`listing`), comes
to one soon, that is the answer, and the program is not solved.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from holdfast.planners.interface import Solve
from holdfast.planners.joint.columns import Columns, Segments
from holdfast.planners.joint.listing import Listed, Listing
from holdfast.planners.joint.problem import SLACK, Problem, within
from holdfast.planners.milp import Model, minimise, minimise_relaxed
from holdfast.predict.demand import CPU_SNAPSHOT
from holdfast.predict.recovery import FloatArray
from holdfast.predict.replicas import FOLLOWER_CPU, failover_p95
from holdfast.predict.segments import SegmentPlan

IntArray = NDArray[np.int64]
Path = tuple[int, ...]
MOST_STEPS = 3_000
"""Steps to the next plan of a list after which the program is solved instead."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MasterResult:
    """The cheapest choice at a load, and the least that any choice can take there."""

    segments: tuple[SegmentPlan, ...] | None
    cpu_bound: float
    """Cores that no choice is below; infinite: there is none."""
    proved: bool
    listed: bool = False
    """Found on the list of plans, not by the program."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """What recoveries are held to, seconds."""

    needs: FloatArray
    """(segments, levels, snapshot intervals): what they are taken to need."""
    bounds: FloatArray
    """(segments): what they may need."""


@dataclass(slots=True, kw_only=True, eq=False)
class Solved:
    """What is known of one set of segments, whatever is asked of them.

    Bounds, sizes and loads mostly leave the same columns, and then the same choice is the cheapest.
    """

    paths: list[Path] = field(default_factory=list)
    """Those that took too long once: they are the first to look at under any bound on latency."""
    known: dict[Hashable, MasterResult] = field(default_factory=dict)
    """What was proved of a program."""
    programs: int = 0
    """How many were solved."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Begun:
    """A list of plans at one load, as far as it was looked at."""

    key: tuple[float, float]
    """Chance that no spare is left, and the load."""
    columns: Columns
    listing: Listing
    last: Listed | None = None
    given_up: bool = False


@dataclass(slots=True, eq=False)
class Master:
    """The program over one set of segments; what was found once is kept."""

    problem: Problem
    segments: Segments
    solved: Solved = field(default_factory=Solved)
    barred: set[frozenset[SegmentPlan]] = field(default_factory=set)
    """Combinations that were looked at and do not keep the bounds."""
    _begun: _Begun | None = field(default=None, init=False)
    """What was listed last, to go on from there."""
    _floors: dict[float, NDArray[np.float64]] = field(default_factory=dict, init=False)
    _roots: IntArray = field(init=False)
    bounds: FloatArray = field(init=False)
    """Per segment, the bound on its recovery."""
    _allowed: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        problem, parts = self.problem, self.segments.operators
        self._roots = np.array([part[-1] for part in parts], np.int64)
        self.bounds = np.array([problem.recovery_bound[list(part)].min() for part in parts])
        self._allowed = np.array([problem.level_allowed[list(part)].all(axis=0) for part in parts])

    def solve(
        self, spares: int, at_cpu: float, solve: Solve, *, held: Held | None = None
    ) -> MasterResult:
        """The cheapest choice when everything runs as at `at_cpu` cores.

        Recoveries are held to their bounds by their floors, or as `held` says.
        """
        needs = held or Held(needs=self.floor(spares), bounds=self.bounds)
        columns = self._columns(at_cpu, needs)
        key = self._key(columns, at_cpu)
        found = self.solved.known.get(key)
        if found is None:
            found = self._found(columns, spares, at_cpu, solve, once=held is not None)
            if found.proved and not solve.should_stop():
                self.solved.known[key] = found
        return found

    def _found(
        self, columns: Columns, spares: int, at_cpu: float, solve: Solve, *, once: bool
    ) -> MasterResult:
        """The cheapest choice from a list or by the program.

        A list goes on from plan to plan. Where one is wanted `once`, the relaxation mostly has it
        sooner.
        """
        if once:
            found = self._solved(columns, at_cpu, solve, relaxed=True)
            if found is not None:
                return found
        listed = self._listed(self._listing(columns, spares, at_cpu, once=once))
        if listed is not None:
            return listed
        found = self._solved(columns, at_cpu, solve)
        assert found is not None, "the program has an answer"  # noqa: S101 - for the type checker
        return found

    def _key(self, columns: Columns, at_cpu: float) -> Hashable:
        """All that the cheapest choice depends on."""
        chosen_from = (columns.segment, columns.level, columns.snapshots, columns.followers)
        return (
            at_cpu,
            self.problem.bounds.latency_s,
            self.problem.max_replicas,
            frozenset(self.barred),
            *(table.tobytes() for table in chosen_from),
        )

    def _solved(
        self, columns: Columns, at_cpu: float, solve: Solve, *, relaxed: bool = False
    ) -> MasterResult | None:
        """The cheapest choice by the program, a path that takes too long added at a time.

        None: by the `relaxed` one alone it cannot be told.
        """
        none = MasterResult(segments=None, cpu_bound=np.inf, proved=True)
        barred: list[frozenset[int]] = self._barred(columns)
        while True:
            self.solved.programs += 1
            model = self._model(columns, at_cpu, barred)
            if model is None:
                return none
            found = minimise_relaxed(model, solve)
            if found is None and relaxed:
                return None
            found = found or minimise(model, solve)
            if found.infeasible:
                return none
            extra = self.problem.model.export_cpu
            low = -np.inf if found.bound is None else found.bound + extra
            if found.x is None:
                return MasterResult(segments=None, cpu_bound=low, proved=False)
            taken = np.flatnonzero(found.x > 0.5)
            segments = self._segments(columns, taken)
            path = self._late_path(segments, at_cpu)
            if path is None or solve.should_stop():
                return MasterResult(segments=segments, cpu_bound=low, proved=found.optimal)
            if path in self.solved.paths:
                # Within the solver's tolerance but not within ours: bar this very combination.
                on = [int(k) for k in taken if set(path) & self._members(columns, int(k))]
                barred.append(frozenset(on))
            else:
                self.solved.paths.append(path)

    def bar(self, segments: Sequence[SegmentPlan]) -> None:
        """Never offer this combination again."""
        self.barred.add(frozenset(segments))

    def unbar(self) -> None:
        """Offer all combinations again."""
        self.barred.clear()
        self._begun = None

    def _listing(self, columns: Columns, spares: int, at_cpu: float, *, once: bool) -> _Begun:
        """Where the list of plans stands; it is begun anew for another load or other needs."""
        key = (self.problem.model.missing(spares), at_cpu)
        if not once and self._begun is not None and self._begun.key == key:
            return self._begun
        listing = Listing(self.problem, self.segments, columns, at_cpu=at_cpu)
        begun = _Begun(key=key, columns=columns, listing=listing)
        if not once:
            self._begun = begun
        return begun

    def _listed(self, begun: _Begun) -> MasterResult | None:
        """The cheapest plan of a list that is not barred; None: it takes too long to find."""
        extra = self.problem.model.export_cpu
        while not begun.given_up:
            if begun.last is not None:
                segments = self._segments(begun.columns, np.array(begun.last.columns, np.int64))
                if frozenset(segments) not in self.barred:
                    cpu = begun.last.cpu + extra
                    return MasterResult(segments=segments, cpu_bound=cpu, proved=True, listed=True)
            begun.last = begun.listing.next(MOST_STEPS)
            if begun.listing.exhausted:
                return MasterResult(segments=None, cpu_bound=np.inf, proved=True)
            begun.given_up = begun.last is None
        return None

    def _barred(self, columns: Columns) -> list[frozenset[int]]:
        """Combinations that must not come again, by columns; those that cannot are left out."""
        if not self.barred:
            return []
        place = {self._segment(columns, k): k for k in range(len(columns.segment))}
        return [
            frozenset(place[segment] for segment in together)
            for together in self.barred
            if all(segment in place for segment in together)
        ]

    def _members(self, columns: Columns, k: int) -> set[int]:
        return set(self.segments.operators[columns.segment[k]])

    def floor(self, spares: int) -> FloatArray:
        """(segments, levels, snapshot intervals): the 95th percentiles of their floors."""
        problem = self.problem
        missing = problem.model.missing(spares)
        if missing not in self._floors:
            floors = problem.model.floors(self.segments.operators, spares)
            self._floors[missing] = np.stack(
                [
                    np.stack([floors.p95(level, n) for n in problem.snapshots], axis=1)
                    for level in problem.levels.tolist()
                ],
                axis=1,
            )
        return self._floors[missing]

    def alone(self, spares: int, at_cpu: float) -> FloatArray:
        """The same of what they take if nothing else is lost, at a load.

        Infinite where even the floor is beyond the bound.
        """
        problem, floor = self.problem, self.floor(spares)
        stretch, longest = problem.model.stretch(at_cpu), float(problem.levels[-1])
        batch = problem.model.batch_s(self.segments.demand[:, None, :], problem.levels, stretch)
        may = self._kept(batch, Held(needs=floor, bounds=self.bounds))
        floors = problem.model.floors(self.segments.operators, spares)
        found = np.full(floor.shape, np.inf)
        for level, count in product(range(floor.shape[1]), range(floor.shape[2])):
            here = np.flatnonzero(may[:, level, count])
            if len(here):
                found[here, level, count] = floors.at(here).alone_p95(
                    float(problem.levels[level]),
                    problem.snapshots[count],
                    longest_s=longest,
                    stretch=float(stretch),
                )
        return found

    def _columns(self, at_cpu: float, held: Held) -> Columns:
        problem, model, demand = self.problem, self.problem.model, self.segments.demand
        stretch = model.stretch(at_cpu)
        batch = model.batch_s(demand[:, None, :], problem.levels, stretch)
        kept = self._kept(batch, held)
        segment, level, count = np.nonzero(kept)
        snapshots = np.asarray(problem.snapshots, np.int64)[count]
        passive = Columns(
            segment=segment,
            level=level,
            snapshots=snapshots,
            cpu=model.cpu(demand[segment], problem.levels[level], snapshots.astype(float)),
            batch_s=batch[segment, level],
            followers=np.zeros(len(segment), np.int64),
        )
        if not problem.max_replicas:
            return passive
        return self._with_followers(passive, self._fits(batch), batch, stretch)

    def _fits(self, batch: FloatArray) -> NDArray[np.bool_]:
        levels = self.problem.levels
        return self._allowed & (batch <= levels + SLACK * np.maximum(1.0, levels))

    def _kept(self, batch: FloatArray, held: Held) -> NDArray[np.bool_]:
        """Which segments keep up at which level, and keep their bound by their needs."""
        bound = held.bounds[:, None, None]
        limit = bound + SLACK * np.maximum(1.0, np.where(np.isfinite(bound), bound, 1.0))
        kept = np.asarray(self._fits(batch)[:, :, None] & (held.needs <= limit))
        # Without state there is nothing to snapshot.
        kept[self.segments.demand[:, CPU_SNAPSHOT] <= 0, :, :-1] = False
        return kept

    def _with_followers(
        self, passive: Columns, fits: NDArray[np.bool_], batch: FloatArray, stretch: FloatArray
    ) -> Columns:
        """Columns without followers and with them."""
        problem, demand = self.problem, self.segments.demand
        late = float(failover_p95(stretch))
        in_time = np.array([within(late, bound) for bound in self.bounds])
        segment, level = np.nonzero(fits & in_time[:, None])
        longest = np.full(len(segment), problem.snapshots[-1])
        own = problem.model.cpu(demand[segment], problem.levels[level], longest.astype(float))
        shards = problem.model.load.shards[self._roots[segment]].astype(np.int64)
        return Columns(
            segment=np.concatenate([passive.segment, segment]),
            level=np.concatenate([passive.level, level]),
            snapshots=np.concatenate([passive.snapshots, longest]),
            cpu=np.concatenate([passive.cpu, (1.0 + FOLLOWER_CPU) * own]),
            batch_s=np.concatenate([passive.batch_s, batch[segment, level]]),
            followers=np.concatenate([passive.followers, shards]),
        )

    def _model(self, columns: Columns, at_cpu: float, barred: list[frozenset[int]]) -> Model | None:
        """None: some root has no column at all."""
        problem, topology = self.problem, self.problem.topology
        count = len(columns.segment)
        row_of_root = {root: row for row, root in enumerate(problem.fixed)}
        steps = len(problem.epochs)
        first_edge = len(row_of_root)
        row_of_edge = {
            (u, v): first_edge + k * steps
            for k, (u, v) in enumerate(
                (u, v) for v in range(problem.size) for u in topology.upstream[v]
            )
        }
        covered = set(self._roots[columns.segment].tolist())
        if any(root not in covered for root in row_of_root):
            return None
        rows, cols, values = _Triplets(), range(count), self.segments
        for k in cols:
            part, level = int(columns.segment[k]), int(columns.level[k])
            root = int(self._roots[part])
            if root in row_of_root:
                rows.add(row_of_root[root], k, 1.0)
            for edge in values.cut_edges[part]:
                for step in range(level, steps):
                    rows.add(row_of_edge[edge] + step, k, 1.0)
            for consumer in topology.downstream[root]:
                for step in range(level, steps):
                    rows.add(row_of_edge[root, consumer] + step, k, -1.0)
        size = first_edge + len(row_of_edge) * steps
        lower, upper = np.full(size, -np.inf), np.zeros(size)
        lower[:first_edge] = upper[:first_edge] = 1.0
        lower[first_edge + steps - 1 :: steps] = 0.0
        more = self._path_rows(columns, at_cpu, rows, size)
        more += _bar_rows(barred, rows, size + len(more))
        more += self._follower_row(columns, rows, size + len(more))
        return Model(
            cost=columns.cpu,
            matrix=rows.matrix((size + len(more), count)),
            row_lower=np.concatenate([lower, np.full(len(more), -np.inf)]),
            row_upper=np.concatenate([upper, np.array(more)]),
            lower=np.zeros(count),
            upper=np.ones(count),
            integer=np.ones(count, np.bool_),
        )

    def _follower_row(self, columns: Columns, rows: _Triplets, row: int) -> list[float]:
        hot = np.flatnonzero(columns.followers)
        if not len(hot) or np.isinf(self.problem.max_replicas):
            return []
        for column in hot.tolist():
            rows.add(row, column, float(columns.followers[column]))
        return [float(self.problem.max_replicas)]

    def _path_rows(
        self, columns: Columns, at_cpu: float, rows: _Triplets, start: int
    ) -> list[float]:
        problem, model = self.problem, self.problem.model
        if math.isinf(problem.bounds.latency_s):
            return []
        stretch = model.stretch(at_cpu)
        for k, path in enumerate(self.solved.paths):
            on = set(path)
            meets = np.array([not on.isdisjoint(part) for part in self.segments.operators])
            weight = np.where(meets[columns.segment], columns.batch_s, 0.0)
            last = self._roots[columns.segment] == path[-1]
            interval = problem.levels[columns.level]
            weight += np.where(last, interval + model.export_s(path[-1], interval, stretch), 0.0)
            for column in np.flatnonzero(weight):
                rows.add(start + k, int(column), float(weight[column]))
        return [problem.bounds.latency_s] * len(self.solved.paths)

    def _segment(self, columns: Columns, k: int) -> SegmentPlan:
        return SegmentPlan(
            operators=self.segments.operators[columns.segment[k]],
            interval_s=float(self.problem.levels[columns.level[k]]),
            snapshot_batches=int(columns.snapshots[k]),
            replicated=bool(columns.followers[k]),
        )

    def _segments(self, columns: Columns, taken: IntArray) -> tuple[SegmentPlan, ...]:
        rank = {v: position for position, v in enumerate(self.problem.topology.order)}
        parts = [self._segment(columns, k) for k in taken.tolist()]
        return tuple(sorted(parts, key=lambda part: rank[part.root]))

    def _late_path(self, segments: tuple[SegmentPlan, ...], at_cpu: float) -> Path | None:
        """The path by which results come too late, or None."""
        pace = self.problem.pace(segments, at_cpu=at_cpu)
        if within(pace.end_to_end_s, self.problem.bounds.latency_s):
            return None
        return slowest_path(self.problem, segments, pace.batch_s, at_cpu)


def slowest_path(
    problem: Problem, segments: Sequence[SegmentPlan], batch_s: FloatArray, at_cpu: float
) -> Path:
    """The operators from a source to a result over which rows take longest."""
    topology, model = problem.topology, problem.model
    place = {v: i for i, part in enumerate(segments) for v in part.operators}
    finish = [0.0] * len(segments)
    came: list[tuple[int, int] | None] = [None] * len(segments)
    for i, part in enumerate(segments):
        edges = [(u, v) for v in part.operators for u in topology.upstream[v] if place[u] != i]
        if edges:
            came[i] = max(edges, key=lambda edge: finish[place[edge[0]]])
            finish[i] = finish[place[came[i][0]]]  # type: ignore[index]
        finish[i] += float(batch_s[i])
    stretch = model.stretch(at_cpu)

    def delivered(i: int) -> float:
        part = segments[i]
        wait = np.asarray(part.interval_s)
        return finish[i] + part.interval_s + float(model.export_s(part.root, wait, stretch))

    results = {topology.index[query.sink] for query in topology.effective_queries}
    at = max((place[v] for v in results), key=delivered)
    path: list[int] = []
    while True:
        edge = came[at]
        part = segments[at]
        start = edge[1] if edge else next(v for v in part.operators if not topology.upstream[v])
        inside = [start]
        while inside[-1] != part.root:
            inside.append(topology.downstream[inside[-1]][0])
        path = inside + path
        if edge is None:
            return tuple(path)
        at = place[edge[0]]


def _bar_rows(barred: list[frozenset[int]], rows: _Triplets, start: int) -> list[float]:
    for k, together in enumerate(barred):
        for column in together:
            rows.add(start + k, column, 1.0)
    return [len(together) - 1.0 for together in barred]


class _Triplets:
    """A sparse matrix in the making."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []

    def add(self, row: int, column: int, value: float) -> None:
        self.row.append(row)
        self.column.append(column)
        self.value.append(value)

    def matrix(self, shape: tuple[int, int]) -> csr_matrix:
        return csr_matrix((self.value, (self.row, self.column)), shape=shape)
