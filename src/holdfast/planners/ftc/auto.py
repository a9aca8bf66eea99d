"""`auto`: the right algorithm for the shape, a proof where one can be had.

In-trees (lines among them) and out-trees take a pass or a small dynamic program, and so do chains
of Full links; anything up to some ten thousand tasks is reduced, relaxed and searched; beyond that
a handful of linear passes, which still come with a bound from disjoint chains.
"""

from __future__ import annotations

from holdfast.planners.ftc.chains import fast_bound
from holdfast.planners.ftc.core import Core, late, prune_backward
from holdfast.planners.ftc.exact import QUICK, search
from holdfast.planners.ftc.forest import solve_in_forest, solve_out_forest
from holdfast.planners.ftc.full_chain import full_chain
from holdfast.planners.ftc.problem import FtcProblem
from holdfast.planners.ftc.reduce import core_of
from holdfast.planners.ftc.result import Answer
from holdfast.planners.ftc.shapes import is_full_chain, is_out_forest, is_tree
from holdfast.planners.interface import Solve

LARGE = 20_000
"""Nodes and links from which on only linear passes are made."""


def auto(problem: FtcProblem, solve: Solve) -> Answer:
    """The best plan for the effort, proved optimal where possible."""
    core = core_of(problem)
    if is_tree(core):
        return answer(problem, core, solve_in_forest(core), optimal=True)
    if is_out_forest(core):
        return answer(problem, core, solve_out_forest(core), optimal=True)
    if is_full_chain(problem.graph.topology):
        found = full_chain(problem, solve)
        if found is not None:
            return found
    if core.size + core.links > LARGE:
        plan = prune_backward(core, late(core))
        bound = fast_bound(core) + _required_cost(problem)
        return answer(problem, core, plan, bound=bound)
    return search(problem, solve, QUICK)


def answer(
    problem: FtcProblem,
    core: Core,
    backed: bytearray,
    *,
    optimal: bool = False,
    bound: float | None = None,
    note: str = "",
) -> Answer:
    """An answer from flags over a core made by `core_of`."""
    backups = {v for v in range(problem.graph.tasks) if problem.required[v]}
    for v, chosen in enumerate(backed):
        if chosen:
            backups.update(core.members[v])
    return Answer(backups=frozenset(backups), bound=bound, optimal=optimal, note=note)


def _required_cost(problem: FtcProblem) -> float:
    tasks = range(problem.graph.tasks)
    return sum(problem.costs[v] for v in tasks if problem.required[v])
