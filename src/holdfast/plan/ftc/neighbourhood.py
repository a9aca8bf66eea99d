"""Large-neighbourhood search: free a region of a plan, solve it exactly, keep what is cheaper.

A region is a ball around a random node, or the nodes on which the plan and the relaxation
disagree. All other nodes stay as they are, so the search is small. Regions grow while they are
solved easily and shrink when they are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.plan.ftc.branch import branch_and_cut
from holdfast.plan.ftc.core import Core
from holdfast.plan.ftc.master import Master
from holdfast.plan.ftc.relax import spent
from holdfast.plan.protocol import Progress, Solve

_NODES = 12
"""Nodes of the search tree spent on one region."""


def improve(
    master: Master,
    plan: bytearray,
    weight: Sequence[float],
    solve: Solve,
    *,
    bound: float,
    steps: int,
    stall: int,
    seconds: float | None = None,
) -> bytearray:
    """Search at most `steps` regions, until `stall` in a row gave nothing or the bound is met."""
    core = master.core
    best, value = plan, core.cost(plan)
    size, idle = min(100, len(master.free)), 0
    begin = solve.seconds_left()
    for step in range(steps):
        if solve.should_stop() or spent(solve, begin, seconds):
            break
        if master.closes(bound, value) or idle >= stall:
            break
        region = (
            _disagreement(master, best, weight, solve.rng, size)
            if step % 4 == 3
            else _ball(core, solve.rng, size)
        )
        now = np.asarray([float(best[v]) for v in master.free])
        inside = np.asarray([v in region for v in master.free])
        found = branch_and_cut(
            master,
            best,
            solve,
            lower=np.where(inside, 0.0, now),
            upper=np.where(inside, 1.0, now),
            nodes=_NODES,
        )
        size = min(len(master.free), int(size * 1.1)) if found.complete else max(30, size * 3 // 4)
        idle += 1
        if core.cost(found.plan) < value:
            best, value, idle = found.plan, core.cost(found.plan), 0
            solve.report(Progress(message="better plan", objective=value, bound=bound))
    return best


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


def _disagreement(
    master: Master,
    plan: bytearray,
    weight: Sequence[float],
    rng: np.random.Generator,
    size: int,
) -> set[int]:
    """Nodes on which the plan differs most from the relaxation, with some noise."""
    noise = rng.random(len(master.free)) * 0.3
    gap = {
        v: abs(plan[v] - weight[v]) + float(shake)
        for v, shake in zip(master.free, noise, strict=True)
    }
    return set(sorted(master.free, key=lambda v: -gap[v])[:size])
