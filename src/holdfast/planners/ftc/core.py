"""The bare instance that solvers work on, and the linear passes over it.

A core has its nodes in topological order, forbidden nodes as infinite costs, and caps that already
fold forbidden nodes in (see `problem`). Three facts carry every pass:

- `latencies`: L(v) given the backups upstream;
- `room(v)`: the largest L(v) that all later tasks can live with, given the backups downstream;
- a plan is feasible exactly when L(v) <= room(v) everywhere, so a backup v is redundant exactly
  when L(v) <= the least room(w) - T(w) of its consumers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Core:
    """An instance over nodes 0..n-1, numbered so that links lead upwards."""

    times: list[float]
    caps: list[float]
    costs: list[float]
    """Infinite: never a backup."""
    predecessors: list[list[int]]
    successors: list[list[int]]
    members: list[tuple[int, ...]]
    """Per node, the tasks of the original instance that are backed up together with it."""

    @property
    def size(self) -> int:
        return len(self.times)

    @property
    def links(self) -> int:
        return sum(map(len, self.predecessors))

    def cost(self, backed: bytearray) -> float:
        return math.fsum(c for c, b in zip(self.costs, backed, strict=True) if b)

    def flags(self, nodes: Iterable[int] = ()) -> bytearray:
        flags = bytearray(self.size)
        for node in nodes:
            flags[node] = 1
        return flags


def latencies(core: Core, backed: Sequence[int]) -> list[float]:
    """L of every node."""
    found = [0.0] * core.size
    times = core.times
    for v, producers in enumerate(core.predecessors):
        wait = 0.0
        for u in producers:
            if not backed[u] and found[u] > wait:
                wait = found[u]
        found[v] = wait + times[v]
    return found


def rooms(core: Core, backed: Sequence[int]) -> list[float]:
    """Per node, the largest L that it and all later nodes can live with."""
    room = list(core.caps)
    times, successors = core.times, core.successors
    for v in range(core.size - 1, -1, -1):
        if not backed[v]:
            least = room[v]
            for w in successors[v]:
                left = room[w] - times[w]
                if left < least:  # noqa: PLR1730  min() costs a call per link
                    least = left
            room[v] = least
    return room


def least_latencies(core: Core) -> list[float]:
    """L when everything that may be a backup is one: only forbidden producers are waited for."""
    return latencies(core, [cost < math.inf for cost in core.costs])


def late(core: Core, start: Sequence[int] | None = None) -> bytearray:
    """Back a node up only when some consumer could not wait for it; one forward pass."""
    size, times, caps, costs = core.size, core.times, core.caps, core.costs
    backed = bytearray(start) if start is not None else bytearray(size)
    found = [0.0] * size
    successors = core.successors
    for v, producers in enumerate(core.predecessors):
        wait = 0.0
        for u in producers:
            if not backed[u] and found[u] > wait:
                wait = found[u]
        own = found[v] = wait + times[v]
        if not backed[v] and costs[v] < math.inf:
            for w in successors[v]:
                if own + times[w] > caps[w]:
                    backed[v] = 1
                    break
    return backed


def early(core: Core, start: Sequence[int] | None = None) -> bytearray:
    """The mirror image: from the sinks up, back a node up only when it alone is too long."""
    size, times, costs = core.size, core.times, core.costs
    backed = bytearray(start) if start is not None else bytearray(size)
    least = least_latencies(core)
    room = list(core.caps)
    successors = core.successors
    for v in range(size - 1, -1, -1):
        if backed[v]:
            continue
        left = math.inf
        for w in successors[v]:
            left = min(left, room[w] - times[w])
        if left < least[v] and costs[v] < math.inf:
            backed[v] = 1
        elif left < room[v]:
            room[v] = left
    return backed


def prune_forward(core: Core, backed: bytearray) -> bytearray:
    """Drop redundant backups, earliest first; what is left is irredundant."""
    kept = bytearray(backed)
    room = rooms(core, kept)
    times, successors = core.times, core.successors
    found = [0.0] * core.size
    for v, producers in enumerate(core.predecessors):
        wait = 0.0
        for u in producers:
            if not kept[u] and found[u] > wait:
                wait = found[u]
        own = found[v] = wait + times[v]
        if kept[v] and all(own + times[w] <= room[w] for w in successors[v]):
            kept[v] = 0
    return kept


def prune_backward(core: Core, backed: bytearray) -> bytearray:
    """Drop redundant backups, latest first; what is left is irredundant."""
    kept = bytearray(backed)
    found = latencies(core, kept)
    room = list(core.caps)
    times, successors = core.times, core.successors
    for v in range(core.size - 1, -1, -1):
        left = math.inf
        for w in successors[v]:
            left = min(left, room[w] - times[w])
        if kept[v]:
            if found[v] > left:
                continue
            kept[v] = 0
        room[v] = min(room[v], left)
    return kept
