"""Forests, exactly, with any costs, forbidden tasks and bounds.

In-forests (every task feeds at most one other): with equal costs the optimum is one pass in
topological order that backs a task up only when its consumer could not wait for it. A window is a
path towards the root, and among the windows that end lowest, the last task hits all that any other
of its tasks would. O(N). With unequal costs the same paths are hit by a dynamic program over step
functions: the least cost of a subtree against the latency it may pass on (see `steps`).
O(N log^2 N). The mirror image solves out-forests, which the paper does not treat.
"""

from __future__ import annotations

import math

from holdfast.planners.ftc.core import Core, early, late
from holdfast.planners.ftc.steps import Steps


def has_equal_costs(core: Core) -> bool:
    """Whether every node that may be a backup and feeds something costs the same."""
    seen = {c for v, c in enumerate(core.costs) if c < math.inf and core.successors[v]}
    return len(seen) <= 1


def solve_in_forest(core: Core) -> bytearray:
    """The cheapest plan of an in-forest."""
    return late(core) if has_equal_costs(core) else _in_forest_program(core)


def solve_out_forest(core: Core) -> bytearray:
    """The cheapest plan of an out-forest."""
    return early(core) if has_equal_costs(core) else _out_forest_program(core)


def _in_forest_program(core: Core) -> bytearray:
    """Leaves to roots, the cost of each subtree against its latency; then decide from the roots."""
    times, caps, costs = core.times, core.caps, core.costs
    open_steps: list[Steps | None] = [None] * core.size
    threshold = [-math.inf] * core.size
    for v, producers in enumerate(core.predecessors):
        steps = Steps()
        for u in producers:
            below = open_steps[u]
            if below is None:
                raise AssertionError("a node of an in-forest is used once")
            open_steps[u] = None
            steps = steps.merged(below)
        steps.shift(times[v])
        steps.add(times[v], math.inf)
        steps.cut_off(caps[v])
        threshold[v] = steps.clip(costs[v])
        if core.successors[v]:
            open_steps[v] = steps
    backed = bytearray(core.size)
    budget = list(caps)
    for v in range(core.size - 1, -1, -1):
        for w in core.successors[v]:
            left = budget[w] - times[w]
            if left < threshold[v]:
                backed[v] = 1
            else:
                budget[v] = min(caps[v], left)
    return backed


def _out_forest_program(core: Core) -> bytearray:
    """The mirror image: cost of a subtree against minus the latency that reaches it."""
    times, caps, costs = core.times, core.caps, core.costs
    open_steps: list[Steps | None] = [None] * core.size
    threshold = [-math.inf] * core.size
    for v in range(core.size - 1, -1, -1):
        steps = Steps()
        for w in core.successors[v]:
            below = open_steps[w]
            if below is None:
                raise AssertionError("a node of an out-forest is used once")
            open_steps[w] = None
            below.shift(times[w])
            steps = steps.merged(below)
        threshold[v] = steps.clip(costs[v])
        steps.add(-caps[v], math.inf)
        steps.cut_off(-times[v])
        open_steps[v] = steps
    backed = bytearray(core.size)
    latency = list(times)
    for v, producers in enumerate(core.predecessors):
        for u in producers:
            if not backed[u]:
                latency[v] += latency[u]
        if -latency[v] < threshold[v]:
            backed[v] = 1
    return backed
