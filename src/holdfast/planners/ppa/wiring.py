"""Tasks and the accumulators between them, for the algorithms that go task by task.

Every input of a task is a slot that its upstream tasks add to: completeness times a weight. The
consumers of a Full link read one slot in common; all other inputs are private to a task, and those
of an independent-input task are folded into one. A task's input is the weighted sum of the slots it
reads, or their product for a join.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from holdfast.planners.ppa.fidelity import FidelityModel
from holdfast.planners.ppa.fidelity_streams import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Wiring:
    """Who adds to which slot and who reads it; links of weight zero are left out."""

    reads: list[list[tuple[int, float]]]
    """Per task, (slot, factor)."""
    is_join: list[bool]
    """Per task: the slots it reads are multiplied, not added."""
    writes: list[list[tuple[int, float]]]
    """Per task, (slot, weight)."""
    writers: list[list[int]]
    """Per slot, the tasks that add to it."""
    readers: list[list[int]]
    """Per slot, the tasks that read it."""
    worth: FloatArray
    """Per task, what its completeness adds to OF directly (positive at query sinks)."""
    order: list[int]
    """Tasks that a query depends on, producers first, one sink's whole cone before the next."""


@lru_cache(maxsize=16)
def wiring(model: FidelityModel) -> Wiring:
    """The slots of a model."""
    size = model.size
    reads: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    writes: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    writers: list[list[int]] = []
    is_join = [False] * size
    for i, inputs in enumerate(model.inputs):
        span = model.spans[i]
        tasks = range(span.start, span.stop)
        joined = model.is_join[i] and len(inputs) > 1
        private: list[int] = []
        for item in inputs:
            base = model.spans[item.producer].start
            factors = [1.0] * len(tasks) if joined else item.weight.tolist()
            if item.stream.is_shared:
                slot = len(writers)
                writers.append([])
                _connect(writes, writers, slot, base, item.stream.parts(0), 1.0)
                for k, task in enumerate(tasks):
                    reads[task].append((slot, factors[k]))
                continue
            if joined or not private:
                private = list(range(len(writers), len(writers) + len(tasks)))
                writers.extend([] for _ in tasks)
                for slot, task in zip(private, tasks, strict=True):
                    reads[task].append((slot, 1.0))
            for k, slot in enumerate(private):
                _connect(writes, writers, slot, base, item.stream.parts(k), factors[k])
        for task in tasks:
            is_join[task] = joined
    worth = np.zeros(size)
    for query in model.queries:
        worth[model.spans[query.operator]] += query.weight * query.parts
    readers: list[list[int]] = [[] for _ in writers]
    for task, items in enumerate(reads):
        for slot, factor in items:
            if factor > 0:
                readers[slot].append(task)
    return Wiring(
        reads=reads,
        is_join=is_join,
        writes=writes,
        writers=writers,
        readers=readers,
        worth=worth,
        order=_depth_first(reads, writers, np.flatnonzero(worth > 0).tolist()),
    )


def _connect(
    writes: list[list[tuple[int, float]]],
    writers: list[list[int]],
    slot: int,
    base: int,
    parts: tuple[object, object],
    factor: float,
) -> None:
    members, weights = parts
    for k, weight in zip(members, weights, strict=True):  # type: ignore[call-overload]
        if weight * factor > 0:
            writes[base + k].append((slot, weight * factor))
            writers[slot].append(base + k)


def _depth_first(
    reads: list[list[tuple[int, float]]], writers: list[list[int]], sinks: list[int]
) -> list[int]:
    # Depth first keeps few slots half filled, which is what the exact search pays for.
    seen = [0] * len(reads)
    order: list[int] = []
    for sink in sinks:
        stack = [sink]
        while stack:
            task = stack[-1]
            if seen[task]:
                stack.pop()
                if seen[task] == 1:
                    seen[task] = 2
                    order.append(task)
                continue
            seen[task] = 1
            for slot, _ in reversed(reads[task]):
                stack.extend(a for a in reversed(writers[slot]) if not seen[a])
    return order
