"""A plan that keeps its bounds, near the cheapest one that keeps its floors.

What segments that are lost together cost each other is known only of a whole plan. So a plan is
made by what is known of each segment, looked at whole, and made again with larger needs where it
broke a bound: the segment and all it reads from are held to what they take alone, catching up
included, and then to less and less, until a plan keeps all bounds. It begins with everything taken
alone, where plans seldom break bounds, with and without looking upstream of a broken one, and at
the floors, where plans are cheap and break them.

One program and one evaluation a step, at most `STEPS` from each beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.joint.master import Held, Master
from holdfast.planners.joint.placing import place
from holdfast.planners.joint.problem import BoolArray, Evaluation, Size, within
from holdfast.planners.joint.search import Search
from holdfast.predict.recovery import FloatArray
from holdfast.predict.segments import SegmentPlan, inputs_of

STEPS = 12
"""Plans that are made and looked at from each beginning."""
STEP = 1.05
"""By how much less than it takes a segment is held to where a plan broke a bound."""


@dataclass(slots=True, kw_only=True, eq=False)
class Repair:
    """Plans of one size over one set of candidate segments."""

    search: Search
    master: Master
    size: Size
    solve: Solve
    _inside: BoolArray = field(init=False)
    """(segments, operators): what is in which candidate."""
    _row: dict[tuple[int, ...], int] = field(init=False)

    def __post_init__(self) -> None:
        parts = self.master.segments.operators
        self._row = {part: row for row, part in enumerate(parts)}
        self._inside = np.zeros((len(parts), self.search.problem.size), bool)
        for row, part in enumerate(parts):
            self._inside[row, list(part)] = True

    def run(self) -> None:
        """Offer plans until one keeps the bounds, from each beginning."""
        problem = self.search.problem
        if not self.bounded:
            floor = self.master.floor(self.size.spares)
            self._from(floor, np.full(problem.size, False), upstream=False)
            return
        alone = self.master.alone(self.size.spares, problem.uncut_cpu)
        for strict, upstream in ((True, True), (True, False), (False, True)):
            self._from(alone, np.full(problem.size, strict), upstream=upstream)

    @property
    def bounded(self) -> bool:
        """Whether anything bounds recoveries."""
        problem = self.search.problem
        return bool(np.isfinite(problem.recovery_bound).any()) or np.isfinite(
            problem.bounds.outage_s
        )

    def _from(self, alone: FloatArray, strict: BoolArray, *, upstream: bool) -> None:
        problem = self.search.problem
        floor = self.master.floor(self.size.spares)
        held_to = problem.recovery_bound.copy()
        load = problem.uncut_cpu
        for _ in range(STEPS):
            if self.solve.should_stop():
                return
            found = self.master.solve(
                self.size.spares, load, self.solve, held=self._held(floor, alone, strict, held_to)
            )
            if found.segments is None or self._too_dear(found.cpu_bound):
                return
            tried = self.search.offer(place(problem, found.segments, self.size, self.solve))
            if not tried.broken:
                return
            pace = tried.prediction.pace
            if problem.broken_pace(found.segments, pace):
                load = max(load, pace.cpu) * (1 + 1e-9)
            elif not self._tighten(tried, alone, strict, held_to, upstream=upstream):
                return

    def _too_dear(self, cpu: float) -> bool:
        best = self.search.best
        return best is not None and self.search.problem.cost(cpu, self.size) >= best.cost

    def _held(
        self, floor: FloatArray, alone: FloatArray, strict: BoolArray, held_to: FloatArray
    ) -> Held:
        """What each candidate is held to, by what is known of its operators."""
        looked = np.asarray((self._inside & strict).any(axis=1), bool)
        return Held(
            needs=np.where(looked[:, None, None], np.maximum(alone, floor), floor),
            bounds=np.where(self._inside, held_to, np.inf).min(axis=1),
        )

    def _tighten(
        self,
        tried: Evaluation,
        alone: FloatArray,
        strict: BoolArray,
        held_to: FloatArray,
        *,
        upstream: bool,
    ) -> bool:
        """Hold those to less that broke a bound; False: nobody did.

        They are held to less than they take in this plan, so that another one comes next. A segment
        recovers when what it is behind by has come and is worked off, so whatever it reads from,
        however far upstream, may be in the way: with `upstream` all that is held to the same bound,
        and the slowest of it to less than it takes.
        """
        problem, segments = self.search.problem, tried.choice.segments
        inputs, p95 = inputs_of(problem.topology, segments), tried.prediction.phases.p95
        broken = {
            i: problem.segment_bound(segment)
            for i, segment in enumerate(segments)
            if not within(float(p95[i]), problem.segment_bound(segment))
        }
        if not within(tried.prediction.results[1], problem.bounds.outage_s):
            slowest = int(np.argmax(p95))
            broken[slowest] = min(broken.get(slowest, np.inf), problem.bounds.outage_s)
        for i, bound in broken.items():
            above = _above(inputs, i) if upstream else set()
            for j in above:
                members = list(segments[j].operators)
                strict[members] = True
                held_to[members] = np.minimum(held_to[members], bound)
            worst = max(above, key=lambda j: float(p95[j]), default=i)
            for j in {i, worst}:
                members = list(segments[j].operators)
                if strict[members].all():
                    held_to[members] = min(held_to[members].min(), self._alone(segments[j], alone))
                    held_to[members] /= STEP
                strict[members] = True
        return bool(broken)

    def _alone(self, segment: SegmentPlan, alone: FloatArray) -> float:
        problem = self.search.problem
        level = int(np.argmin(np.abs(problem.levels - segment.interval_s)))
        count = problem.snapshots.index(segment.snapshot_batches)
        return float(alone[self._row[segment.operators], level, count])


def _above(inputs: list[list[int]], at: int) -> set[int]:
    """All segments upstream of one."""
    found: set[int] = set()
    stack = [at]
    while stack:
        more = set(inputs[stack.pop()]) - found
        found |= more
        stack += more
    return found
