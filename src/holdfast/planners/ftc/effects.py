"""The failure-effect model: how long a task needs to recover, given which tasks are backups.

A restarted task needs T(v) to reprocess what it lost, after every producer that is not a backup has
first reproduced its own output:

    L(v) = T(v) + max{ L(u) : u upstream of v, u not a backup }     (the max of nothing is 0)

and the topology recovers in O = max L(v). Planners minimise backups under a bound on L; the run
time predicts and judges recoveries with the same functions.

Two conventions for sources. `replayed` (canonical): a source's input is durable but its output is
not, so a source has L = T like any other task and may itself be a backup. `durable`: what a source
emits can be read again at no cost, so every source acts as a backup that nobody pays for.

Full links are kept as hubs. Every consumer of a Full link waits for the same maximum, so one node
with T = 0, which can never be a backup, stands for the a * b task pairs; this keeps passes linear
in tasks where the pairs would be millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.topology.graph import Operator, Topology, iter_links, per_task
from holdfast.topology.links import reach
from holdfast.topology.rates import task_rates
from holdfast.topology.tasks import FloatArray, task_graph

Sources = Literal["replayed", "durable"]
"""Whether a source's output has to be produced again, or can be read again for free."""

TOLERANCE = 1e-9
"""Relative slack of every comparison with a bound: sums of the same floats differ by order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectGraph:
    """Tasks, then hubs, and what waits for what.

    Nodes below `tasks` are the tasks in topology order; the others are hubs.
    """

    topology: Topology
    tasks: int
    predecessors: list[list[int]]
    """Per node, the nodes it waits for."""
    successors: list[list[int]]
    """Per node, the nodes that wait for it."""
    order: list[int]
    """All nodes, every one after its predecessors."""

    @property
    def nodes(self) -> int:
        return len(self.predecessors)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Tasks that nothing feeds."""
        return tuple(v for v in range(self.tasks) if not self.predecessors[v])

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """Tasks that feed nothing."""
        return tuple(v for v in range(self.tasks) if not self.successors[v])

    @property
    def names(self) -> tuple[str, ...]:
        return self.topology.task_names

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: task for task, name in enumerate(self.names)}

    def resolve(self, name: str) -> range:
        """The tasks meant by a task id, or by an operator's name (all its tasks)."""
        task = self._by_name.get(name)
        if task is not None:
            return range(task, task + 1)
        operator = self.topology.operator(name)
        start = self._by_name[operator.task_name(0)]
        return range(start, start + operator.parallelism)

    def flags(self, backups: Iterable[int], sources: Sources = "replayed") -> bytearray:
        """One byte per node, 1 where output survives a failure."""
        flags = bytearray(self.nodes)
        for task in backups:
            flags[task] = 1
        if sources == "durable":
            for task in self.sources:
                flags[task] = 1
        return flags


@lru_cache(maxsize=16)
def effect_graph(topology: Topology) -> EffectGraph:
    """The graph of a topology; Full links between several tasks on both sides become hubs."""
    widths = [operator.parallelism for operator in topology.operators]
    first = [0]
    for width in widths:
        first.append(first[-1] + width)
    tasks = first[-1]
    predecessors: list[list[int]] = [[] for _ in range(tasks)]
    successors: list[list[int]] = [[] for _ in range(tasks)]
    hub_of: dict[int, int] = {}
    for _, u, v, kind in iter_links(topology):
        a, b = widths[u], widths[v]
        if a == 1 and b == 1:
            predecessors[first[v]].append(first[u])
            successors[first[u]].append(first[v])
        elif kind == "full" and a * b > a + b:
            hub = hub_of.get(u)
            if hub is None:
                hub = hub_of[u] = len(predecessors)
                predecessors.append(list(range(first[u], first[u + 1])))
                successors.append([])
                for task in range(first[u], first[u + 1]):
                    successors[task].append(hub)
            successors[hub].extend(range(first[v], first[v + 1]))
            for task in range(first[v], first[v + 1]):
                predecessors[task].append(hub)
        else:
            for j, fed in enumerate(reach(kind, a, b)):
                for k in fed:
                    successors[first[u] + j].append(first[v] + k)
                    predecessors[first[v] + k].append(first[u] + j)
    order: list[int] = []
    for i in topology.order:
        order.extend(range(first[i], first[i + 1]))
        if i in hub_of:
            order.append(hub_of[i])
    return EffectGraph(
        topology=topology,
        tasks=tasks,
        predecessors=predecessors,
        successors=successors,
        order=order,
    )


