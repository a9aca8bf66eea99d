"""The master problem of the implicit hitting set: cheapest nodes that hit all windows known so far.

It holds one HiGHS model that only grows: a column per node that may be a backup, a row per window
found. Every solve, linear or whole, full or with most columns fixed, leaves its windows behind for
the next, and the value of each full solve is a proved lower bound, because a plan has to hit every
window, known or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from holdfast.plan.ftc.core import Core
from holdfast.plan.ftc.windows import Window
from holdfast.plan.protocol import Solve

_EPSILON = 1e-6
"""Solver values closer than this are the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What one solve of the master gave."""

    weight: list[float] | None
    """Value per node of the core, or None if nothing was found."""
    value: float
    """Objective of `weight`; infinite without."""
    bound: float
    """Proved lower bound of this solve (with its fixed columns); infinite if infeasible."""
    complete: bool
    """Solved to the end, not cut short."""


class Master:
    """The growing model of one core."""

    def __init__(self, core: Core, solve: Solve) -> None:
        self.core = core
        self.free = [v for v, cost in enumerate(core.costs) if cost < math.inf]
        self.windows: dict[Window, int] = {}
        """Every window in the model, in the order of its rows; rounds since it was tight."""
        self._column = {v: i for i, v in enumerate(self.free)}
        self._solve = solve
        self._highs = self._new_model()
        self._whole = False
        costs = [core.costs[v] for v in self.free]
        self.step = _common_step(costs)
        """All plans cost a multiple of this, or 0 if no such number is known."""

    def _new_model(self) -> highspy.Highs:
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("mip_rel_gap", 0.0)
        count = len(self.free)
        costs = np.asarray([self.core.costs[v] for v in self.free])
        empty_i, empty_f = np.zeros(0, np.int32), np.zeros(0)
        highs.addCols(
            count,
            costs,
            np.zeros(count),
            np.ones(count),
            0,
            np.zeros(count, np.int32),
            empty_i,
            empty_f,
        )
        _watch(highs, self._solve)
        return highs

    def add(self, windows: Iterable[Window]) -> int:
        """Take in new windows; returns how many were new."""
        fresh = [window for window in dict.fromkeys(windows) if window not in self.windows]
        if not fresh:
            return 0
        self.windows.update((window, 0) for window in fresh)
        lengths = np.asarray([len(window) for window in fresh])
        starts = (np.cumsum(lengths) - lengths).astype(np.int32)
        columns = np.asarray([self._column[v] for window in fresh for v in window], np.int32)
        count = len(fresh)
        self._highs.addRows(
            count,
            np.ones(count),
            np.full(count, highspy.kHighsInf),
            len(columns),
            starts,
            columns,
            np.ones(len(columns)),
        )
        return count

    def purge(self, *, age: int = 2) -> None:
        """Drop windows that the last relaxations have covered more than needed."""
        values = self._highs.getSolution().row_value
        stale: list[int] = []
        for row, (window, value) in enumerate(zip(list(self.windows), values, strict=True)):
            slack_rounds = self.windows[window] + 1 if value > 1.0 + _EPSILON else 0
            self.windows[window] = slack_rounds
            if slack_rounds > age:
                stale.append(row)
        if len(stale) < 50:
            return
        order = list(self.windows)
        for row in stale:
            del self.windows[order[row]]
        self._highs.deleteRows(len(stale), np.asarray(stale, np.int32))

    def round_up(self, bound: float) -> float:
        """The least cost that any plan can have, given a lower bound on it."""
        if self.step <= 0.0:
            return bound
        return math.ceil(bound / self.step - 1e-5) * self.step

    def relax(self) -> Answer:
        """Solve the linear relaxation, from where the last one ended."""
        highs = self._highs
        self._integrality(whole=False)
        _limit(highs, self._solve, None)
        highs.run()
        complete = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        if not complete:
            return Answer(weight=None, value=math.inf, bound=0.0, complete=False)
        value = float(highs.getInfo().objective_function_value)
        return Answer(weight=self._weights(), value=value, bound=value - _EPSILON, complete=True)

    def reduced_costs(self) -> list[float]:
        """Per free node, what forcing it in would add to the last relaxation's value."""
        return list(self._highs.getSolution().col_dual)

    def whole(
        self,
        *,
        fixed: dict[int, int] | None = None,
        below: float = math.inf,
        nodes: int | None = None,
        seconds: float | None = None,
        gap: float = 0.0,
    ) -> Answer:
        """Solve for whole numbers, with `fixed` nodes set, looking only for values < `below`."""
        highs = self._highs
        self._integrality(whole=True)
        _limit(highs, self._solve, seconds)
        highs.setOptionValue("mip_max_nodes", 2_000_000_000 if nodes is None else nodes)
        highs.setOptionValue("mip_abs_gap", max(1e-6, gap, 0.999 * self.step))
        ceiling = below - (self.step or _EPSILON * max(1.0, below)) * 0.5
        capped = math.isfinite(ceiling)
        if capped:
            highs.addRow(
                -highspy.kHighsInf,
                ceiling,
                len(self.free),
                np.arange(len(self.free), dtype=np.int32),
                np.asarray([self.core.costs[v] for v in self.free]),
            )
        self._fix(fixed)
        highs.run()
        answer = self._read_whole()
        self._fix(None)
        if capped:
            last = highs.getNumRow() - 1
            highs.deleteRows(1, np.asarray([last], np.int32))
        return answer

    def _read_whole(self) -> Answer:
        highs = self._highs
        status, info = highs.getModelStatus(), highs.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return Answer(weight=None, value=math.inf, bound=math.inf, complete=True)
        bound = float(info.mip_dual_bound)
        if not math.isfinite(bound):
            bound = 0.0
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return Answer(
            weight=self._weights() if found else None,
            value=float(info.objective_function_value) if found else math.inf,
            bound=bound - _EPSILON,
            complete=status == highspy.HighsModelStatus.kOptimal,
        )

    def _weights(self) -> list[float]:
        weight = [0.0] * self.core.size
        for v, value in zip(self.free, self._highs.getSolution().col_value, strict=True):
            weight[v] = value
        return weight

    def _integrality(self, *, whole: bool) -> None:
        if whole == self._whole:
            return
        kind = highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous
        count = len(self.free)
        self._highs.changeColsIntegrality(
            count, np.arange(count, dtype=np.int32), np.asarray([kind] * count)
        )
        self._whole = whole

    def _fix(self, fixed: dict[int, int] | None) -> None:
        count = len(self.free)
        lower, upper = np.zeros(count), np.ones(count)
        for v, value in (fixed or {}).items():
            lower[self._column[v]] = upper[self._column[v]] = value
        self._highs.changeColsBounds(count, np.arange(count, dtype=np.int32), lower, upper)


def _common_step(costs: Sequence[float]) -> float:
    """The greatest common divisor of costs that are whole numbers; else 0."""
    whole = [round(cost) for cost in costs]
    if not whole or any(abs(a - b) > 1e-9 for a, b in zip(whole, costs, strict=True)):
        return 0.0
    return float(math.gcd(*whole))


def _limit(highs: highspy.Highs, solve: Solve, seconds: float | None) -> None:
    limits = [limit for limit in (solve.seconds_left(), seconds) if limit is not None]
    # HiGHS counts its own run time over all runs of a model, so the limit has to move along.
    spent = float(highs.getRunTime())
    highs.setOptionValue(
        "time_limit", spent + max(min(limits), 0.01) if limits else highspy.kHighsInf
    )


def _watch(highs: highspy.Highs, solve: Solve) -> None:
    kinds = highspy.cb.HighsCallbackType

    def look(_kind: object, _text: str, _out: object, into: object, _data: object) -> None:
        if solve.should_stop():
            into.user_interrupt = True  # type: ignore[attr-defined]

    highs.setCallback(look, None)
    for kind in (kinds.kCallbackMipInterrupt, kinds.kCallbackSimplexInterrupt):
        highs.startCallback(kind)
