"""A plan made cheaper, move by move, as long as it keeps its bounds when it is looked at whole.

A move fuses a segment with one that it reads, takes the next longer batch interval (and for those
downstream that would be shorter), or the next longer snapshot interval. Moves are tried in order of
what they save; what they cost in recovery is found out by evaluating the whole plan. A move that
broke a bound is not tried again: what made it do so is seldom mended by another. A plan from which
all moves that are left could not lead below the best one is left alone.

O(segments) moves a round, each priced by its CPU alone; at most `looks` evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from holdfast.planners.interface import Solve
from holdfast.planners.joint.placing import place
from holdfast.planners.joint.problem import SLACK, Evaluation, Problem
from holdfast.planners.joint.search import Search
from holdfast.predict.segments import SegmentPlan, inputs_of

Plan: TypeAlias = tuple[SegmentPlan, ...]
STARTS = 3
"""Plans that are moved from."""
LOOKS = 40
"""Evaluations that a plan of few segments is worth."""
WORK = 600
"""Units that are brought back in all of them, about: a plan of many takes as long to look at."""


@dataclass(slots=True, kw_only=True, eq=False)
class Polish:
    """Moves from plans that keep their bounds."""

    search: Search
    solve: Solve
    _failed: set[Plan] = field(default_factory=set, init=False)
    """What moves put in the place of others and broke a bound."""

    def run(self) -> None:
        """Move from the best plans that are known as long as that makes them cheaper."""
        known = sorted(self.search.sound, key=lambda one: one.cost)
        for start in known[:STARTS]:
            self._from(start)

    def _from(self, at: Evaluation) -> None:
        left = min(LOOKS, WORK // max(1, len(at.choice.segments)))
        while left > 0 and not self.solve.should_stop():
            looked, after = self._step(at, left)
            left -= looked
            if after is None:
                return
            at = after

    def _step(self, at: Evaluation, left: int) -> tuple[int, Evaluation | None]:
        """One move that helps, None if there is none; and how many plans were looked at."""
        problem, size = self.search.problem, at.choice.size
        priced: list[tuple[float, int, Plan, Plan]] = []
        for plan, put in moves(problem, at.choice.segments):
            if put in self._failed:
                continue
            pace = problem.pace(plan)
            cost = problem.cost(pace.cpu, size)
            if cost < at.cost - SLACK and not problem.broken_pace(plan, pace):
                priced.append((cost, len(priced), plan, put))
        looked = 0
        if self._too_far(at, priced, left):
            return looked, None
        for _, _, plan, put in sorted(priced)[:left]:
            if self.solve.should_stop():
                break
            looked += 1
            found = self.search.keeps(place(problem, plan, size, self.solve))
            if found is not None:
                return looked, found
            self._failed.add(put)
        return looked, None

    def _too_far(
        self, at: Evaluation, priced: Sequence[tuple[float, int, Plan, Plan]], left: int
    ) -> bool:
        """Whether no moves that are left lead below the best plan, if none saves more than now."""
        best = self.search.best
        if best is None or not priced:
            return False
        most = at.cost - min(priced)[0]
        return at.cost - left * most >= best.cost - SLACK


def moves(problem: Problem, plan: Plan) -> Iterator[tuple[Plan, Plan]]:
    """Plans one move away, each with the segments that the move puts there."""
    inputs = inputs_of(problem.topology, plan)
    for i, segment in enumerate(plan):
        for j in inputs[i]:
            if plan[j].root not in problem.fixed:
                fused = _fused(problem, plan[j], segment)
                rest = [one for k, one in enumerate(plan) if k not in (i, j)]
                yield _ordered(problem, [*rest, fused]), (fused,)
        longer = _next(problem.levels.tolist(), segment.interval_s)
        if longer is not None:
            moved = _lengthened(plan, inputs, i, longer)
            yield moved, tuple(one for one in moved if one not in plan)
        rarer = _next(list(problem.snapshots), segment.snapshot_batches)
        if rarer is not None:
            put = replace(segment, snapshot_batches=int(rarer))
            yield (*plan[:i], put, *plan[i + 1 :]), (put,)


def _fused(problem: Problem, upper: SegmentPlan, lower: SegmentPlan) -> SegmentPlan:
    rank = {v: position for position, v in enumerate(problem.topology.order)}
    members = sorted((*upper.operators, *lower.operators), key=rank.__getitem__)
    return replace(
        lower,
        operators=tuple(members),
        snapshot_batches=min(upper.snapshot_batches, lower.snapshot_batches),
        replicated=upper.replicated or lower.replicated,
    )


def _ordered(problem: Problem, plan: Sequence[SegmentPlan]) -> Plan:
    rank = {v: position for position, v in enumerate(problem.topology.order)}
    return tuple(sorted(plan, key=lambda one: rank[one.root]))


def _lengthened(plan: Plan, inputs: list[list[int]], at: int, interval_s: float) -> Plan:
    """One segment with a longer interval, and whoever reads it."""
    moved = list(plan)
    moved[at] = replace(plan[at], interval_s=interval_s)
    for i in range(at + 1, len(plan)):
        least = max((moved[j].interval_s for j in inputs[i]), default=0.0)
        if moved[i].interval_s < least:
            moved[i] = replace(moved[i], interval_s=least)
    return tuple(moved)


def _next(offered: Sequence[float], now: float) -> float | None:
    return next((one for one in offered if one > now * (1 + SLACK)), None)
