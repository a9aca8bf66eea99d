"""The default: prove the optimum where that is quick, else plan structure-aware.

Up to `EXACT_TASKS` useful tasks the exact sweep runs with few enough states to end within about a
second; what it cannot prove then still carries a bound. Larger topologies get `sa`, with the
operator-level bound where that is cheap.
"""

from __future__ import annotations

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.exact import exact
from holdfast.planners.ppa.problem import Choice, Problem
from holdfast.planners.ppa.relaxation import upper_bound
from holdfast.planners.ppa.sa import sa

EXACT_TASKS = 120
STATES = 1_500
BOUND_TASKS = 300


def auto(problem: Problem, solve: Solve) -> Choice:
    """The best plan to be had without waiting."""
    open_tasks = int(problem.open.sum())
    if open_tasks <= EXACT_TASKS:
        found = exact(problem, solve, states=STATES)
        if found.optimal or solve.should_stop():
            return found
        return Choice(chosen=found.chosen, bound=found.bound)
    found = sa(problem, solve)
    if open_tasks > BOUND_TASKS or solve.should_stop():
        return found
    value, bound = problem.model.fidelity(found.chosen), upper_bound(problem)
    is_proved = value >= bound * (1 - 1e-11)
    return Choice(
        chosen=found.chosen, bound=value if is_proved else bound, optimal=is_proved, note=found.note
    )
