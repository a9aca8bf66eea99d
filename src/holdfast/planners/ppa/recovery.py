"""Incremental recovery: in which order failed tasks come back as slots arrive.

Each slot brings one task back. The objective is the fidelity averaged over time from the failure to
the last arrival (Definition 3 of PPA): a task that completes a tree early counts long. When slots
are fewer than failed tasks, equal averages are told apart by the fidelity reached in the end.

- `inc` (Algorithms 4 and 5, repaired). What comes next is the set of failed tasks with the greatest
  gain per task: a completed tree, followed by more of them as long as that raises the average gain.
  It is brought back in the order that shows its parts soonest. The paper's separate treatment of
  disconnected sub-topologies (S1 before S2) falls out of this: a set always reaches from source to
  sink. Where two sets gain alike, the one whose tasks matter most to the rest goes first, which is
  what the paper's sharing frequency is for; as printed that frequency is zero when everything has
  failed. A second order is made from above: what is missed least comes back last. The better of the
  two is polished by moving tasks while that helps (up to `POLISH_WORK`).
- `to` is the paper's baseline: topological order, the most damaging task of the pool first, a task
  entering the pool when all its failed producers are back.
- `exact` tries all orders by a dynamic program over subsets: 2^k states for k failed tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.errors import BadInputError
from holdfast.planners.interface import Solve
from holdfast.planners.ppa.completion import Completer, completer
from holdfast.planners.ppa.fidelity import BATCH_CELLS, BoolArray, FidelityModel
from holdfast.planners.ppa.fidelity_incremental import FidelityState
from holdfast.planners.ppa.fidelity_streams import FloatArray
from holdfast.planners.ppa.problem import Problem
from holdfast.planners.ppa.sa import removal_order
from holdfast.planners.ppa.wiring import wiring

EXACT_TASKS = 20
"""Failed tasks the exact order is offered for (a million subsets)."""
AUTO_EXACT_TASKS = 14
GROW_WORK = 160 * 160
"""Failed tasks times all tasks, above which only the order from above is made."""
POLISH_WORK = 20_000
"""Operators times the square of the returns, above which an order is not polished."""
POLISH_ROUNDS = 20
AHEAD = 6
"""Extensions looked ahead for the densest set."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovery:
    """What has failed and when slots arrive."""

    model: FidelityModel
    alive: BoolArray
    """Tasks that run already."""
    times: tuple[float, ...]
    """Arrival of each slot that is used; no more than failed tasks."""

    @cached_property
    def failed(self) -> list[int]:
        return np.flatnonzero(~self.alive).tolist()

    @cached_property
    def durations(self) -> FloatArray:
        """How long the state after k returns lasts, for k = 0 up to the last return but one."""
        return np.diff(np.concatenate(([0.0], np.asarray(self.times))))

    @cached_property
    def problem(self) -> Problem:
        """The failed tasks as a replication problem: the living are given, a slot costs one."""
        size = self.model.size
        return Problem(
            model=self.model,
            cost=np.where(self.alive, 0.0, 1.0),
            budget=float(len(self.times)),
            required=self.alive,
            forbidden=np.zeros(size, bool),
        )

    def curve(self, order: list[int]) -> FloatArray:
        """OF after the failure and after each return."""
        if (len(order) + 1) * self.model.size > BATCH_CELLS:
            state = FidelityState(self.model, self.alive)
            return np.asarray([state.fidelity, *(state.revive((task,)) for task in order)])
        rows = np.repeat(self.alive[None, :], len(order) + 1, axis=0)
        for k, task in enumerate(order):
            rows[k + 1 :, task] = True
        return self.model.fidelities(rows)

    def average(self, curve: FloatArray) -> float:
        """OF over time until the last return; without time to pass, OF as it is."""
        total = float(self.durations.sum())
        if total <= 0:
            return float(curve[-1])
        return float(curve[:-1] @ self.durations) / total

    def score(self, order: list[int]) -> tuple[float, float]:
        """Average fidelity, then the fidelity in the end."""
        curve = self.curve(order)
        return self.average(curve), float(curve[-1])

    def completed(self, order: list[int]) -> list[int]:
        """An order cut or extended (by the most important failed tasks) to the slots there are."""
        wanted = len(self.times)
        if len(order) < wanted:
            taken = set(order)
            importance = self.problem.marginals(np.ones(self.model.size, bool))
            rest = [task for task in self.failed if task not in taken]
            rest.sort(key=lambda task: (not self.problem.useful[task], -importance[task]))
            order = [*order, *rest]
        return order[:wanted]