@lru_cache(maxsize=4)
def plain_graph(topology: Topology) -> EffectGraph:
    """The same graph with every task pair spelled out, for algorithms that count neighbours."""
    graph = task_graph(topology)
    return EffectGraph(
        topology=topology,
        tasks=graph.size,
        predecessors=graph.predecessors,
        successors=graph.successors,
        order=graph.order.tolist(),
    )


# -- reprocessing times ---------------------------------------------------------------------------


def reprocess_times(topology: Topology, *, expected: bool = False) -> FloatArray:
    """T of every task, in the file's time unit.

    `reprocess_time` where the file gives it. Else it is derived from `checkpoint_interval`: in the
    worst case a failure strikes just before the next checkpoint and a whole interval has to be
    replayed, which is what a bound needs; `expected` takes half of it, the mean. Replaying an
    interval takes interval * input rate * cost per tuple when both are known (above 0), because
    stored input is read as fast as the task can work; else the interval itself is taken. Without
    either field T is 0.
    """
    share = 0.5 if expected else 1.0
    needs_rates = any(
        operator.reprocess_time is None and operator.checkpoint_interval is not None
        for operator in topology.operators
    ) and bool(topology.rates or topology.task_rates)
    arriving = task_rates(topology).input if needs_rates else None
    out = np.zeros(topology.task_count)
    start = 0
    for operator in topology.operators:
        stop = start + operator.parallelism
        if operator.reprocess_time is not None:
            out[start:stop] = per_task(operator.reprocess_time, operator.parallelism)
        elif operator.checkpoint_interval is not None:
            rates = None if arriving is None else arriving[start:stop]
            out[start:stop] = share * _replay(operator, rates)
        start = stop
    return out


def _replay(operator: Operator, rates: FloatArray | None) -> FloatArray:
    """Time each task needs to replay one whole checkpoint interval."""
    interval = np.asarray(per_task(operator.checkpoint_interval or 0.0, operator.parallelism))
    if rates is None:
        return interval
    work = rates * np.asarray(per_task(operator.cost, operator.parallelism))
    return np.where(work > 0, interval * work, interval)


# -- latencies ------------------------------------------------------------------------------------


def recovery_latencies(
    graph: EffectGraph,
    times: Sequence[float] | NDArray[np.float64],
    backups: Iterable[int],
    *,
    sources: Sources = "replayed",
) -> list[float]:
    """L of every task; one pass over the links."""
    spelled = [*np.asarray(times, float).tolist(), *([0.0] * (graph.nodes - graph.tasks))]
    found = latencies(graph, spelled, graph.flags(backups, sources))
    return found[: graph.tasks]


def latencies(graph: EffectGraph, times: Sequence[float], backed: bytearray) -> list[float]:
    """L of every node, hubs included; the inner loop of everything else."""
    found = [0.0] * graph.nodes
    predecessors = graph.predecessors
    for v in graph.order:
        wait = 0.0
        for u in predecessors[v]:
            if not backed[u] and found[u] > wait:
                wait = found[u]
        found[v] = wait + times[v]
    return found


def overall_latency(latency: Iterable[float]) -> float:
    """O: the longest recovery of all; 0 without tasks."""
    return max(latency, default=0.0)


def slack(bound: float) -> float:
    """The bound with its tolerance: a latency up to this counts as within it."""
    return bound + TOLERANCE * max(1.0, abs(bound))
