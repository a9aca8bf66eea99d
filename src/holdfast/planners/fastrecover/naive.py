"""`onesegment` and `nsegments`: the two baselines, with their best frequencies in closed form.

`onesegment` saves only what the sources receive (a mini-batch engine); `nsegments` saves every
operator's input (acknowledging engines). The second is infeasible exactly when saving alone
exceeds the bound; infeasibility that grows with the number of operators at a given overhead is an
artefact of a grid.
"""

from __future__ import annotations

from holdfast.planners.fastrecover.problem import Outcome, Problem
from holdfast.planners.interface import Solve


def one_segment(problem: Problem, _solve: Solve) -> Outcome:
    """Anchors only where there must be."""
    return Outcome(solution=problem.solve(problem.fewest()))


def n_segments(problem: Problem, _solve: Solve) -> Outcome:
    """Anchors wherever there may be."""
    return Outcome(solution=problem.solve(problem.most()))
