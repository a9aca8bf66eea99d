"""Large topologies: some segments instead of all, and a bound from a relaxation.

The plan is made of candidate segments: those that a relaxation chooses at several margins, a spread
of others, and in further rounds the neighbourhood of the best plan so far. It is found by repair
(`repair`) and made cheaper move by move (`polish`), so it may miss the optimum; how far it can be
from it is told by the relaxation's bound.
"""

from __future__ import annotations

import math

from holdfast.planners.interface import Solve
from holdfast.planners.joint.candidates import MARGINS, candidates, neighbours
from holdfast.planners.joint.columns import segments_from
from holdfast.planners.joint.master import Master
from holdfast.planners.joint.polish import Polish
from holdfast.planners.joint.problem import SLACK, Problem
from holdfast.planners.joint.relaxed import BUCKETS_BOUND, BUCKETS_TRIAL, lower_bound
from holdfast.planners.joint.repair import Repair
from holdfast.planners.joint.search import Search

ROUNDS = 2
"""How often the candidates are solved over, at most."""


def solve_large(
    problem: Problem, search: Search, solve: Solve, *, feasibility: bool = False
) -> Search:
    """A good plan with a proved bound on its cost.

    With `feasibility` it matters only whether there is one: the largest size, fewer candidates.
    """
    sizes = (problem.largest,) if feasibility else problem.sizes
    floor = lower_bound(problem, buckets=BUCKETS_TRIAL if feasibility else BUCKETS_BOUND)
    if math.isfinite(floor):
        known = candidates(problem, MARGINS[1::3] if feasibility else MARGINS)
        for _ in range(1 if feasibility else ROUNDS):
            before = search.best.cost if search.best else math.inf
            master = Master(problem, segments_from(problem, known))
            for size in sizes:
                Repair(search=search, master=master, size=size, solve=solve).run()
            if not feasibility:
                Polish(search=search, solve=solve).run()
            if search.best is None or solve.should_stop() or search.best.cost >= before - SLACK:
                break
            known |= neighbours(problem, search)
    search.proved = bool(floor >= (search.best.cost - SLACK if search.best else math.inf))
    search.stopped = solve.should_stop()
    search.bound = floor
    return search
