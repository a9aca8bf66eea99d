"""Make an instance smaller without losing the optimum.

A *window* is a path whose times add up to more than its last node may take; every plan needs a
backup on it before its last node. FTC is the cheapest hitting set of all windows, so:

- a node must be a backup when it is the only one that may be on some window (*forced*); what it
  feeds then no longer waits for it, and its links go;
- nodes and links that lie on no window go;
- a node is never needed as a backup when every window through it passes through a neighbour that is
  no dearer (*dominated*): its only consumer, if no window ends there through it, or its only
  producer, if no window starts at it. It becomes forbidden, which tightens caps and may force
  others. On lines and trees with equal costs these rules alone solve the instance;
- nodes with the same producers, consumers and T (*twins*) wait and are waited for together, so they
  are backups together or not at all: one node with their summed cost stands for them.

Each round of rules is one or two passes over the links. What remains falls apart into components
that are solved separately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.planners.ftc.core import Core, latencies, least_latencies, rooms
from holdfast.planners.ftc.problem import FtcProblem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduction:
    """The optimum is `forced` plus an optimum of every component."""

    forced: tuple[int, ...]
    """Tasks of the original instance that are backups in some optimum; given ones excluded."""
    cores: list[Core]


def core_of(problem: FtcProblem) -> Core:
    """The instance renumbered in topological order; given backups lose their outgoing links."""
    graph = problem.graph
    position = [0] * graph.nodes
    for i, v in enumerate(graph.order):
        position[v] = i
    given = problem.given
    successors = [
        [] if given[v] else [position[w] for w in graph.successors[v]] for v in graph.order
    ]
    predecessors = [
        [position[u] for u in graph.predecessors[v] if not given[u]] for v in graph.order
    ]
    return Core(
        times=[problem.times[v] for v in graph.order],
        caps=[problem.caps[v] for v in graph.order],
        costs=[problem.costs[v] for v in graph.order],
        predecessors=predecessors,
        successors=successors,
        members=[(v,) if v < graph.tasks else () for v in graph.order],
    )


def reduce_core(core: Core, *, rounds: int = 50) -> Reduction:
    """Apply all rules until none changes anything, at most `rounds` times; then split."""
    forced: list[int] = []
    for _ in range(rounds):
        if not core.size:
            break
        before = (core.size, core.links, sum(cost < math.inf for cost in core.costs))
        core = _tighten(core)
        taken = _forced(core)
        for v in taken:
            forced.extend(core.members[v])
        core = _strip(core, taken)
        core = _merge_twins(_forbid_dominated(core))
        if not taken and before == (
            core.size,
            core.links,
            sum(cost < math.inf for cost in core.costs),
        ):
            break
    return Reduction(forced=tuple(forced), cores=components(_tighten(core)))


def _tighten(core: Core) -> Core:
    """Fold forbidden nodes into the caps (they may have become forbidden since)."""
    caps = list(core.caps)
    times, costs = core.times, core.costs
    for v in range(core.size - 1, -1, -1):
        if costs[v] == math.inf:
            for w in core.successors[v]:
                caps[v] = min(caps[v], caps[w] - times[w])
    return _with(core, caps=caps)


def _forced(core: Core) -> list[int]:
    """Nodes that a consumer cannot wait for even when everything else is a backup."""
    least = least_latencies(core)
    times, caps = core.times, core.caps
    return [
        v
        for v, own in enumerate(least)
        if core.costs[v] < math.inf and any(own + times[w] > caps[w] for w in core.successors[v])
    ]


def _strip(core: Core, taken: list[int]) -> Core:
    """Drop the links of forced nodes, then all nodes and links that lie on no window."""
    gone = core.flags(taken)
    found, room = latencies(core, gone), rooms(core, gone)
    times = core.times
    number = [-1] * core.size
    kept: list[int] = []
    for v in range(core.size):
        if found[v] > room[v]:
            number[v] = len(kept)
            kept.append(v)
    successors: list[list[int]] = [[] for _ in kept]
    predecessors: list[list[int]] = []
    for v in kept:
        own = number[v]
        producers: list[int] = []
        left = room[v] - times[v]
        for u in core.predecessors[v]:
            if not gone[u] and number[u] >= 0 and found[u] > left:
                producers.append(number[u])
                successors[number[u]].append(own)
        predecessors.append(producers)
    costs = [core.costs[v] if successors[i] else math.inf for i, v in enumerate(kept)]
    return Core(
        times=[times[v] for v in kept],
        caps=[core.caps[v] for v in kept],
        costs=costs,
        predecessors=predecessors,
        successors=successors,
        members=[core.members[v] for v in kept],
    )


def _forbid_dominated(core: Core) -> Core:
    """Forbid nodes whose only consumer or only producer hits the same windows no dearer."""
    costs = list(core.costs)
    none = bytearray(core.size)
    found, room = latencies(core, none), rooms(core, none)
    least = least_latencies(core)
    times, caps = core.times, core.caps
    for v in range(core.size):
        if costs[v] == math.inf:
            continue
        after, before = core.successors[v], core.predecessors[v]
        # A chain of dominations ends at a node that is not forbidden in the same round, because
        # each rule looks at the costs as already changed.
        if len(after) == 1 and costs[after[0]] <= costs[v]:
            w = after[0]
            if found[v] + times[w] <= caps[w]:
                costs[v] = math.inf
                continue
        if len(before) == 1 and costs[before[0]] <= costs[v] and least[v] <= room[v]:
            costs[v] = math.inf
    return _with(core, costs=costs)


def _merge_twins(core: Core) -> Core:
    """Let one node stand for all with the same producers, consumers and time."""
    groups: dict[tuple[float, tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for v in range(core.size):
        key = (
            core.times[v],
            tuple(sorted(core.predecessors[v])),
            tuple(sorted(core.successors[v])),
        )
        groups.setdefault(key, []).append(v)
    if len(groups) == core.size:
        return core
    number = [-1] * core.size
    heads: list[list[int]] = sorted(groups.values())
    for i, group in enumerate(heads):
        number[group[0]] = i
    costs = [math.fsum(core.costs[v] for v in group) for group in heads]
    return Core(
        times=[core.times[group[0]] for group in heads],
        caps=[min(core.caps[v] for v in group) for group in heads],
        costs=costs,
        predecessors=[
            [number[u] for u in core.predecessors[g[0]] if number[u] >= 0] for g in heads
        ],
        successors=[[number[w] for w in core.successors[g[0]] if number[w] >= 0] for g in heads],
        members=[tuple(m for v in group for m in core.members[v]) for group in heads],
    )


def components(core: Core) -> list[Core]:
    """The weakly connected parts in topological order; those without a choice are left out."""
    parent = list(range(core.size))

    def find(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for v, producers in enumerate(core.predecessors):
        for u in producers:
            a, b = find(u), find(v)
            if a != b:
                parent[max(a, b)] = min(a, b)
    parts: dict[int, list[int]] = {}
    for v in range(core.size):
        parts.setdefault(find(v), []).append(v)
    return [
        subcore(core, nodes)
        for nodes in parts.values()
        if any(core.costs[v] < math.inf for v in nodes)
    ]


def subcore(core: Core, nodes: list[int]) -> Core:
    """The part induced by nodes, which are in topological order."""
    number = {v: i for i, v in enumerate(nodes)}
    return Core(
        times=[core.times[v] for v in nodes],
        caps=[core.caps[v] for v in nodes],
        costs=[core.costs[v] for v in nodes],
        predecessors=[[number[u] for u in core.predecessors[v] if u in number] for v in nodes],
        successors=[[number[w] for w in core.successors[v] if w in number] for v in nodes],
        members=[core.members[v] for v in nodes],
    )


def _with(core: Core, *, caps: list[float] | None = None, costs: list[float] | None = None) -> Core:
    return Core(
        times=core.times,
        caps=core.caps if caps is None else caps,
        costs=core.costs if costs is None else costs,
        predecessors=core.predecessors,
        successors=core.successors,
        members=core.members,
    )
