"""The cheapest plan, proved: spares by enumeration, load by a least fixed point, the rest by MILP.

Every plan's promises depend on the load it causes itself. Let f(L) be the least CPU of any plan
that keeps the bounds when everything runs as at a load of L cores. More load never helps, so f does
not decrease, and a feasible plan of CPU c has f(L) <= c for every L <= c. Starting from the uncut
pipeline, L <- f(L) therefore climbs and never passes the cheapest feasible plan; the first plan on
the way that keeps the bounds at its own load is that plan. If f has no value, nor is there a plan.

Complexity: one MILP per step of the climb and number of spares; two or three steps are usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.planners.interface import Progress, Solve
from holdfast.planners.joint.columns import Segments
from holdfast.planners.joint.master import Master
from holdfast.planners.joint.problem import Choice, Evaluation, Problem, within
from holdfast.predict.segments import SegmentPlan, segments_of

MAX_STEPS = 200
"""Steps of the climb after which it is given up unproved; far more than were ever seen."""


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

    @property
    def optimal(self) -> bool:
        return self.proved and self.best is not None

    def offer(self, choice: Choice) -> Evaluation:
        """Evaluate a choice and keep it when it is the best."""
        found = self.problem.evaluate(choice)
        if found.broken:
            if self.closest is None or _miss(found) < _miss(self.closest):
                self.closest = found
        elif self.best is None or found.cost < self.best.cost:
            self.best = found
        return found


def _miss(found: Evaluation) -> tuple[int, float]:
    return len(found.broken), found.prediction.cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class _Climb:
    """How one climb ended."""

    bound: float
    proved: bool


@dataclass(slots=True, eq=False)
class ExactSearch:
    """The climb over one set of candidate segments."""

    search: Search
    segments: Segments
    solve: Solve
    _master: Master = field(init=False)

    def __post_init__(self) -> None:
        self._master = Master(self.search.problem, self.segments)

    def run(self, spare_options: Iterable[int] | None = None) -> Search:
        """The cheapest plan over all numbers of spares, or over those given."""
        search, problem = self.search, self.search.problem
        bounds: list[float] = []
        proved = True
        for spares in problem.spare_options if spare_options is None else spare_options:
            least = problem.cost(problem.uncut_cpu, spares)
            if search.best is not None and least >= search.best.cost:
                bounds.append(least)
                continue
            climb = self._climb(spares)
            bounds.append(climb.bound)
            proved = proved and climb.proved
        search.bound = min(bounds)
        search.proved = proved
        search.stopped = search.stopped or not proved
        return search

    def _climb(self, spares: int) -> _Climb:
        search, problem = self.search, self.search.problem
        load = low = problem.uncut_cpu
        for _ in range(MAX_STEPS):
            if self.solve.should_stop():
                break
            found = self._master.solve(spares, load, self.solve)
            low = max(low, found.cpu_bound)
            if found.choice is None:
                if not found.proved:
                    break
                return _Climb(bound=math.inf, proved=True)
            tried = search.offer(found.choice)
            if not found.proved:
                break
            if not within(found.cpu_bound, problem.cpu_limit):
                return _Climb(bound=math.inf, proved=True)
            if not tried.broken:
                self._report(low, spares)
                return _Climb(bound=tried.cost, proved=True)
            if search.best is not None and problem.cost(low, spares) >= search.best.cost:
                return _Climb(bound=problem.cost(low, spares), proved=True)
            if tried.prediction.cpu <= load:
                # The load did not rise, so only rounding can tell the two verdicts apart.
                load += 1e-9 * max(1.0, load)
            load = max(load, tried.prediction.cpu)
        return _Climb(bound=problem.cost(low, spares), proved=False)

    def _report(self, low: float, spares: int) -> None:
        best = self.search.best
        self.solve.report(
            Progress(
                message=f"{spares} spares",
                objective=None if best is None else best.cost,
                bound=self.search.problem.cost(low, spares),
            )
        )


def uniform_choices(problem: Problem) -> Iterable[Choice]:
    """The plans people make by hand: cut nowhere or everywhere, one interval for all."""
    for ends in (set(problem.fixed), set(problem.fixed) | set(problem.free)):
        parts = segments_of(problem.topology, ends)
        for interval in problem.levels:
            for snapshots in (problem.snapshots[-1], problem.snapshots[0]):
                for spares in (0, problem.spare_options[-1]):
                    yield Choice(
                        segments=tuple(
                            SegmentPlan(
                                operators=part,
                                interval_s=float(interval),
                                snapshot_batches=snapshots,
                            )
                            for part in parts
                        ),
                        spares=spares,
                    )


def first_search(problem: Problem) -> Search:
    """A search that knows the plans people make by hand, so that there is soon something."""
    search = Search(problem)
    for choice in uniform_choices(problem):
        search.offer(choice)
    return search
