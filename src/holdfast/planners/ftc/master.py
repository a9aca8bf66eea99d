"""The master problem of the implicit hitting set: cheapest nodes that hit all windows known so far.

It holds one linear program that only grows: a column from 0 to 1 per node that may be a backup, a
row per window or cut found. Every solve, over all columns or with most of them fixed, starts from
the basis of the last and leaves its rows behind for the next. Its value is a proved lower bound,
because a plan has to hit every window, known or not, and keeps every cut (see `odd_cycles`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.odd_cycles import Cut
from holdfast.planners.ftc.windows import Window
from holdfast.planners.interface import Solve

FloatArray = NDArray[np.float64]

EPSILON = 1e-6
"""Solver values closer than this are the same."""
_NO_LIMIT = 2_147_483_647
"""How HiGHS spells no limit on simplex iterations."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxation:
    """An optimum of the linear program over the windows known."""

    value: float
    x: FloatArray
    """Per free node."""
    reduced_cost: FloatArray
    """Per free node, what moving it off its bound would add to the value."""


class Master:
    """The growing linear program of one core."""

    def __init__(self, core: Core, solve: Solve) -> None:
        self.core = core
        self.free = [v for v, cost in enumerate(core.costs) if cost < math.inf]
        """Nodes that may be backups, in the order of the columns."""
        self.costs = np.asarray([core.costs[v] for v in self.free])
        self.step = _common_step(self.costs.tolist())
        """All plans cost a multiple of this; 0 if no such number is known."""
        self.rows: dict[Cut, int] = {}
        """Every window and cut known, in the order of the rows; rounds since it was tight."""
        self.infeasible = False
        """Whether the last solve proved that its ranges hold no plan, rather than being stopped."""
        self._column = {v: i for i, v in enumerate(self.free)}
        self._all = np.arange(len(self.free), dtype=np.int32)
        self._solve = solve
        self._highs = self._new_program()

    def _new_program(self) -> highspy.Highs:
        highs: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("presolve", "off")
        count = len(self.free)
        highs.addCols(
            count,
            self.costs,
            np.zeros(count),
            np.ones(count),
            0,
            np.zeros(count, np.int32),
            np.zeros(0, np.int32),
            np.zeros(0),
        )
        _watch(highs, self._solve)
        return highs

    def add(self, windows: Iterable[Window]) -> int:
        """Take in new windows; returns how many were new."""
        return self.add_cuts(Cut(window, (1,) * len(window), 1) for window in windows)

    def add_cuts(self, cuts: Iterable[Cut]) -> int:
        """Take in anything that holds for all plans; returns how many were new."""
        fresh = [cut for cut in dict.fromkeys(cuts) if cut not in self.rows]
        if not fresh:
            return 0
        self.rows.update((cut, 0) for cut in fresh)
        lengths = np.asarray([len(cut.nodes) for cut in fresh])
        starts = (np.cumsum(lengths) - lengths).astype(np.int32)
        columns = np.asarray([self._column[v] for cut in fresh for v in cut.nodes], np.int32)
        count = len(fresh)
        self._highs.addRows(
            count,
            np.asarray([float(cut.least) for cut in fresh]),
            np.full(count, highspy.kHighsInf),
            len(columns),
            starts,
            columns,
            np.asarray([float(n) for cut in fresh for n in cut.counts]),
        )
        return count

    def purge(self, *, age: int) -> None:
        """Drop rows that more than `age` solves in a row have covered more than needed."""
        values = self._highs.getSolution().row_value
        stale: list[int] = []
        order = list(self.rows)
        # Rows added since the last solve have no value yet; zip stops before them.
        for row, (cut, value) in enumerate(zip(order, values, strict=False)):
            rounds = self.rows[cut] + 1 if value > cut.least + EPSILON else 0
            self.rows[cut] = rounds
            if rounds > age:
                stale.append(row)
        # Deleting rows costs a new factorisation, so a few are left until there are more.
        if len(stale) < 50:
            return
        for row in stale:
            del self.rows[order[row]]
        self._highs.deleteRows(len(stale), np.asarray(stale, np.int32))

    def restrict(self, lower: FloatArray, upper: FloatArray) -> None:
        """Set the range of every column."""
        self._highs.changeColsBounds(len(self.free), self._all, lower, upper)

    def relax(self, *, iterations: int | None = None) -> Relaxation | None:
        """Solve from where the last solve ended; None if `infeasible` or stopped.

        With a limit on simplex iterations a value not yet optimal is returned too: the dual simplex
        only climbs, so it is a lower bound all the same.
        """
        highs = self._highs
        highs.setOptionValue(
            "simplex_iteration_limit", _NO_LIMIT if iterations is None else iterations
        )
        highs.run()
        status = highs.getModelStatus()
        self.infeasible = status == highspy.HighsModelStatus.kInfeasible
        limited = status == highspy.HighsModelStatus.kIterationLimit and iterations is not None
        if status != highspy.HighsModelStatus.kOptimal and not limited:
            return None
        solution = highs.getSolution()
        return Relaxation(
            value=float(highs.getInfo().objective_function_value),
            x=np.asarray(solution.col_value),
            reduced_cost=np.asarray(solution.col_dual),
        )

    def round_up(self, bound: float) -> float:
        """The least cost that any plan can have, given a lower bound on it."""
        if self.step <= 0.0:
            return bound
        return math.ceil((bound - EPSILON) / self.step - EPSILON) * self.step

    def closes(self, bound: float, value: float) -> bool:
        """Whether nothing with this lower bound can be cheaper than `value`."""
        return self.round_up(bound) >= value - EPSILON * max(1.0, abs(value))

    def weights(self, x: FloatArray) -> list[float]:
        """Column values per node of the core."""
        weight = [0.0] * self.core.size
        for v, value in zip(self.free, x.tolist(), strict=True):
            weight[v] = value
        return weight


def _common_step(costs: Sequence[float]) -> float:
    """The greatest common divisor of costs that are whole numbers; else 0."""
    whole = [round(cost) for cost in costs]
    if not whole or any(abs(a - b) > 1e-9 for a, b in zip(whole, costs, strict=True)):
        return 0.0
    return float(math.gcd(*whole))


def _watch(highs: highspy.Highs, solve: Solve) -> None:
    kind = highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt

    def look(_kind: object, _text: str, _out: object, into: object, _data: object) -> None:
        if solve.should_stop():
            into.user_interrupt = True  # type: ignore[attr-defined]

    highs.setCallback(look, None)
    highs.startCallback(kind)
