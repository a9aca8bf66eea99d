"""The cheapest plan, proved: sizes by enumeration, load by a least fixed point, the rest by MILP.

Every plan's promises depend on the load it causes itself. Let f(L) be the least CPU of any plan
that keeps the bounds when everything runs as at a load of L cores. More load never helps, so f does
not decrease, and a feasible plan of CPU c has f(L) <= c for every L <= c. Starting from the uncut
pipeline, L <- f(L) therefore climbs and never passes the cheapest feasible plan; the first plan on
the way that keeps the bounds at its own load is that plan. If f has no value, nor is there a plan.

The program knows recoveries by their floors only. So a plan that it finds is placed on the nodes
and its losses are worked out; one that breaks a bound however it is placed is barred, and the next
cheapest comes. After `MAX_BARRED` of them nothing is proved any more beyond the floors, and a plan
is found by repair.

Complexity: one list (`listing`) or MILP per step of the climb, barred plan and size; two or three
steps are usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.planners.interface import Progress, Solve
from holdfast.planners.joint.candidates import candidates
from holdfast.planners.joint.columns import Segments, segments_from
from holdfast.planners.joint.master import Master, Solved
from holdfast.planners.joint.placing import LISTED, place
from holdfast.planners.joint.problem import Size, within
from holdfast.planners.joint.repair import Repair
from holdfast.planners.joint.search import Search
from holdfast.planners.joint.sizes import narrow

MAX_STEPS = 200
"""Steps of the climb after which it is given up unproved; far more than were ever seen."""
MAX_BARRED = 24
"""Plans of one size that are barred before the proof is given up."""
FEW_BARRED = 4
"""The same where a proof is not to be had or not asked for, or where the program is needed."""
FEW_SEGMENTS = 1_000
"""Candidates that repair bears, one program a step."""


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
    most_programs: int = FEW_BARRED
    """How many where the program is needed, which takes ever longer with each."""
    solved: Solved = field(default_factory=Solved)
    """What other searches found out over these candidates."""
    _master: Master = field(init=False)
    _few: Master | None = field(default=None, init=False)
    """Over as many candidates as repair bears."""

    def __post_init__(self) -> None:
        self._master = Master(self.search.problem, self.segments, self.solved)

    def run(self, sizes: Iterable[Size] | None = None) -> Search:
        """The cheapest plan over all sizes, or over those given."""
        search = self.search
        wanted = list(search.problem.sizes if sizes is None else sizes)
        climbs: dict[Size, _Climb] = {}

        def better(size: Size) -> bool:
            before = search.best
            if size not in climbs:
                climbs[size] = self._look(size)
            return search.best is not before

        for looked, size in enumerate(wanted, 1):
            better(size)
            if search.best is None and not climbs[size].proved and wanted[looked:]:
                narrow(wanted[looked:], better)
                break
        for size in wanted:
            if size not in climbs:
                climbs[size] = _Climb(bound=self._least(size), proved=False)
        search.bound = min(climb.bound for climb in climbs.values())
        search.proved = all(climb.proved for climb in climbs.values())
        search.stopped = search.stopped or (not search.proved and self.solve.should_stop())
        return search

    def _look(self, size: Size) -> _Climb:
        problem, best = self.search.problem, self.search.best
        least = problem.cost(problem.uncut_cpu, size)
        if best is not None and least >= best.cost:
            return _Climb(bound=least, proved=True)
        return self._climb(size)

    def _least(self, size: Size) -> float:
        """Cost that no plan of a size is below that nobody looks at."""
        problem = self.search.problem
        self._master.unbar()
        found = self._master.solve(size.spares, problem.uncut_cpu, self.solve)
        return problem.cost(max(problem.uncut_cpu, found.cpu_bound), size)

    def _climb(self, size: Size) -> _Climb:
        search, problem = self.search, self.search.problem
        load = low = sure = problem.uncut_cpu
        self._master.unbar()
        sound = True

        def ended(bound: float) -> _Climb:
            # What was barred by a placement that may not be the best one proves nothing after it.
            return _Climb(bound=bound if sound else problem.cost(sure, size), proved=sound)

        for _ in range(MAX_STEPS):
            if self.solve.should_stop():
                break
            found = self._master.solve(size.spares, load, self.solve)
            low = max(low, found.cpu_bound)
            sure = low if sound else sure
            if found.segments is None:
                if not found.proved:
                    break
                return ended(math.inf)
            if not within(found.cpu_bound, problem.cpu_limit):
                return ended(math.inf)
            if search.best is not None and problem.cost(low, size) >= search.best.cost:
                return ended(problem.cost(low, size))
            tried = search.keeps(place(problem, found.segments, size, self.solve))
            if not found.proved:
                break
            if tried is not None:
                self._report(low, size)
                return ended(tried.cost)
            pace = problem.known(found.segments, size.spares).pace
            if not problem.broken_pace(found.segments, pace):
                most = self.most_barred if found.listed else self.most_programs
                if len(self._master.barred) >= most:
                    self._repair(size)
                    break
                sound = sound and (size.nodes == 1 or len(found.segments) <= LISTED)
                self._master.bar(found.segments)
                continue
            if pace.cpu <= load:
                # The load did not rise, so only rounding can tell the two verdicts apart.
                load += 1e-9 * max(1.0, load)
            load = max(load, pace.cpu)
        return _Climb(bound=problem.cost(sure, size), proved=False)

    def _repair(self, size: Size) -> None:
        """Some plan of this size, near the floors."""
        self._master.unbar()
        if self._few is None:
            self._few = self._master
            if len(self.segments) > FEW_SEGMENTS:
                problem = self.search.problem
                self._few = Master(problem, segments_from(problem, candidates(problem)))
        Repair(search=self.search, master=self._few, size=size, solve=self.solve).run()

    def _report(self, low: float, size: Size) -> None:
        best = self.search.best
        self.solve.report(
            Progress(
                message=f"{size.nodes} nodes, {size.spares} spares",
                objective=None if best is None else best.cost,
                bound=self.search.problem.cost(low, size),
            )
        )
