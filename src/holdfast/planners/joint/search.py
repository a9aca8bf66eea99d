"""What is known so far of one problem, and the plans that every search begins with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from holdfast.planners.interface import Solve
from holdfast.planners.joint.placing import place
from holdfast.planners.joint.problem import Choice, Evaluation, Problem, Size
from holdfast.predict.segments import SegmentPlan, segments_of

KEPT_SOUND = 6
"""Plans that keep the bounds and are remembered."""
KEPT_MISSED = 48
"""Plans that break bounds and are remembered."""
FIRST_TRIES = 6
"""Plans made by hand that are worked out before the search."""


@dataclass(slots=True, eq=False)
class Search:
    """What is known so far of one problem."""

    problem: Problem
    best: Evaluation | None = None
    bound: float = -math.inf
    """Cost that no plan is below; infinite: there is no plan."""
    proved: bool = False
    stopped: bool = False
    closest: Evaluation | None = None
    """Of those that break bounds, the one that breaks fewest: it tells what is in the way."""
    rejected: Choice | None = None
    """The first one of which it was soon seen that it breaks a bound."""
    missed: list[Evaluation] = field(default_factory=list)
    """Plans that break bounds, the latest ones: other bounds they may keep."""
    sound: list[Evaluation] = field(default_factory=list)
    """Plans that keep the bounds, the latest ones: each may lead to a better one."""

    @property
    def optimal(self) -> bool:
        return self.proved and self.best is not None

    def offer(self, choice: Choice) -> Evaluation:
        """Evaluate a choice and keep it when it is the best."""
        found = self.problem.evaluate(choice)
        if found.broken:
            if self.closest is None or _miss(found) < _miss(self.closest):
                self.closest = found
            self.missed = [*self.missed[1 - KEPT_MISSED :], found]
            return found
        self.sound = [*self.sound[1 - KEPT_SOUND :], found]
        if self.best is None or found.cost < self.best.cost:
            self.best = found
        return found

    def keeps(self, choice: Choice) -> Evaluation | None:
        """The same for a choice of which, if it breaks a bound, nothing else is to be known."""
        if self.problem.surely_broken(choice):
            self.rejected = self.rejected or choice
            return None
        found = self.offer(choice)
        return None if found.broken else found

    def in_the_way(self) -> tuple[str, ...]:
        """Which bounds the plan breaks that comes closest to keeping all, in words."""
        if self.closest is None and self.rejected is not None:
            self.closest = self.problem.evaluate(self.rejected)
        return () if self.closest is None else self.closest.broken


def _miss(found: Evaluation) -> tuple[int, float]:
    return len(found.broken), found.prediction.pace.cpu


def uniform_plans(problem: Problem) -> Iterator[tuple[tuple[SegmentPlan, ...], Size]]:
    """The plans people make by hand: cut nowhere or everywhere, one interval for all."""
    for ends in (set(problem.fixed), set(problem.fixed) | set(problem.free)):
        parts = segments_of(problem.topology, ends)
        for interval, snapshots in product(
            problem.levels.tolist(), (problem.snapshots[-1], problem.snapshots[0])
        ):
            segments = tuple(
                SegmentPlan(operators=part, interval_s=interval, snapshot_batches=snapshots)
                for part in parts
            )
            for spares in (0, problem.most_spares):
                yield segments, Size(nodes=problem.nodes or 1, spares=spares)


def first_search(problem: Problem) -> Search:
    """A search that knows the plans people make by hand, so that there is soon something."""
    search = Search(problem)
    plans = [(segments, problem.pace(segments), size) for segments, size in uniform_plans(problem)]
    sound = [plan for plan in plans if not problem.broken_pace(plan[0], plan[1])]
    by_cost = sorted(sound or plans[:1], key=lambda plan: problem.cost(plan[1].cpu, plan[2]))
    for segments, _, size in by_cost[:FIRST_TRIES]:
        if search.keeps(place(problem, segments, size, Solve())) is not None:
            break
    return search