# -- inc -------------------------------------------------------------------------------------------


def inc(recovery: Recovery, solve: Solve) -> list[int]:
    """The repaired incremental recovery."""
    orders = [recovery.completed(_from_above(recovery, solve))]
    work = int(recovery.problem.open.sum()) * recovery.model.size
    if work <= GROW_WORK and not solve.should_stop():
        orders.append(recovery.completed(_grown(recovery, solve)))
    best = max(orders, key=recovery.score) if len(orders) > 1 else orders[0]
    if len(best) ** 2 * len(recovery.model.spans) <= POLISH_WORK:
        best = _polished(recovery, best, solve)
    return best


def _from_above(recovery: Recovery, solve: Solve) -> list[int]:
    return removal_order(recovery.problem, solve)[::-1]


def _grown(recovery: Recovery, solve: Solve) -> list[int]:
    helper = completer(recovery.problem)
    alive = recovery.problem.base.copy()
    order: list[int] = []
    while len(order) < len(recovery.times) and not solve.should_stop():
        added = _densest(helper, alive, room=len(recovery.times) - len(order))
        if not added:
            break
        order.extend(_soonest(recovery.model, alive, added))
        alive[added] = True
    return order


def _densest(helper: Completer, alive: BoolArray, *, room: int) -> list[int]:
    """The failed tasks with the greatest gain per task, among trees and chains of trees."""
    model = helper.problem.model
    start = model.fidelity(alive)
    best: tuple[float, float] = (0.0, 0.0)
    found: list[int] = []
    for first in helper.extensions(alive):
        if len(first) > room:
            continue
        state, added = alive.copy(), list(first)
        state[added] = True
        density = (model.fidelity(state) - start) / len(added)
        for _ in range(AHEAD):
            follow = _follow(helper, state, room - len(added), start, len(added))
            if follow is None or follow[0] <= density * (1 + 1e-9):
                break
            density, more = follow
            added.extend(more)
            state[more] = True
        key = (density, float(helper.importance[added].sum()) / len(added))
        if density > 0 and key > (best[0] * (1 + 1e-9), best[1]):
            best, found = key, added
    return found


def _follow(
    helper: Completer, state: BoolArray, room: int, start: float, size: int
) -> tuple[float, list[int]] | None:
    rows, extensions = [], []
    for added in helper.extensions(state):
        if len(added) <= room:
            row = state.copy()
            row[added] = True
            rows.append(row)
            extensions.append(added)
    if not rows:
        return None
    gain = helper.problem.model.fidelities(np.asarray(rows)) - start
    density = gain / (size + np.asarray([len(added) for added in extensions]))
    best = int(np.argmax(density))
    return float(density[best]), extensions[best]


def _soonest(model: FidelityModel, alive: BoolArray, added: list[int]) -> list[int]:
    """The tasks of a set, always the one next that raises fidelity most; producers first."""
    state, left = alive.copy(), sorted(added)
    order: list[int] = []
    importance = model.marginals(_with(alive, added))
    while left:
        rows = np.repeat(state[None, :], len(left), axis=0)
        rows[np.arange(len(left)), left] = True
        values = model.fidelities(rows)
        top = values.max()
        # Without a gain in sight, what matters most is least likely to be regretted.
        task = max(
            (t for t, v in zip(left, values, strict=True) if v >= top),
            key=lambda t: importance[t],
        )
        order.append(task)
        left.remove(task)
        state[task] = True
    return order


def _with(alive: BoolArray, added: list[int]) -> BoolArray:
    state = alive.copy()
    state[added] = True
    return state


