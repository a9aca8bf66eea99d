"""Every plan, cleverly: the paper's exhaustive search with its objective.

Fewest (or cheapest) backups first; among those, the smallest overall latency O. Tasks are decided
in topological order, so that L is known as soon as a task is reached: a branch ends when a task is
over its bound, or when it is already no better than the best plan so far. Still exponential, so it
refuses instances with more than `MOST` tasks that may be backups.
"""

from __future__ import annotations

import math

from holdfast.errors import BadInputError
from holdfast.planners.ftc.core import Core, latencies
from holdfast.planners.ftc.heuristics import quick_plan
from holdfast.planners.interface import Solve

MOST = 24
"""Tasks that may be backups; every one more doubles the worst case."""


def exhaustive(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """The best plan, and whether the search got to its end."""
    free = [v for v in range(core.size) if core.costs[v] < math.inf and core.successors[v]]
    if len(free) > MOST or core.size > 900:  # one level of recursion per task
        raise BadInputError(
            f"exhaustive search cannot finish with {len(free)} tasks that may be backups",
            where="--algorithm",
            hint=f"write exact, or stay below {MOST + 1}",
        )
    search = _Search(core, solve)
    search.visit(0, 0.0, 0.0)
    return search.best, not search.stopped


class _Search:
    def __init__(self, core: Core, solve: Solve) -> None:
        self.core, self.solve = core, solve
        self.best = quick_plan(core)
        self.value = (core.cost(self.best), max(latencies(core, self.best), default=0.0))
        self.backed = bytearray(core.size)
        self.found = [0.0] * core.size
        self.visits, self.stopped = 0, False

    def visit(self, v: int, cost: float, overall: float) -> None:
        core = self.core
        self.visits += 1
        if self.visits % 1024 == 0 and self.solve.should_stop():
            self.stopped = True
        if self.stopped or not _better((cost, overall), self.value):
            return
        if v == core.size:
            self.best, self.value = bytearray(self.backed), (cost, overall)
            return
        wait = max((self.found[u] for u in core.predecessors[v] if not self.backed[u]), default=0.0)
        self.found[v] = own = wait + core.times[v]
        if own > core.caps[v]:
            return
        overall = max(overall, own)
        self.visit(v + 1, cost, overall)
        if core.successors[v] and core.costs[v] < math.inf:
            self.backed[v] = 1
            self.visit(v + 1, cost + core.costs[v], overall)
            self.backed[v] = 0


def _better(new: tuple[float, float], old: tuple[float, float]) -> bool:
    """Cheaper, or as cheap and with a smaller overall latency; sums may differ by rounding."""
    if new[0] < old[0] - 1e-9:
        return True
    return new[0] <= old[0] + 1e-9 and new[1] < old[1] - 1e-9
