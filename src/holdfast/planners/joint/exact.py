"""The cheapest plan, proved: sizes by enumeration, load by a least fixed point, the rest by MILP.

Every plan's promises depend on the load it causes itself. Let f(L) be the least CPU of any plan
that keeps the bounds when everything runs as at a load of L cores. More load never helps, so f does
not decrease, and a feasible plan of CPU c has f(L) <= c for every L <= c. Starting from the uncut
pipeline, L <- f(L) therefore climbs and never passes the cheapest feasible plan; the first plan on
the way that keeps the bounds at its own load is that plan. If f has no value, nor is there a plan.

The program knows recoveries by their floors only. So a plan that it finds is placed on the nodes
and its losses are worked out; one that breaks a bound however it is placed is barred, and the next
cheapest comes. After `MAX_BARRED` of them nothing is proved any more: floors are taken larger and
larger until a plan is found.

Complexity: one MILP per step of the climb, barred plan and size; two or three steps are usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

from holdfast.planners.interface import Progress, Solve
from holdfast.planners.joint.columns import Segments
from holdfast.planners.joint.master import Master
from holdfast.planners.joint.placing import LISTED, place
from holdfast.planners.joint.problem import Choice, Evaluation, Problem, Size, within
from holdfast.predict.segments import SegmentPlan, segments_of

MAX_STEPS = 200
"""Steps of the climb after which it is given up unproved; far more than were ever seen."""
MAX_BARRED = 24
"""Plans of one size that are barred before the proof is given up."""
FEW_BARRED = 4
"""The same where a proof is not to be had, or not asked for."""
MARGINS = (1.1, 1.25, 1.5, 1.8, 2.2, 2.8, 3.6, 5.0)
"""How much larger than they are floors are taken then."""


FIRST_TRIES = 6
"""Plans made by hand that are worked out before the search."""
_STEPS_EACH = 4
"""Steps of the climb at one margin."""


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
    return len(found.broken), found.prediction.pace.cpu


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
    most_barred: int = MAX_BARRED
    _master: Master = field(init=False)

    def __post_init__(self) -> None:
        self._master = Master(self.search.problem, self.segments)

    def run(self, sizes: Iterable[Size] | None = None) -> Search:
        """The cheapest plan over all sizes, or over those given."""
        search, problem = self.search, self.search.problem
        bounds: list[float] = []
        proved = True
        for size in problem.sizes if sizes is None else sizes:
            least = problem.cost(problem.uncut_cpu, size)
            if search.best is not None and least >= search.best.cost:
                bounds.append(least)
                continue
            climb = self._climb(size)
            bounds.append(climb.bound)
            proved = proved and climb.proved
        search.bound = min(bounds)
        search.proved = proved
        search.stopped = search.stopped or (not proved and self.solve.should_stop())
        return search

    def _climb(self, size: Size) -> _Climb:
        search, problem = self.search, self.search.problem
        load = low = problem.uncut_cpu
        self._master.barred.clear()
        sound = True
        for _ in range(MAX_STEPS):
            if self.solve.should_stop():
                break
            found = self._master.solve(size.spares, load, self.solve)
            low = max(low, found.cpu_bound)
            if found.segments is None:
                if not found.proved:
                    break
                return _Climb(bound=math.inf if sound else low, proved=sound)
            if not within(found.cpu_bound, problem.cpu_limit):
                return _Climb(bound=math.inf, proved=sound)
            if search.best is not None and problem.cost(low, size) >= search.best.cost:
                return _Climb(bound=problem.cost(low, size), proved=sound)
            tried = search.offer(place(problem, found.segments, size, self.solve))
            if not found.proved:
                break
            if not tried.broken:
                self._report(low, size)
                return _Climb(bound=tried.cost, proved=sound)
            pace = tried.prediction.pace
            if not problem.broken_pace(found.segments, pace):
                if len(self._master.barred) >= self.most_barred:
                    self._with_margins(size, load)
                    break
                sound = sound and (size.nodes == 1 or len(found.segments) <= LISTED)
                self._master.barred.add(frozenset(found.segments))
                continue
            if pace.cpu <= load:
                # The load did not rise, so only rounding can tell the two verdicts apart.
                load += 1e-9 * max(1.0, load)
            load = max(load, pace.cpu)
        return _Climb(bound=problem.cost(low, size), proved=False)

    def _with_margins(self, size: Size, load: float) -> None:
        """Some plan of this size, by asking for more than floors."""
        problem = self.search.problem
        self._master.barred.clear()
        for margin in MARGINS:
            at = load
            for _ in range(_STEPS_EACH):
                if self.solve.should_stop():
                    return
                found = self._master.solve(size.spares, at, self.solve, margin=margin)
                if found.segments is None:
                    return
                tried = self.search.offer(place(problem, found.segments, size, self.solve))
                if not tried.broken:
                    return
                pace = tried.prediction.pace
                if not problem.broken_pace(found.segments, pace):
                    break
                at = max(at, pace.cpu) * (1 + 1e-9)

    def _report(self, low: float, size: Size) -> None:
        best = self.search.best
        self.solve.report(
            Progress(
                message=f"{size.nodes} nodes, {size.spares} spares",
                objective=None if best is None else best.cost,
                bound=self.search.problem.cost(low, size),
            )
        )


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
        if not search.offer(place(problem, segments, size, Solve())).broken:
            break
    return search