def _polished(recovery: Recovery, order: list[int], solve: Solve) -> list[int]:
    """Move single tasks, or swap one for a task left out, while the average rises."""
    score = recovery.score(order)
    unused = [task for task in recovery.failed if task not in set(order)]
    for _ in range(POLISH_ROUNDS):
        found = None
        for k, task in enumerate(order):
            if solve.should_stop():
                return order
            rest = order[:k] + order[k + 1 :]
            trials = [[*rest[:j], task, *rest[j:]] for j in range(len(order)) if j != k]
            trials += [[*rest[:k], other, *rest[k:]] for other in unused]
            for trial in trials:
                reached = recovery.score(trial)
                if reached > score and reached[0] >= score[0] * (1 + 1e-12):
                    found, score = trial, reached
        if found is None:
            return order
        order = found
        unused = [task for task in recovery.failed if task not in set(order)]
    return order


# -- to --------------------------------------------------------------------------------------------


def topological(recovery: Recovery, solve: Solve) -> list[int]:  # noqa: ARG001
    """The baseline: producers before consumers, the most damaging of the pool first."""
    import heapq  # noqa: PLC0415  only here

    wires = wiring(recovery.model)
    damage = recovery.problem.marginals(np.ones(recovery.model.size, bool))
    is_failed = (~recovery.alive).tolist()
    pending = [sum(is_failed[a] for a in writers) for writers in wires.writers]
    missing = [sum(pending[slot] > 0 for slot, _ in slots) for slots in wires.reads]
    pool = [(-damage[t], t) for t in recovery.failed if missing[t] == 0]
    heapq.heapify(pool)
    order: list[int] = []
    while pool:
        _, task = heapq.heappop(pool)
        order.append(task)
        for slot, _ in wires.writes[task]:
            pending[slot] -= 1
            if pending[slot]:
                continue
            for reader in wires.readers[slot]:
                missing[reader] -= 1
                if missing[reader] == 0 and is_failed[reader]:
                    heapq.heappush(pool, (-damage[reader], reader))
    return recovery.completed(order)


# -- exact -----------------------------------------------------------------------------------------


def exact_order(recovery: Recovery, solve: Solve) -> tuple[list[int], bool]:
    """The best order of all, by a dynamic program over subsets; False: stopped, not proved."""
    useful = recovery.problem.useful
    tasks = [task for task in recovery.failed if useful[task]]
    if len(tasks) > EXACT_TASKS:
        raise BadInputError(
            f"the exact order tries all subsets, and {len(tasks)} tasks have failed",
            where="--algorithm",
            hint=f"write --algorithm inc, or fail at most {EXACT_TASKS} tasks",
        )
    slots = min(len(tasks), len(recovery.times))
    count = 1 << len(tasks)
    members = (np.arange(count)[:, None] >> np.arange(len(tasks))) & 1 > 0
    size = members.sum(axis=1)
    value = _subset_values(recovery, tasks, members)
    if solve.should_stop():
        return inc(recovery, solve), False
    # What a subset has earned when it is reached, without its own duration.
    earned = np.full(count, -np.inf)
    earned[0] = 0.0
    came = np.zeros(count, np.int8)
    for level in range(1, slots + 1):
        subsets = np.flatnonzero(size == level)
        lasting = recovery.durations[level - 1]
        for k in range(len(tasks)):
            own = subsets[members[subsets, k]]
            before = own ^ (1 << k)
            reached = earned[before] + lasting * value[before]
            better = reached > earned[own]
            earned[own[better]] = reached[better]
            came[own[better]] = k
    final = np.flatnonzero(size == slots)
    at = int(final[np.lexsort((value[final], np.round(earned[final], 12)))[-1]])
    order: list[int] = []
    while at:
        order.append(tasks[int(came[at])])
        at ^= 1 << int(came[at])
    return recovery.completed(order[::-1]), True


def _subset_values(recovery: Recovery, tasks: list[int], members: BoolArray) -> FloatArray:
    value = np.empty(len(members))
    step = 1 << 14
    for start in range(0, len(members), step):
        part = members[start : start + step]
        rows = np.repeat(recovery.alive[None, :], len(part), axis=0)
        rows[:, tasks] |= part
        value[start : start + step] = recovery.model.fidelities(rows)
    return value
