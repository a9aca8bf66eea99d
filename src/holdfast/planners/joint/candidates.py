"""Segments worth trying where all of them are too many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from holdfast.planners.joint.columns import some_segments
from holdfast.planners.joint.problem import Problem
from holdfast.planners.joint.relaxed import relaxation
from holdfast.planners.joint.search import Search

WIDTH = 6
"""Segments of the spread per root."""
MARGINS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.6)
"""How much larger than they are the relaxation takes all needs."""


def candidates(problem: Problem, margins: Sequence[float] = MARGINS) -> set[tuple[int, ...]]:
    """Segments worth trying, every operator's own among them."""
    known = set(some_segments(problem, WIDTH).operators)
    for margin, keep_up in product(margins, (True, False)):
        tree = relaxation(problem, problem.most_spares, margin=margin, keep_up=keep_up)
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
