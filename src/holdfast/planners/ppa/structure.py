"""The structure of a topology: sub-topologies, units and segments.

Sub-topologies (section 4.3). A structured one holds operators linked by anything but Full, so only
operators that produce its output may have a Full link; a full one holds operators all of whose
links are Full. Between two of them every link is Full, which makes their plans independent. Both
conditions together leave one answer: operators that a structured link connects belong together,
and the rest are grouped along the Full links among them. (The paper says the search walks
downstream; from a sink it can only walk upstream.) For several queries each has its own
decomposition, of the operators it depends on; they may share operators.

Units (section 4.1). Within a structured sub-topology, the number of MC-trees multiplies where a
task with several producers also has several consumers, or joins several producers of one stream
with another stream. Cutting the Merge link above such an operator leaves units in which there are
no more trees than the widest operator has inputs. A tree of a unit is a segment.

A link into a single task is Full by definition, whatever it was called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from holdfast.topology.graph import Topology, iter_links
from holdfast.topology.links import Partitioning
from holdfast.topology.tasks import task_graph

Kind = Literal["structured", "full"]
Link = tuple[int, int, Partitioning]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTopology:
    """Operators that are planned together."""

    kind: Kind
    operators: tuple[int, ...]
    """Positions in the topology, rising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Operators of a structured sub-topology with no more trees than the widest has inputs."""

    operators: tuple[int, ...]
    """Positions in the topology, rising."""
    segments: tuple[tuple[int, ...], ...]
    """The unit's minimal complete trees, as tasks."""


def decompose(topology: Topology, query: str | None = None) -> tuple[SubTopology, ...]:
    """Sub-topologies of a whole topology, or of the operators one query depends on."""
    within = _ancestors(topology, query)
    links = _links(topology, within)
    structured = [(u, v) for u, v, kind in links if kind != "full"]
    touched = {i for pair in structured for i in pair}
    groups = [
        SubTopology(kind="structured", operators=tuple(group))
        for group in _components(touched, structured)
    ]
    rest = within - touched
    wide = [(u, v) for u, v, kind in links if u in rest and v in rest]
    groups += [
        SubTopology(kind="full", operators=tuple(group)) for group in _components(rest, wide)
    ]
    return tuple(sorted(groups, key=lambda group: group.operators))


def units_of(topology: Topology, part: SubTopology) -> tuple[Unit, ...]:
    """Units of a structured sub-topology (of a full one: every operator is a unit)."""
    members = set(part.operators)
    inner = [link for link in _links(topology, members) if link[2] != "full"]
    splits = {u for u, _, kind in _links(topology, set(topology.index.values())) if kind == "split"}
    uncut = [
        (u, v)
        for u, v, kind in inner
        if not (kind == "merge" and (v in splits or _joins(topology, v)))
    ]
    return tuple(
        Unit(operators=tuple(group), segments=_segments(topology, group, uncut))
        for group in _components(members, uncut)
    )


def _joins(topology: Topology, i: int) -> bool:
    return topology.operators[i].input == "correlated" and len(topology.upstream[i]) > 1


def _ancestors(topology: Topology, query: str | None) -> set[int]:
    if query is None:
        return set(range(len(topology.operators)))
    sink = next(q.sink for q in topology.effective_queries if q.name == query)
    walk = [topology.index[sink]]
    seen = set(walk)
    for i in walk:
        for u in topology.upstream[i]:
            if u not in seen:
                seen.add(u)
                walk.append(u)
    return seen


def _links(topology: Topology, within: set[int]) -> list[Link]:
    return [(u, v, kind) for _, u, v, kind in iter_links(topology) if u in within and v in within]


def _components(nodes: Iterable[int], pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Connected components, each rising, in the order of their smallest member."""
    near: dict[int, list[int]] = {node: [] for node in sorted(nodes)}
    for u, v in pairs:
        near[u].append(v)
        near[v].append(u)
    seen: set[int] = set()
    found: list[list[int]] = []
    for start in near:
        if start in seen:
            continue
        seen.add(start)
        walk = [start]
        for i in walk:
            for j in near[i]:
                if j not in seen:
                    seen.add(j)
                    walk.append(j)
        found.append(sorted(walk))
    return found


def _segments(
    topology: Topology, group: Sequence[int], uncut: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], ...]:
    """Minimal complete trees of a unit, its links only."""
    graph = task_graph(topology)
    members = set(group)
    kept = {(u, v) for u, v in uncut if u in members and v in members}
    feeds: dict[int, dict[int, list[int]]] = {}
    last = members - {u for u, _ in kept}
    for i in group:
        for task in graph.tasks_of(i):
            streams: dict[int, list[int]] = {}
            for link in graph.incoming(task).tolist():
                producer = int(graph.link_source[link])
                owner = int(graph.operator_of[producer])
                if (owner, i) in kept:
                    streams.setdefault(owner, []).append(producer)
            feeds[task] = streams
    trees: dict[int, set[frozenset[int]]] = {}
    for i in topology.order:
        if i not in members:
            continue
        for task in graph.tasks_of(i):
            trees[task] = _fed(task, feeds[task], trees, joined=_joins(topology, i))
    found = {tree for i in last for task in graph.tasks_of(i) for tree in trees[task]}
    return tuple(sorted(tuple(sorted(tree)) for tree in found))


def _fed(
    task: int,
    streams: dict[int, list[int]],
    trees: dict[int, set[frozenset[int]]],
    *,
    joined: bool,
) -> set[frozenset[int]]:
    own = frozenset((task,))
    if not streams:
        return {own}
    options = [[tree for a in stream for tree in trees[a]] for stream in streams.values()]
    if joined:
        return {own.union(*choice) for choice in product(*options)}
    return {own | tree for option in options for tree in option}
