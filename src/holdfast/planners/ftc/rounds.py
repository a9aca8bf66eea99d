"""The paper's main loop (its Algorithm 1) and the search for backups in one round.

ComputeFTC keeps a set of *search sources*: the topology's sources and every backup chosen so far.
Each round takes one and chooses backups downstream of it, so that everything reached from it
without passing a backup stays within its bound. When no search source is left, every path without a
backup inside was walked from its start, so the bound holds for every task: this needs nothing of
how the backups were chosen, only that a round does not end before its search source is settled.

A round starts with r = T(v) from a topology source (its output has to be produced again) and with
r = 0 from a backup. A source that becomes a backup itself is searched again with r = 0.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.planners.ftc.core import Core, late
from holdfast.planners.interface import Solve

Round = Callable[[Core, int, float, bytearray], list[int]]
"""(instance, search source, r, backups so far) -> new backups; settles the search source."""
Rank = Callable[["Reached", int], float]
"""How much a candidate is worth as the next backup; the largest is taken."""


def compute_ftc(core: Core, choose: Round, solve: Solve) -> tuple[bytearray, bool]:
    """Run rounds until no search source is left; also says whether it was allowed to finish.

    Search sources are taken in decreasing breadth-first index from the sinks, as in the paper. When
    stopped early, one late pass completes the plan.
    """
    index = _search_index(core)
    backed = bytearray(core.size)
    heap = [
        (-index[v], v, core.times[v])
        for v, producers in enumerate(core.predecessors)
        if not producers
    ]
    heapq.heapify(heap)
    while heap:
        if solve.should_stop():
            return late(core, backed), False
        _, v, start = heapq.heappop(heap)
        if backed[v] and start:
            continue  # chosen by another round meanwhile: its own search starts at 0
        for u in choose(core, v, start, backed):
            backed[u] = 1
            heapq.heappush(heap, (-index[u], u, 0.0))
    return backed, True


def _search_index(core: Core) -> list[int]:
    """Breadth-first order from the sinks upstream: the sink nearest first."""
    index = [-1] * core.size
    queue = [v for v in range(core.size - 1, -1, -1) if not core.successors[v]]
    for v in queue:
        index[v] = 0
    for at, v in enumerate(queue):
        index[v] = at
        for u in core.predecessors[v]:
            if index[u] < 0:
                index[u] = 0
                queue.append(u)
    return index


def walk(core: Core, v: int, r: float, backed: bytearray) -> list[int]:
    """One round where every task has at most one consumer (Algorithm 2, corrected).

    Go downstream while the next task can still wait; the last task that may be a backup before it
    cannot is chosen.
    """
    times, caps, costs = core.times, core.caps, core.costs
    last = v if costs[v] < math.inf and not (backed[v] and r == 0.0) else None
    while core.successors[v]:
        u = core.successors[v][0]
        if r + times[u] > caps[u]:
            # Caps fold forbidden tasks in, so an allowed one was passed before this can happen.
            return [] if last is None else [last]
        r += times[u]
        v = u
        if costs[u] < math.inf:
            last = u
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What one search source reaches without passing a backup."""

    core: Core
    distance: dict[int, float]
    """D: the longest way from the search source, its own share included."""
    cover: dict[int, float]
    """F: which share of the search source's results passes here (the paper's eq. 7)."""
    workload: dict[int, float]
    """B: how much work a backup here would save (eq. 8)."""


def greedy_round(rank: Rank) -> Round:
    """A round of Algorithm 4, corrected: choose by rank until nothing reached is too far.

    Distances, covers and workloads are computed anew after each pick. As printed, everything on the
    paths to a pick is dropped, although tasks on other branches may still be uncovered.
    """

    def choose(core: Core, v: int, r: float, backed: bytearray) -> list[int]:
        chosen: list[int] = []
        local = bytearray(backed)
        while True:
            reached, far = reach(core, v, r, local)
            if not far:
                return chosen
            useful = _leads_to(core, reached, far)
            best = max(
                (
                    u
                    for u in useful
                    if core.costs[u] < math.inf and not local[u] and (u != v or r > 0.0)
                ),
                key=lambda u: (rank(reached, u), reached.distance[u], -u),
            )
            chosen.append(best)
            local[best] = 1
            if best == v:
                r = 0.0

    return choose


def reach(core: Core, v: int, r: float, backed: bytearray) -> tuple[Reached, set[int]]:
    """Everything reached from v, in topological order, and what of it is too far."""
    distance: dict[int, float] = {v: r}
    cover: dict[int, float] = {v: 1.0}
    workload: dict[int, float] = {v: core.times[v]}
    heap = [v]
    queued = {v}
    far: set[int] = set()
    while heap:
        u = heapq.heappop(heap)
        if distance[u] > core.caps[u] and u != v:
            far.add(u)
            continue
        if backed[u] and (u != v or r > 0.0):
            continue
        consumers = core.successors[u]
        for w in consumers:
            reached = distance[u] + core.times[w]
            distance[w] = max(distance.get(w, 0.0), reached)
            cover[w] = cover.get(w, 0.0) + cover[u] / len(consumers)
            workload[w] = workload.get(w, core.times[w]) + workload[u] / len(consumers)
            if w not in queued:
                queued.add(w)
                heapq.heappush(heap, w)
    return Reached(core=core, distance=distance, cover=cover, workload=workload), far


def _leads_to(core: Core, reached: Reached, far: Iterable[int]) -> set[int]:
    """The tasks in reach from which something too far can be reached: worth a backup."""
    found: set[int] = set()
    stack = list(far)
    seen = set(stack)
    while stack:
        w = stack.pop()
        for u in core.predecessors[w]:
            if u in reached.distance and u not in seen:
                seen.add(u)
                if reached.distance[u] <= core.caps[u]:
                    found.add(u)
                stack.append(u)
    return found
