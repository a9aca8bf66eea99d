"""The task graph: what a topology looks like when every operator is its parallel tasks.

Built once per topology with array operations only, because Full links between wide operators have
millions of task pairs. Tasks are numbered operator by operator in the file's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.topology.graph import Numbers, Topology, iter_links, per_task
from holdfast.topology.links import reach

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_KINDS = {"full": 0, "one-to-one": 1, "split": 2, "merge": 3}


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskGraph:
    """Tasks and the links between them, as parallel arrays."""

    topology: Topology
    operator_of: IntArray
    """Per task, the position of its operator."""
    first: IntArray
    """Per operator, its first task; one more entry closes the last."""
    link_source: IntArray
    """Per link, the upstream task."""
    link_target: IntArray
    """Per link, the downstream task."""
    link_edge: IntArray
    """Per link, the position of the operator edge it belongs to (an input stream)."""
    link_share: FloatArray
    """Per link, the share of the upstream task's output that it carries."""

    @property
    def size(self) -> int:
        return len(self.operator_of)

    @property
    def names(self) -> tuple[str, ...]:
        return self.topology.task_names

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def order(self) -> IntArray:
        """Tasks, every producer before its consumers."""
        if not self.size:
            return np.zeros(0, np.int64)
        rank = np.empty(len(self.topology.operators), np.int64)
        rank[np.asarray(self.topology.order)] = np.arange(len(rank))
        return np.argsort(rank[self.operator_of], kind="stable")

    @cached_property
    def _incoming(self) -> tuple[IntArray, IntArray]:
        return _group(self.link_target, self.size)

    @cached_property
    def _outgoing(self) -> tuple[IntArray, IntArray]:
        return _group(self.link_source, self.size)

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Per task, its upstream tasks, as plain lists for the planners' inner loops."""
        bounds, links = self._incoming
        return _lists(bounds, self.link_source[links])

    @cached_property
    def successors(self) -> list[list[int]]:
        """Per task, its downstream tasks."""
        bounds, links = self._outgoing
        return _lists(bounds, self.link_target[links])

    def incoming(self, task: int) -> IntArray:
        """Positions of the links into a task."""
        bounds, links = self._incoming
        return links[bounds[task] : bounds[task + 1]]

    @cached_property
    def is_source(self) -> NDArray[np.bool_]:
        return np.asarray(np.bincount(self.link_target, minlength=self.size) == 0)

    def tasks_of(self, operator: int) -> range:
        return range(int(self.first[operator]), int(self.first[operator + 1]))

    def resolve(self, name: str) -> tuple[int, ...]:
        """The tasks meant by a task id, or by an operator's name (all its tasks)."""
        task = self._by_name.get(name)
        if task is not None:
            return (task,)
        operator = self.topology.index.get(name)
        if operator is not None:
            return tuple(self.tasks_of(operator))
        example = self.names[0] if self.names else "name"
        raise BadInputError(
            f"there is no task or operator {name!r}", hint=f"task ids look like {example!r}"
        )

    def values(
        self, field: str, *, default: float | None = None, extensive: bool = False
    ) -> FloatArray:
        """One number per task of an operator field; `default` stands in for None."""
        out = np.empty(self.size)
        for i, operator in enumerate(self.topology.operators):
            value: Numbers | None = getattr(operator, field)
            if value is None:
                if default is None:
                    raise BadInputError(
                        f"operator {operator.name!r} has no {field}",
                        where=self.topology.name,
                        hint=f"write {field} for it",
                    )
                value = default
            start, stop = int(self.first[i]), int(self.first[i + 1])
            if stop - start == 1 and not isinstance(value, tuple):
                out[start] = value
            else:
                out[start:stop] = per_task(value, operator.parallelism, extensive=extensive)
        return out


@lru_cache(maxsize=16)
def task_graph(topology: Topology) -> TaskGraph:
    """The task graph of a topology; asking again for the same object costs nothing."""
    return _build(topology)


def _build(topology: Topology) -> TaskGraph:
    parallelism = np.asarray([operator.parallelism for operator in topology.operators], np.int64)
    first = np.concatenate(([0], np.cumsum(parallelism)))
    rows = [(u, v, _KINDS[kind]) for _, u, v, kind in iter_links(topology)]
    up, down, kind = np.asarray(rows, np.int64).reshape(-1, 3).T
    a, b = parallelism[up], parallelism[down]
    counts = np.select([kind == 0, kind == 2], [a * b, b], a)
    edge = np.repeat(np.arange(len(up)), counts)
    k = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ea, eb, ek = a[edge], b[edge], kind[edge]
    source = np.select([ek == 0, ek == 2], [k // np.maximum(eb, 1), k * ea // eb], k)
    target = np.select([ek == 0, ek == 3], [k % np.maximum(eb, 1), k * eb // ea], k)
    link_source = first[up][edge] + source
    # Equal shares: one over the number of tasks that a producer feeds on this edge.
    pair = np.concatenate(([0], np.cumsum(a)))[edge] + source
    fed = np.bincount(pair, minlength=int(a.sum()))
    share = 1.0 / fed[pair] if len(pair) else np.zeros(0)
    graph = TaskGraph(
        topology=topology,
        operator_of=np.repeat(np.arange(len(parallelism)), parallelism),
        first=first,
        link_source=link_source,
        link_target=first[down][edge] + target,
        link_edge=edge,
        link_share=share,
    )
    starts = np.cumsum(counts) - counts
    for i, (declared, u, v, effective) in enumerate(iter_links(topology)):
        if declared.shares is not None:
            reached = reach(effective, int(parallelism[u]), int(parallelism[v]))
            flat = _flat_shares(declared.shares, reached)
            # Split links are numbered by consumer; the others by producer, then consumer.
            share[starts[i] : starts[i] + counts[i]] = flat
    return graph


def _flat_shares(
    shares: tuple[float, ...] | tuple[tuple[float, ...], ...],
    reached: tuple[tuple[int, ...], ...],
) -> list[float]:
    flat: list[float] = []
    for row, fed in enumerate(reached):
        own = shares[row] if isinstance(shares[0], tuple) else None
        for position, j in enumerate(fed):
            value = own[position] if isinstance(own, tuple) else shares[j]
            flat.append(float(value))  # type: ignore[arg-type]
    return flat


def _group(keys: IntArray, size: int) -> tuple[IntArray, IntArray]:
    order = np.argsort(keys, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=size))))
    return bounds.astype(np.int64), order


def _lists(bounds: IntArray, items: IntArray) -> list[list[int]]:
    values, ends = items.tolist(), bounds.tolist()
    return [values[ends[i] : ends[i + 1]] for i in range(len(ends) - 1)]
