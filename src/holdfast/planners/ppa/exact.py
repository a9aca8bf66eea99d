"""The proved optimum: a sweep over tasks that keeps every state nothing else beats.

Tasks are decided one after another, producers first and one sink's cone after the other. Of the
decisions so far only three things matter later: what they cost, what they have already added to
OF, and how far the slots are filled that undecided tasks still read (a Full link is one slot,
however wide). A state is dropped when another costs no more and has no less of anything, or when
even with all open tasks alive, and the operators still to come as good as their share of the
budget allows, it would stay below the best plan known.

On chains of Full links and on in-trees this is a polynomial dynamic program; splits that meet again
and joins make it grow with the number of slots open at once. When there are more than `STATES`
states, or time runs out, the most promising are kept and the best bound among the rest is
remembered: the result then carries that bound instead of a proof.

Complexity: O(n * states^2) comparisons at worst; about 40 mixed tasks need 10^2 to 10^4 states.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.planners.interface import Progress, Solve
from holdfast.planners.ppa.fidelity import BoolArray
from holdfast.planners.ppa.fidelity_streams import FloatArray, IntArray
from holdfast.planners.ppa.problem import SLACK, Choice, Problem
from holdfast.planners.ppa.relaxation import upper_bound
from holdfast.planners.ppa.remaining import Remaining
from holdfast.planners.ppa.sa import sa
from holdfast.planners.ppa.wiring import Wiring, wiring

STATES = 50_000
"""States kept at once; beyond it the answer is no longer a proof."""
ROUNDING = 1.0 - 1e-11
"""Two states that differ by rounding alone are the same."""
ARCHIVE = 3_000
"""States each new one is compared with; more comparisons drop little more."""


def exact(problem: Problem, solve: Solve, *, states: int = STATES) -> Choice:
    """The best plan, proved, or the best found with a bound."""
    known = sa(problem, solve)
    value = problem.model.fidelity(known.chosen)
    ceiling = upper_bound(problem)
    if value >= ceiling * ROUNDING:
        return Choice(chosen=known.chosen, bound=value, optimal=True)
    solve.report(Progress(message="sweeping tasks", objective=value, bound=ceiling))
    sweep = _Sweep(problem=problem, wires=wiring(problem.model), best=value, states=states)
    finished = sweep.run(solve)
    chosen = known.chosen
    if sweep.best > value:
        chosen = problem.trimmed(sweep.plan())
        value = problem.model.fidelity(chosen)
    bound = min(ceiling, max(value, sweep.missed))
    if bound <= value / ROUNDING:
        return Choice(chosen=chosen, bound=value, optimal=True)
    reason = "time ran out" if not finished else f"more than {states} states were open"
    return Choice(chosen=chosen, bound=bound, note=f"stopped early: {reason}")


@dataclass(kw_only=True, eq=False)
class _Sweep:
    """The states after some of the tasks have been decided; rows are states."""

    problem: Problem
    wires: Wiring
    best: float
    """Fidelity of the best plan known."""
    states: int
    missed: float = 0.0
    """What states given up on might have reached."""
    cost: FloatArray = field(default_factory=lambda: np.zeros(1))
    values: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))
    """Column 0: OF so far; then one column per open slot."""
    columns: dict[int, int] = field(default_factory=dict)
    history: list[tuple[int, IntArray, BoolArray]] = field(default_factory=list)
    """Per decided task: where each state came from and whether the task was taken."""
    winner: int | None = None

    def run(self, solve: Solve) -> bool:
        """Decide all tasks; False: stopped on the way."""
        order = self.wires.order
        remaining = Remaining(self.problem, self.wires)
        last = {slot: k for k, task in enumerate(order) for slot, _ in self.wires.reads[task]}
        self.cost = np.full(1, self.problem.price(self.problem.base))
        for k, task in enumerate(order):
            if solve.should_stop():
                self.missed = max(self.missed, self._ceilings(remaining, k).max(initial=0.0))
                return False
            self._decide(task)
            # Some are read by nobody on the way to a query that counts.
            self._close({slot for slot in self.columns if last.get(slot, -1) <= k})
            self._prune(remaining, k + 1)
            if not len(self.cost):
                return True
        reached = self.values[:, 0]
        top = int(np.argmax(reached))
        if reached[top] > self.best:
            self.best, self.winner = float(reached[top]), top
        return True

    def plan(self) -> BoolArray:
        """The tasks taken on the way to the best state."""
        if self.winner is None:
            raise AssertionError("no state beat the plan known before")
        chosen = self.problem.base.copy()
        at = self.winner
        for task, parent, taken in reversed(self.history):
            chosen[task] |= bool(taken[at])
            at = int(parent[at])
        return chosen

    def _decide(self, task: int) -> None:
        problem, wires = self.problem, self.wires
        for slot, _ in wires.writes[task]:
            if slot not in self.columns:
                self.columns[slot] = self.values.shape[1]
                self.values = np.hstack((self.values, np.zeros((len(self.values), 1))))
        arriving = self._arriving(task)
        must = bool(problem.base[task])
        price = 0.0 if must else float(problem.cost[task])
        may = np.full(len(arriving), must or bool(problem.open[task]))
        may &= (arriving > 0) & (self.cost + price <= problem.budget + SLACK)
        taken = np.flatnonzero(may)
        grown = self.values[taken]
        flow = arriving[taken]
        for slot, weight in wires.writes[task]:
            grown[:, self.columns[slot]] += weight * flow
        grown[:, 0] += wires.worth[task] * flow
        kept = np.flatnonzero(~may) if must else np.arange(len(arriving))
        self.cost = np.concatenate((self.cost[kept], self.cost[taken] + price))
        self.values = np.vstack((self.values[kept], grown))
        flags = np.zeros(len(self.cost), bool)
        flags[len(kept) :] = True
        self.history.append((task, np.concatenate((kept, taken)), flags))

    def _arriving(self, task: int) -> FloatArray:
        slots = self.wires.reads[task]
        size = len(self.values)
        if not slots:
            return np.ones(size)
        parts = [
            (self.values[:, self.columns[slot]] if slot in self.columns else np.zeros(size), factor)
            for slot, factor in slots
        ]
        if self.wires.is_join[task]:
            return np.asarray(np.prod([part for part, _ in parts], axis=0))
        return np.asarray(sum(part * factor for part, factor in parts))

    def _close(self, dead: set[int]) -> None:
        if not dead:
            return
        kept = sorted((c, slot) for slot, c in self.columns.items() if slot not in dead)
        self.values = self.values[:, [0, *(c for c, _ in kept)]]
        self.columns = {slot: k + 1 for k, (_, slot) in enumerate(kept)}

    def _prune(self, remaining: Remaining, k: int) -> None:
        ceilings = self._ceilings(remaining, k)
        hopeful = np.flatnonzero(ceilings * ROUNDING > self.best)
        order = hopeful[undominated(self.cost[hopeful], self.values[hopeful])]
        if len(order) > self.states:
            ranked = order[np.argsort(-ceilings[order], kind="stable")]
            self.missed = max(self.missed, float(ceilings[ranked[self.states]]))
            order = ranked[: self.states]
        self.cost, self.values = self.cost[order], self.values[order]
        task, parent, flags = self.history[-1]
        self.history[-1] = task, parent[order], flags[order]

    def _ceilings(self, remaining: Remaining, k: int) -> FloatArray:
        """What each state could reach at most."""
        return remaining.ceilings(k, self.cost, self.values, self.columns)


def undominated(cost: FloatArray, values: FloatArray) -> NDArray[np.intp]:
    """Rows for which no other costs no more and has no less of anything (almost all others)."""
    order = np.lexsort((-values.sum(axis=1), cost))
    rows = values[order]
    if rows.shape[1] == 1:
        flat = rows[:, 0]
        keep = np.ones(len(flat), bool)
        keep[1:] = flat[1:] * ROUNDING > np.maximum.accumulate(flat)[:-1]
        return order[keep]
    lowered = rows * ROUNDING
    kept: list[IntArray] = []
    archive = np.empty((0, rows.shape[1]))
    step = 256
    for start in range(0, len(rows), step):
        block = np.arange(start, min(start + step, len(rows)))
        for first in range(0, len(archive), 1024):
            beaten = _beaten(archive[first : first + 1024], lowered[block])
            block = block[~beaten]
        own = _beats(rows[block], lowered[block]) & np.tri(len(block), k=-1, dtype=bool)
        block = block[~own.any(axis=1)]
        kept.append(block)
        archive = np.vstack((archive, rows[block]))[-ARCHIVE:]
    return order[np.concatenate(kept)] if kept else order


def _beaten(archive: FloatArray, lowered: FloatArray) -> BoolArray:
    return np.asarray(_beats(archive, lowered).any(axis=1))


def _beats(archive: FloatArray, lowered: FloatArray) -> BoolArray:
    """Row i, column j: archive row j has no less than row i in every column."""
    out = archive[None, :, 0] >= lowered[:, 0, None]
    for c in range(1, archive.shape[1]):
        out &= archive[None, :, c] >= lowered[:, c, None]
    return np.asarray(out)
