"""A small door to HiGHS: minimise c.x over a mixed-integer linear model, interruptibly.

Planners state their model with sparse arrays and get back the best point with a proved bound.
The solver looks at `Solve.should_stop` while it works, so that a time limit or Ctrl-C ends it with
the best point so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from holdfast.planners.interface import Progress, Solve

FloatArray = NDArray[np.float64]
WHOLE = 1e-6
"""A value so near to a whole number is one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """minimise cost.x, row_lower <= A x <= row_upper, lower <= x <= upper."""

    cost: FloatArray
    matrix: csr_matrix
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    integer: NDArray[np.bool_]
    """Which variables are whole numbers; all False makes it a linear program."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """What the solver reached."""

    x: FloatArray | None
    """Best feasible point, or None."""
    objective: float | None
    bound: float | None
    """Proved lower bound on the objective, or None."""
    optimal: bool
    infeasible: bool
    row_dual: FloatArray | None = None
    """Dual values of a linear program."""


def minimise(
    model: Model,
    solve: Solve,
    *,
    start: FloatArray | None = None,
    gap: float = 1e-9,
    seconds: float | None = None,
) -> Solution:
    """Solve; `start` is a feasible point to begin from, `gap` the relative gap that will do."""
    highs: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("mip_rel_gap", gap)
    highs.setOptionValue("mip_abs_gap", 1e-9)
    limit = _least(seconds, solve.seconds_left())
    if limit is not None:
        highs.setOptionValue("time_limit", max(limit, 0.01))
    _pass(highs, model)
    if start is not None:
        point = highspy.HighsSolution()
        point.col_value = list(start)
        highs.setSolution(point)
    _watch(highs, solve)
    highs.run()
    return _read(highs, model)


def minimise_relaxed(model: Model, solve: Solve) -> Solution | None:
    """The same where the linear relaxation tells: it is infeasible, or has a whole solution.

    None: it does not. It takes a tenth of what presolve and heuristics for whole numbers take.
    """
    found = minimise(replace(model, integer=np.zeros(len(model.cost), np.bool_)), solve)
    if found.infeasible:
        return found
    if not found.optimal or found.x is None:
        return None
    whole = np.round(found.x)
    if np.abs(found.x - whole)[model.integer].max(initial=0.0) > WHOLE:
        return None
    return replace(found, x=np.where(model.integer, whole, found.x), row_dual=None)


def _least(*limits: float | None) -> float | None:
    given = [limit for limit in limits if limit is not None]
    return min(given) if given else None


def _pass(highs: highspy.Highs, model: Model) -> None:
    lp = highspy.HighsLp()
    lp.num_col_ = len(model.cost)
    lp.num_row_ = len(model.row_lower)
    lp.col_cost_ = model.cost
    lp.col_lower_ = model.lower
    lp.col_upper_ = model.upper
    lp.row_lower_ = model.row_lower
    lp.row_upper_ = model.row_upper
    matrix = csr_matrix(model.matrix)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in model.integer]
    highs.passModel(lp)


def _watch(highs: highspy.Highs, solve: Solve) -> None:
    kinds = highspy.cb.HighsCallbackType

    def look(kind: object, _text: str, out: object, into: object, _data: object) -> None:
        if kind == kinds.kCallbackMipImprovingSolution:
            solve.report(
                Progress(
                    message="better plan",
                    objective=out.objective_function_value,  # type: ignore[attr-defined]
                    bound=out.mip_dual_bound,  # type: ignore[attr-defined]
                )
            )
        elif solve.should_stop():
            into.user_interrupt = True  # type: ignore[attr-defined]

    callback: Callable[..., None] = look
    highs.setCallback(callback, None)
    for kind in (
        kinds.kCallbackMipInterrupt,
        kinds.kCallbackSimplexInterrupt,
        kinds.kCallbackIpmInterrupt,
        kinds.kCallbackMipImprovingSolution,
    ):
        highs.startCallback(kind)


def _read(highs: highspy.Highs, model: Model) -> Solution:
    status = highs.getModelStatus()
    info = highs.getInfo()
    is_milp = bool(model.integer.any())
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    solution = highs.getSolution()
    x = np.asarray(solution.col_value) if feasible else None
    optimal = status == highspy.HighsModelStatus.kOptimal
    objective = float(info.objective_function_value) if feasible else None
    bound = float(info.mip_dual_bound) if is_milp else (objective if optimal else None)
    if bound is not None and not np.isfinite(bound):
        bound = None
    return Solution(
        x=x,
        objective=objective,
        bound=bound,
        optimal=optimal,
        infeasible=status == highspy.HighsModelStatus.kInfeasible,
        row_dual=None if is_milp or not feasible else np.asarray(solution.row_dual),
    )
