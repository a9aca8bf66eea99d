"""Large-neighbourhood search: free a region of a plan, solve it exactly, keep what is cheaper.

A region is a ball around a random node, or the nodes on which the plan and the relaxation
disagree. All other nodes stay as they are, so the master is small; a region proved to hold nothing
better is left alone until the plan changes. Regions grow while they are solved easily.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.plan.ftc.core import Core
from holdfast.plan.ftc.heuristics import pruned
from holdfast.plan.ftc.master import Master
from holdfast.plan.ftc.windows import violated
from holdfast.plan.protocol import Progress, Solve

_TRIES = 12
"""Master solves spent on one region before it is given up."""


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
    size, idle = min(120, len(master.free)), 0
    start = solve.seconds_left()
    for step in range(steps):
        left = solve.seconds_left()
        spent = start is not None and left is not None and seconds is not None
        if solve.should_stop() or (spent and start - left > seconds):  # type: ignore[operator]
            break
        if master.round_up(bound) >= value or idle >= stall:
            break
        region = (
            _disagreement(master, best, weight, solve.rng, size)
            if step % 4 == 3
            else _ball(core, solve.rng, size)
        )
        better, easy = _solve_region(master, best, region, solve)
        size = min(len(master.free), int(size * 1.15)) if easy else max(30, int(size * 0.8))
        if core.cost(better) < value:
            best, value, idle = better, core.cost(better), 0
            solve.report(Progress(message="better plan", objective=value, bound=bound))
        else:
            idle += 1
    return best


def _solve_region(
    master: Master, plan: bytearray, region: set[int], solve: Solve
) -> tuple[bytearray, bool]:
    """The best plan found that differs from `plan` only in the region, and whether it was easy."""
    core = master.core
    best, value = plan, core.cost(plan)
    fixed = {v: int(plan[v]) for v in master.free if v not in region}
    for _ in range(_TRIES):
        if solve.should_stop():
            return best, False
        answer = master.whole(fixed=fixed, below=value, nodes=150)
        if answer.weight is None:
            return best, answer.complete
        backed = bytearray(int(x > 0.5) for x in answer.weight)
        windows, complete = violated(core, backed)
        candidate = pruned(core, complete)
        if core.cost(candidate) < value:
            best, value = candidate, core.cost(candidate)
            # Outside the region the pruning may have changed something: that is a new plan.
            if windows:
                fixed = {v: int(best[v]) for v in fixed}
        if not windows and answer.complete:
            return best, True
        master.add(windows)
    return best, False


def _ball(core: Core, rng: np.random.Generator, size: int) -> set[int]:
    """About `size` nodes around a random one, by breadth-first search over links both ways."""
    start = int(rng.integers(core.size))
    seen = {start}
    queue = [start]
    for v in queue:
        if len(seen) >= size * 1.3:
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
