"""`rsrfs-exact`: the best relaxed frequencies of a chain, segments included.

Problem: as `exact`, but operator i of a segment has its own eta_i, a multiple of its successor's;
its recovery replays from its own last checkpoint: rho_i A_i / eta_i, overhead b_i eta_i.

Without divisibility eta only has to be non-increasing along a segment. At any price the best such
eta is found by pooling adjacent operators while A_i rho_i / b_i rises (pool adjacent violators);
pools behave like segments of their own, so a segment enters K + S^2 / (C - D) with
S = sum over pools sqrt(a b), and the chain's label search does the rest. Rounding each pool to the
nearest power of two of a base of the segment's own keeps eta non-increasing, makes every frequency
a multiple of the next, and is the best choice of such powers; at most 4.1% is lost. The search
uses the rounded S; the bound comes from the unrounded one.

Complexity: O(n^2) pools, then as `exact`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from holdfast.planners.fastrecover.chain_exact import dual_of_chain, finish_chain
from holdfast.planners.fastrecover.chain_tables import ChainTables, chain_tables
from holdfast.planners.fastrecover.checkpointing import BoolArray, FloatArray, partition
from holdfast.planners.fastrecover.frequencies import allocate, best_powers
from holdfast.planners.fastrecover.problem import (
    GAP,
    Outcome,
    Problem,
    Solution,
    with_frequencies,
)
from holdfast.planners.interface import Solve


@dataclass(slots=True)
class Pool:
    """Neighbours with one frequency."""

    first: int
    last: int
    replay: float
    write: float


def add_to_pools(pools: list[Pool], at: int, replay: float, write: float) -> None:
    """Append an operator; merge while a later pool would want a higher frequency."""
    pool = Pool(at, at, replay, write)
    while pools and pools[-1].replay * pool.write <= pool.replay * pools[-1].write:
        before = pools.pop()
        pool = Pool(before.first, at, before.replay + pool.replay, before.write + pool.write)
    pools.append(pool)


def strength(pools: list[Pool], *, rounded: bool) -> float:
    """S of a segment: sum of sqrt(a b) over pools, or its least value with powers of two."""
    active = [pool for pool in pools if pool.replay > 0 and pool.write > 0]
    if len(active) <= 1 or not rounded:
        return sum(math.sqrt(pool.replay * pool.write) for pool in active)
    a, b = (np.array([getattr(p, name) for p in active]) for name in ("replay", "write"))
    return best_powers(a, b)[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class RelaxedProblem(Problem):
    """A chain whose segments are evaluated by pools."""

    rounded: bool

    def _solve(self, anchors: BoolArray) -> Solution | None:
        parts = partition(self.model, anchors)
        segments = self._pools(anchors)
        s = np.array([strength(pools, rounded=self.rounded) for pools in segments])
        uncapped = np.full(parts.size, np.inf)
        as_one = replace(parts, replay=s, write=s, max_frequency=uncapped)
        found = allocate(as_one, self.goal, self.rule)
        if found is None:
            return None
        frequency = self._spread(segments, found.level)
        return Solution(
            partition=as_one,
            allocation=found,
            objective=found.objective(self.goal),
            frequency=frequency,
        )

    def _pools(self, anchors: BoolArray) -> list[list[Pool]]:
        """Per segment, in chain order (which numbers segments the same way)."""
        model, segments = self.model, []
        rework = 0.0
        pools: list[Pool] = []
        for i in model.topology.order:
            write = float(model.state[i])
            if anchors[i]:
                pools = []
                segments.append(pools)
                rework = float(model.save[i])
                write += float(model.access[i])
            rework += float(model.replay[i])
            add_to_pools(pools, i, float(model.failure[i]) * rework, write)
        return segments

    def _spread(self, segments: list[list[Pool]], level: float) -> FloatArray:
        order = self.model.topology.order
        place = {i: k for k, i in enumerate(order)}
        frequency = np.zeros(self.model.size)
        for pools in segments:
            for pool, eta in zip(pools, self._pool_frequencies(pools, level), strict=True):
                members = list(order[place[pool.first] : place[pool.last] + 1])
                frequency[members] = eta
        return frequency

    def _pool_frequencies(self, pools: list[Pool], level: float) -> list[float]:
        active = [pool for pool in pools if pool.replay > 0 and pool.write > 0]
        a, b = (np.array([getattr(p, name) for p in active]) for name in ("replay", "write"))
        eta = np.sqrt(a / b) * level if active else np.zeros(0)
        if len(active) > 1 and self.rounded:
            _, exponent = best_powers(a, b)
            scale = np.exp2(exponent)
            # The base at which this segment's replay and write parts balance at the level.
            eta = level * math.sqrt(float((a / scale).sum()) / float(b @ scale)) * scale
        by_pool = {id(pool): float(x) for pool, x in zip(active, eta, strict=True)}
        idle = {True: math.inf, False: 0.0}
        return [by_pool.get(id(pool), idle[pool.write == 0]) for pool in pools]


def rsrfs_exact(problem: Problem, solve: Solve) -> Outcome:
    """The best plan with powers of two inside segments, and a bound over all relaxed plans."""
    plain = chain_tables(problem.model, problem.required, problem.forbidden)
    bound = _relaxed(problem, plain, solve, rounded=False).bound
    outcome = _relaxed(problem, plain, solve, rounded=True)
    if outcome.solution is None or bound is None:
        return Outcome(solution=None)
    found = _respect_caps(problem, outcome.solution)
    if found is None:
        return Outcome(solution=None, note="the minimum intervals leave no relaxed plan")
    near = bound >= found.objective * (1 - GAP)
    return Outcome(
        solution=found,
        bound=min(bound, found.objective),
        optimal=near,
        note=outcome.note,
    )


def _relaxed(problem: Problem, plain: ChainTables, solve: Solve, *, rounded: bool) -> Outcome:
    relaxed = RelaxedProblem(
        model=problem.model,
        goal=problem.goal,
        required=problem.required,
        forbidden=problem.forbidden,
        rounded=rounded,
    )
    start = relaxed.solve(relaxed.safest())
    if start is None:
        return Outcome(solution=None)
    s = _strengths(problem, plain, rounded=rounded)
    tables = replace(plain, replay=s, write=s, max_frequency=np.full(s.shape, np.inf))
    return finish_chain(relaxed, tables, dual_of_chain(relaxed, tables, start, solve), solve)


def _strengths(problem: Problem, tables: ChainTables, *, rounded: bool) -> FloatArray:
    """S of every segment of the chain."""
    model, order = problem.model, tables.order.tolist()
    failure, replay, state = model.failure.tolist(), model.replay.tolist(), model.state.tolist()
    table = np.zeros(tables.fixed.shape)
    for h, head in enumerate(order):
        pools: list[Pool] = []
        rework, extra = float(model.save[head]), float(model.access[head])
        for l, i in enumerate(order[h:]):
            rework += replay[i]
            add_to_pools(pools, h + l, failure[i] * rework, state[i] + extra)
            extra = 0.0
            table[h, l] = strength(pools, rounded=rounded)
    return table


def _respect_caps(problem: Problem, found: Solution) -> Solution | None:
    """Halve what exceeds its minimum interval, then use up what that frees."""
    model = problem.model
    if np.isinf(model.max_frequency).all():
        return with_frequencies(problem, found.anchors, found.frequency)
    order = np.asarray(model.topology.order)
    cap = model.max_frequency.copy()
    for before, i in pairwise(order.tolist()):
        if not found.anchors[i]:
            cap[i] = min(cap[i], cap[before])
    best: Solution | None = None
    for factor in np.exp2(np.arange(-8, 25) / 4):
        eta = found.frequency * factor
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.ceil(np.log2(eta / cap) - 1e-12)
        eta = np.where(np.isinf(eta), cap, eta * np.exp2(-np.where(over > 0, over, 0.0)))
        plan = with_frequencies(problem, found.anchors, eta)
        measure = plan.allocation
        used = measure.overhead if problem.goal.bounded == "overhead" else measure.recovery
        if used <= problem.goal.limit:
            best = problem.better(best, plan)
    return best or problem.solve(problem.safest())
