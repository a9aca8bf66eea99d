"""`exact`: branch and cut on what the reductions leave, part by part.

FTC is NP-hard on DAGs (T = 1 and R = 2 is vertex cover), but real topologies are mostly solved by
`reduce`; the rest falls into parts for the implicit hitting set of `master` and `branch`. `search`
is shared with `auto`, which limits the effort: parts that are not finished are improved by
neighbourhood search and keep the bound of their relaxation.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.planners.ftc.branch import branch_and_cut
from holdfast.planners.ftc.chains import quick_bound
from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.heuristics import quick_plan
from holdfast.planners.ftc.master import EPSILON, Master
from holdfast.planners.ftc.neighbourhood import improve
from holdfast.planners.ftc.problem import FtcProblem
from holdfast.planners.ftc.reduce import core_of, reduce_core
from holdfast.planners.ftc.relax import relax
from holdfast.planners.ftc.result import Answer
from holdfast.planners.interface import Solve


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to try, in counted work; a time limit may end it sooner."""

    branch_size: int | None = None
    """Parts up to this many tasks are branched on; None: all."""
    nodes: int | None = None
    """Search nodes per part."""
    few_nodes: int = 20
    """Search nodes of a larger part, where they are dear and raise the bound little."""
    relax_size: int | None = None
    """Parts up to this many tasks get a relaxation and neighbourhood search."""
    relax_rounds: int = 400
    steps: int = 150
    """Neighbourhoods searched per part that was not finished."""


PATIENT = Effort()
"""Until it is proved, or time is up."""
QUICK = Effort(branch_size=600, nodes=400, relax_size=12_000, relax_rounds=120)


_MANY = 100_000
"""Rounds and neighbourhoods when there is a time limit: as many as fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    plan: bytearray
    bound: float
    complete: bool


def exact(problem: FtcProblem, solve: Solve) -> Answer:
    """The optimum with its proof; the best so far with a bound if stopped."""
    return search(problem, solve, PATIENT)


def search(problem: FtcProblem, solve: Solve, effort: Effort) -> Answer:
    """Reduce, split, and solve every part as far as the effort goes."""
    reduction = reduce_core(core_of(problem))
    given = {v for v in range(problem.graph.tasks) if problem.required[v]}
    backups = given | set(reduction.forced)
    bound = _cost(problem, backups)
    complete = True
    # Small parts first: they are certain, and what time is left goes to the large ones.
    parts = sorted(reduction.cores, key=lambda part: part.size)
    for i, part in enumerate(parts):
        solved = _solve_part(part, solve, effort, left=len(parts) - i)
        complete &= solved.complete
        bound += solved.bound
        for v, chosen in enumerate(solved.plan):
            if chosen:
                backups.update(part.members[v])
    note = ""
    if not complete:
        note = "stopped early: the plan may not be optimal" if solve.should_stop() else ""
    return Answer(backups=frozenset(backups), bound=bound, optimal=complete, note=note)


def _cost(problem: FtcProblem, tasks: set[int]) -> float:
    backed = bytearray(problem.graph.nodes)
    for task in tasks:
        backed[task] = 1
    return problem.cost_of(backed)


def _solve_part(part: Core, solve: Solve, effort: Effort, *, left: int) -> _Part:
    quick = quick_plan(part)
    bound = quick_bound(part)
    value = part.cost(quick)
    if value <= bound + EPSILON:
        return _Part(plan=quick, bound=value, complete=True)
    if solve.should_stop() or (effort.relax_size is not None and part.size > effort.relax_size):
        return _Part(plan=quick, bound=bound, complete=False)
    small = effort.branch_size is None or part.size <= effort.branch_size
    seconds = solve.seconds_left()
    slot = None if seconds is None else seconds / left
    # Of the slot of a large part, two thirds go to its bound, the rest to its plan; what either
    # leaves is spent on branching.
    master = Master(part, solve)
    start = relax(
        master,
        quick,
        solve,
        rounds=effort.relax_rounds if slot is None else _MANY,
        patient=small or slot is not None,
        seconds=None if slot is None else (0.3 if small else 0.68) * slot,
    )
    bound = master.round_up(max(start.bound, bound))
    plan = start.plan
    if not small:
        plan = improve(
            part,
            plan,
            solve,
            target=bound,
            steps=effort.steps if slot is None else _MANY,
            seconds=None if slot is None else 0.99 * slot - _used(solve, seconds),
        )
    found = branch_and_cut(master, plan, solve, nodes=effort.nodes if small else effort.few_nodes)
    plan = found.plan
    if small and not found.complete and not solve.should_stop():
        plan = improve(part, plan, solve, target=found.bound, steps=effort.steps // 3)
    value = part.cost(plan)
    bound = value if found.complete else min(value, master.round_up(max(bound, found.bound)))
    return _Part(plan=plan, bound=bound, complete=found.complete or value <= bound + EPSILON)


def _used(solve: Solve, begin: float | None) -> float:
    left = solve.seconds_left()
    return 0.0 if begin is None or left is None else begin - left
