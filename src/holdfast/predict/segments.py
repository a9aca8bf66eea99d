"""Segments as planners see them: operators that a plan keeps in one query, and who reads whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.topology.graph import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlan:
    """One segment as a plan has it."""

    operators: tuple[int, ...]
    """Positions in the topology, its output operator last."""
    interval_s: float
    snapshot_batches: int
    replicated: bool = False
    """Every unit of it has a hot follower."""

    @property
    def root(self) -> int:
        return self.operators[-1]


def segments_of(topology: Topology, ends: set[int]) -> list[tuple[int, ...]]:
    """The segments of a set of boundaries, upstream before downstream, output operator last."""
    rank = {i: position for position, i in enumerate(topology.order)}
    parts = []
    for root in topology.order:
        if root not in ends:
            continue
        found, stack = [root], [root]
        while stack:
            fused = [u for u in topology.upstream[stack.pop()] if u not in ends]
            found += fused
            stack += fused
        parts.append(tuple(sorted(found, key=rank.__getitem__)))
    return parts


def inputs_of(topology: Topology, segments: Sequence[SegmentPlan]) -> list[list[int]]:
    """Per segment, the segments it reads."""
    place = {v: i for i, segment in enumerate(segments) for v in segment.operators}
    return [
        sorted({place[u] for v in segment.operators for u in topology.upstream[v]} - {i})
        for i, segment in enumerate(segments)
    ]
