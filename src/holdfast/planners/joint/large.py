"""Large topologies: some segments instead of all, and a bound from a relaxation.

The plan is the best one made of candidate segments: those that a relaxation chooses at several
margins, a spread of others, and in further rounds the neighbourhood of the best plan so far. It may
miss the optimum; how far it can be from it is told by the relaxation's bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.planners.interface import Solve
from holdfast.planners.joint.columns import segments_from, some_segments
from holdfast.planners.joint.exact import FEW_BARRED, ExactSearch, Search
from holdfast.planners.joint.problem import SLACK, Problem
from holdfast.planners.joint.relaxed import BUCKETS_BOUND, BUCKETS_TRIAL, lower_bound, relaxation

WIDTH = 6
"""Segments of the spread per root."""
MARGINS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.6)
"""How much larger than they are the relaxation takes all needs."""
ROUNDS = 4
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
            ExactSearch(search, segments_from(problem, known), solve, FEW_BARRED).run(sizes)
            if search.best is None or solve.should_stop() or search.best.cost >= before - SLACK:
                break
            known |= neighbours(problem, search)
    search.proved = bool(floor >= (search.best.cost - SLACK if search.best else math.inf))
    search.stopped = solve.should_stop()
    search.bound = floor
    return search


def candidates(problem: Problem, margins: Sequence[float]) -> set[tuple[int, ...]]:
    """Segments worth trying, every operator's own among them."""
    known = set(some_segments(problem, WIDTH).operators)
    for margin in margins:
        tree = relaxation(problem, problem.most_spares, margin=margin)
        if tree is not None and math.isfinite(tree.solve()):
            known |= tree.segments()
    return known


def neighbours(problem: Problem, search: Search) -> set[tuple[int, ...]]:
    """Segments one move away from those of the best plan: one operator more, split or fused."""
    if search.best is None:
        return set()
    topology = problem.topology
    rank = {v: position for position, v in enumerate(topology.order)}
    parts = [segment.operators for segment in search.best.choice.segments]
    ends = {part[-1]: part for part in parts}
    found: set[tuple[int, ...]] = set()

    def keep(members: set[int]) -> None:
        found.add(tuple(sorted(members, key=rank.__getitem__)))

    for part in parts:
        inside = set(part)
        reads = {u for v in part for u in topology.upstream[v]} - inside
        for u in reads - problem.fixed.keys():
            keep(inside | set(ends[u]))
            if not problem.forbidden & set(topology.upstream[u]):
                keep(inside | {u})
        for v in inside - {part[-1]} - problem.forbidden:
            above = _above(problem, v, inside)
            keep(inside - above)
            keep(above)
    return found


def _above(problem: Problem, v: int, inside: set[int]) -> set[int]:
    """The part of a segment that ends in v."""
    found, stack = {v}, [v]
    while stack:
        more = [u for u in problem.topology.upstream[stack.pop()] if u in inside]
        found.update(more)
        stack += more
    return found
