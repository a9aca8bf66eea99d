"""Large-neighbourhood search: free a region of a plan, solve it exactly, keep what is cheaper.

A region is a ball around a random node. All other nodes stay as they are: backups lose their
outgoing links, the others become forbidden, and what is left of the instance is small once it has
been reduced. Regions grow while they are solved to the end and shrink when they are not.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast.planners.ftc.branch import branch_and_cut
from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.heuristics import pruned, quick_plan
from holdfast.planners.ftc.master import Master
from holdfast.planners.ftc.reduce import reduce_core
from holdfast.planners.ftc.relax import relax, spent
from holdfast.planners.interface import Progress, Solve

_NODES = 8
"""Nodes of the search tree spent on one part of a region."""
_HAIR = 1e-3
"""Makes an equal cost count as cheaper."""
_SMALLEST = 40
_LARGEST = 500


def improve(
    core: Core,
    plan: bytearray,
    solve: Solve,
    *,
    target: float,
    steps: int,
    seconds: float | None = None,
) -> bytearray:
    """Search at most `steps` regions, or until the plan costs no more than `target`.

    Plans that cost the same are taken too, and sought when nothing cheaper was found for a while,
    so that the search drifts over level ground. It ends early once the instance has been covered
    three times over, with a limit in `seconds` ten times, without a gain.
    """
    best, value = plan, core.cost(plan)
    size, idle = 120, 0.0
    tired = (3.0 if seconds is None else 10.0) * core.size
    begin = solve.seconds_left()
    for _ in range(steps):
        if solve.should_stop() or spent(solve, begin, seconds):
            break
        if value <= target + 1e-9 or idle > tired:
            break
        region = _ball(core, solve.rng, size)
        margin = _HAIR if idle > 2.0 * core.size else 0.0
        candidate, complete = _solve_region(core, best, region, solve, margin)
        size = min(_LARGEST, size * 11 // 10) if complete else max(_SMALLEST, size * 4 // 5)
        idle += len(region)
        cost = core.cost(candidate)
        if cost < value - 1e-9:
            value, idle = cost, 0.0
            solve.report(Progress(message="better plan", objective=value))
        if cost <= value:
            best = candidate
    return best


def _solve_region(
    core: Core, plan: bytearray, region: set[int], solve: Solve, margin: float
) -> tuple[bytearray, bool]:
    """The plan with its region solved anew, and whether every part was solved to the end."""
    reduction = reduce_core(_restricted(core, plan, region), rounds=6)
    chosen = bytearray(plan)
    budget = math.fsum(core.costs[v] for v in region if plan[v])
    for v in region:
        chosen[v] = 0
    for v in reduction.forced:
        chosen[v] = 1
        budget -= core.costs[v]
    complete = True
    for part in reduction.cores:
        if solve.should_stop():
            return plan, False
        master = Master(part, solve)
        quick = quick_plan(part)
        # With one part, only what beats the plan (or, with a margin, equals it) is of interest;
        # with several, each on its own.
        below = budget + margin if len(reduction.cores) == 1 else math.inf
        start = relax(master, quick, solve, rounds=60, patient=False, cycles=False, below=below)
        found = branch_and_cut(master, start.plan, solve, below=below, nodes=_NODES)
        complete &= found.complete
        for v, backed in enumerate(found.plan):
            if backed:
                for member in part.members[v]:
                    chosen[member] = 1
    return pruned(core, chosen), complete


def _restricted(core: Core, plan: bytearray, region: set[int]) -> Core:
    """The instance in which only the region is open."""
    return Core(
        times=core.times,
        caps=core.caps,
        costs=[cost if v in region else math.inf for v, cost in enumerate(core.costs)],
        predecessors=[
            [u for u in producers if u in region or not plan[u]] for producers in core.predecessors
        ],
        successors=[
            consumers if v in region or not plan[v] else []
            for v, consumers in enumerate(core.successors)
        ],
        members=[(v,) for v in range(core.size)],
    )


def _ball(core: Core, rng: np.random.Generator, size: int) -> set[int]:
    """About `size` nodes around a random one, by breadth-first search over links both ways."""
    start = int(rng.integers(core.size))
    seen = {start}
    queue = [start]
    for v in queue:
        if len(seen) >= size:
            break
        for w in core.predecessors[v] + core.successors[v]:
            if w not in seen:
                seen.add(w)
                queue.append(w)
    return seen
