"""Good plans fast: passes in both directions, pruning, rounding a fractional plan, and a bound.

Every function here is a handful of linear passes, so that all of them also serve 100,000 tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.planners.ftc.core import Core, early, late, prune_backward, prune_forward
from holdfast.planners.ftc.windows import Window, violated


def cheapest(core: Core, plans: Iterable[bytearray]) -> bytearray:
    """The cheapest of some plans; the first among equals."""
    return min(plans, key=core.cost)


def pruned(core: Core, backed: bytearray) -> bytearray:
    """A plan without redundant backups: the better of dropping early ones and late ones first."""
    return cheapest(core, (prune_forward(core, backed), prune_backward(core, backed)))


def quick_plan(core: Core) -> bytearray:
    """The best of the late pass and its mirror image, each pruned both ways."""
    return cheapest(core, (pruned(core, late(core)), pruned(core, early(core))))


def packed_bound(core: Core) -> float:
    """A proved lower bound: windows that share no node need a backup each.

    The windows of one late pass with the last nodes as picks; a window is counted when all its
    nodes are unused, at the cost of its cheapest node.
    """
    windows, _ = violated(core, bytearray(core.size))
    used = bytearray(core.size)
    total = 0.0
    for window in sorted(windows, key=len):
        if not any(used[v] for v in window):
            total += min(core.costs[v] for v in window)
            for v in window:
                used[v] = 1
    return total


def rounded(core: Core, weight: Sequence[float], threshold: float) -> bytearray:
    """A plan from a fractional one: take the heavy nodes, then the heaviest of each open window."""
    backed = bytearray(core.size)
    for v, value in enumerate(weight):
        if value >= threshold:
            backed[v] = 1
    # Each pass adds at least one backup; the cap only guards against many tiny passes.
    for _ in range(32):
        windows, complete = violated(core, backed)
        if not windows:
            break
        for window in windows:
            backed[heaviest(core, weight, window)] = 1
    else:
        backed = complete
    return pruned(core, backed)


def heaviest(core: Core, weight: Sequence[float], window: Window) -> int:
    """The node of a window with the most weight for its cost; the latest among equals."""
    return max(window, key=lambda v: (weight[v] / (core.costs[v] or 1e-12), v))
