"""Completing trees: the cheapest way to make a task count, given what is already chosen.

A replica brings nothing until a whole minimal complete tree around it is alive. For every task one
pass down finds the cheapest set that feeds it and one pass up the cheapest set that carries its
output to a sink; tasks already chosen cost nothing. Among equally cheap ways the one through the
tasks that matter most is taken. This is what Algorithm 1's breadth-first search over units is for,
without its dependence on the order of the search.

Exact where no join combines streams from one operator; there two branches may share tasks, and the
set found is at most as dear as the sum that was minimised (see `cheapest_tree` for the exact one).

Complexity: O(tasks + links) per call, with Full links counted once per slot, plus the size of the
sets handed out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import csr_matrix

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.fidelity import BoolArray
from holdfast.planners.ppa.fidelity_streams import FloatArray
from holdfast.planners.ppa.problem import SLACK, Problem
from holdfast.planners.ppa.wiring import Wiring, wiring

_NONE: Final = (math.inf, 0.0, -1)
Best = tuple[float, float, int]
"""Cost, minus importance, task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Completer:
    """Hands out candidate extensions of a plan."""

    problem: Problem
    wiring: Wiring
    importance: FloatArray
    """Per task, the fidelity lost when it alone fails."""
    candidates: tuple[tuple[int, ...], ...]
    """Tasks that stand for each other (same slots, all of them Full), most important first."""

    def extensions(self, chosen: BoolArray, *, most: int | None = None) -> Iterator[list[int]]:
        """Per candidate task, the tasks to add so that it counts.

        Only the `most` candidates that promise most are completed, by importance over cost.
        """
        cost = np.where(chosen, 0.0, self.problem.cost)
        cost[~self.problem.most] = math.inf
        prices = cost.tolist()
        fed, best_writer = self._upstream(prices)
        carried, best_reader = self._downstream(prices, best_writer)
        seen: set[frozenset[int]] = set()
        tasks = [t for t in self._representatives(chosen) if fed[t] + carried[t] < math.inf]
        if most is not None and len(tasks) > most:
            weight = self.importance.tolist()
            tasks.sort(key=lambda t: -weight[t] / max(fed[t] + carried[t], 1e-300))
            del tasks[most:]
        for task in tasks:
            found = self._collect(task, chosen, best_writer, best_reader)
            key = frozenset(found)
            if key not in seen:
                seen.add(key)
                yield found

    def _representatives(self, chosen: BoolArray) -> Iterator[int]:
        for group in self.candidates:
            for task in group:
                if not chosen[task]:
                    yield task
                    break

    def _upstream(self, prices: list[float]) -> tuple[list[float], list[Best]]:
        wires, weight = self.wiring, self.importance
        fed = [math.inf] * self.problem.size
        best: list[Best] = [_NONE] * len(wires.writers)
        known = [False] * len(wires.writers)
        for task in wires.order:
            total = prices[task]
            slots = wires.reads[task]
            for slot, _ in slots:
                if not known[slot]:
                    known[slot] = True
                    for a in wires.writers[slot]:
                        best[slot] = min(best[slot], (fed[a], -weight[a], a))
            if slots:
                parts = [best[slot][0] for slot, _ in slots]
                total += sum(parts) if wires.is_join[task] else min(parts)
            fed[task] = total
        return fed, best

    def _downstream(
        self, prices: list[float], best_writer: list[Best]
    ) -> tuple[list[float], list[Best]]:
        wires, weight = self.wiring, self.importance
        carried = [math.inf] * self.problem.size
        best: list[Best] = [_NONE] * len(wires.writers)
        known = [False] * len(wires.writers)
        for task in reversed(wires.order):
            least = 0.0 if wires.worth[task] > 0 else math.inf
            for slot, _ in wires.writes[task]:
                if not known[slot]:
                    known[slot] = True
                    for b in wires.readers[slot]:
                        price = prices[b] + carried[b]
                        if wires.is_join[b]:
                            others = (best_writer[s][0] for s, _ in wires.reads[b] if s != slot)
                            price += sum(others)
                        best[slot] = min(best[slot], (price, -weight[b], b))
                least = min(least, best[slot][0])
            carried[task] = least
        return carried, best

    def _collect(
        self, task: int, chosen: BoolArray, best_writer: list[Best], best_reader: list[Best]
    ) -> list[int]:
        wires = self.wiring
        found: set[int] = set()
        at = task
        while True:
            self._feed(at, found, best_writer)
            if wires.worth[at] > 0:
                break
            at = min(best_reader[slot] for slot, _ in wires.writes[at])[2]
        return [t for t in found if not chosen[t]]

    def _feed(self, task: int, found: set[int], best_writer: list[Best]) -> None:
        wires = self.wiring
        stack = [task]
        while stack:
            at = stack.pop()
            if at in found:
                continue
            found.add(at)
            slots = wires.reads[at]
            if not slots:
                continue
            if wires.is_join[at]:
                stack.extend(best_writer[slot][2] for slot, _ in slots)
                continue
            # A writer already taken for another branch costs nothing more.
            shared = next((a for s, _ in slots for a in wires.writers[s] if a in found), None)
            stack.append(shared if shared is not None else min(best_writer[s] for s, _ in slots)[2])


