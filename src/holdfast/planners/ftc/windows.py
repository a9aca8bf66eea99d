"""Find windows: paths that some plan, whole or fractional, fails to cover.

Both searches return each window as the sorted positions of its nodes that may be backups: one of
them has to be. They return windows that are minimal at their start: without its first node a window
would be short enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.planners.ftc.core import Core

Window = tuple[int, ...]


def violated(core: Core, backed: bytearray) -> tuple[list[Window], bytearray]:
    """Windows that a plan leaves open, and the plan completed so that none is.

    One late pass: wherever it has to add a backup, the path that made it do so is a window without
    any backup. O(N + E) and the windows' length.
    """
    size, times, caps, costs = core.size, core.times, core.caps, core.costs
    done = bytearray(backed)
    found = [0.0] * size
    parent = [-1] * size
    windows: list[Window] = []
    successors = core.successors
    for v, producers in enumerate(core.predecessors):
        wait, via = 0.0, -1
        for u in producers:
            if not done[u] and found[u] > wait:
                wait, via = found[u], u
        own = found[v] = wait + times[v]
        parent[v] = via
        if done[v] or costs[v] == math.inf:
            continue
        worst = math.inf
        for w in successors[v]:
            left = caps[w] - times[w]
            if left < worst:  # noqa: PLR1730  min() costs a call per link
                worst = left
        if own > worst:
            windows.append(trace(core, parent, v, worst))
            done[v] = 1
    return windows, done


def trace(core: Core, parent: Sequence[int], last: int, left: float) -> Window:
    """Walk back from the last node that may be a backup until its path is too long."""
    times, costs = core.times, core.costs
    total, v = 0.0, last
    nodes: list[int] = []
    while v >= 0:
        total += times[v]
        if costs[v] < math.inf:
            nodes.append(v)
        if total > left:
            break
        v = parent[v]
    nodes.reverse()
    return tuple(nodes)


def pairs(core: Core) -> list[Window]:
    """All windows of two linked nodes."""
    times, costs = core.times, core.costs
    found: list[Window] = []
    for v, consumers in enumerate(core.successors):
        if costs[v] < math.inf and consumers:
            left = min(core.caps[w] - times[w] for w in consumers) - times[v]
            found.extend(
                (u, v) for u in core.predecessors[v] if costs[u] < math.inf and times[u] > left
            )
    return found


Label = tuple[float, float, int, int]
"""Length and fractional backup weight of a path; the node and label it continues."""


def fractional(
    core: Core,
    weight: Sequence[float],
    *,
    per_node: int = 48,
    shortfall: float = 1e-4,
) -> list[Window]:
    """Windows whose nodes carry a total weight below 1: cuts for the linear relaxation.

    Label setting in topological order. A label is a path ending in a node, with its length and its
    weight; longer and lighter dominates. With at most `per_node` labels kept, the heaviest paths
    may be missed, but each window returned is real.
    """
    size, times, caps, costs = core.size, core.times, core.caps, core.costs
    limit = 1.0 - shortfall
    labels: list[list[Label]] = []
    windows: dict[Window, float] = {}
    for v in range(size):
        own, mine = times[v], (weight[v] if costs[v] < math.inf else 0.0)
        cap = caps[v]
        arriving: list[Label] = [(own, mine, -1, -1)]
        for u in core.predecessors[v]:
            best_open, best_label = limit, -1
            for k, (length, heavy, _, _) in enumerate(labels[u]):
                total = length + own
                if total > cap:
                    # A path that is too long already: a window ending here, if light enough.
                    if heavy < best_open:
                        best_open, best_label = heavy, k
                elif heavy + mine < limit:
                    arriving.append((total, heavy + mine, u, k))
            if best_label >= 0:
                windows[_spell(core, labels, u, best_label)] = best_open
        labels.append(_pareto(arriving, per_node) if core.successors[v] else [])
    return sorted(windows, key=windows.__getitem__)


def _pareto(arriving: list[Label], most: int) -> list[Label]:
    """Keep labels for which none is both longer and lighter; longest first."""
    if len(arriving) == 1:
        return arriving
    arriving.sort(key=lambda label: (-label[0], label[1]))
    kept: list[Label] = []
    lightest = math.inf
    for label in arriving:
        if label[1] < lightest - 1e-12:
            kept.append(label)
            lightest = label[1]
    if len(kept) > most:
        step = len(kept) / most
        kept = [kept[int(i * step)] for i in range(most)]
    return kept


def _spell(core: Core, labels: list[list[Label]], node: int, label: int) -> Window:
    nodes: list[int] = []
    while node >= 0:
        if core.costs[node] < math.inf:
            nodes.append(node)
        _, _, before, position = labels[node][label]
        node, label = before, position
    nodes.reverse()
    return tuple(nodes)