def completer(problem: Problem) -> Completer:
    """Prepare a problem for completing trees."""
    wires = wiring(problem.model)
    importance = problem.marginals(problem.most)
    groups: dict[object, list[int]] = {}
    for task in wires.order:
        if not problem.open[task]:
            continue
        slots = [s for s, _ in wires.reads[task]], [s for s, _ in wires.writes[task]]
        is_full = all(len(wires.readers[s]) > 1 for s in slots[0]) and all(
            len(wires.writers[s]) > 1 for s in slots[1]
        )
        key = (tuple(slots[0]), tuple(slots[1])) if is_full and slots[0] and slots[1] else task
        groups.setdefault(key, []).append(task)
    density = np.where(problem.cost > 0, importance / np.maximum(problem.cost, 1e-300), np.inf)
    candidates = tuple(tuple(sorted(g, key=lambda t: -density[t])) for g in groups.values())
    return Completer(problem=problem, wiring=wires, importance=importance, candidates=candidates)


def cheapest_tree(problem: Problem, solve: Solve) -> BoolArray | None:
    """The cheapest plan with a complete tree, or None when none fits: a small set-cover program.

    minimise the cost of x over 0/1 vectors in which some sink is chosen and every chosen task has
    a chosen producer (a join: one per stream). Exact also where branches share tasks.
    """
    from holdfast.planners.milp import Model, minimise  # noqa: PLC0415  the solver loads slowly

    wires = wiring(problem.model)
    size = problem.size
    rows: list[dict[int, float]] = [dict.fromkeys(np.flatnonzero(wires.worth > 0).tolist(), 1.0)]
    lower = [1.0]
    slot_column: dict[int, int] = {}
    for task in wires.order:
        slots = [slot for slot, _ in wires.reads[task]]
        if not slots:
            continue
        for slot in slots:
            if slot not in slot_column:
                slot_column[slot] = size + len(slot_column)
                row = {slot_column[slot]: -1.0}
                row.update((a, 1.0) for a in wires.writers[slot])
                rows.append(row)
                lower.append(0.0)
        groups = [[slot] for slot in slots] if wires.is_join[task] else [slots]
        for group in groups:
            row = {slot_column[slot]: 1.0 for slot in group}
            row[task] = -1.0
            rows.append(row)
            lower.append(0.0)
    width = size + len(slot_column)
    upper = np.ones(width)
    upper[:size][~problem.most] = 0.0
    floor = np.zeros(width)
    floor[:size][problem.base] = 1.0
    pointers = np.cumsum([0, *map(len, rows)])
    matrix = csr_matrix(
        ([v for row in rows for v in row.values()], [c for row in rows for c in row], pointers),
        shape=(len(rows), width),
    )
    whole = np.zeros(width, bool)
    whole[:size] = True
    answer = minimise(
        Model(
            cost=np.concatenate((problem.cost, np.zeros(width - size))),
            matrix=matrix,
            row_lower=np.asarray(lower),
            row_upper=np.full(len(rows), np.inf),
            lower=floor,
            upper=upper,
            integer=whole,
        ),
        solve,
    )
    if answer.x is None:
        return None
    chosen: BoolArray = answer.x[:size] > 0.5
    return chosen if problem.price(chosen) <= problem.budget + SLACK else None
