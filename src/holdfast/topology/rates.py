"""Tuple rates through a topology, per operator and per task.

A source takes the rate the file gives it; every output rate is input rate times selectivity, and
an operator's output goes whole to each of its consumers. A join's input rate is the sum of its
inputs'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from holdfast.topology.graph import Topology, per_operator
from holdfast.topology.tasks import FloatArray, TaskGraph, task_graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorRates:
    """Tuples per time unit into and out of each operator, in the file's order."""

    input: FloatArray
    output: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskRates:
    """Tuples per time unit into and out of each task, and on each link."""

    input: FloatArray
    output: FloatArray
    link: FloatArray


@lru_cache(maxsize=16)
def operator_rates(topology: Topology) -> OperatorRates:
    """Omega of every operator: at a source its entry in `rates`, else what arrives."""
    size = len(topology.operators)
    into, out = [0.0] * size, [0.0] * size
    for i in topology.order:
        operator = topology.operators[i]
        selectivity = per_operator(operator.selectivity)
        if not topology.upstream[i]:
            task_outputs = topology.task_rates.get(operator.name)
            if operator.name in topology.rates or task_outputs is None:
                into[i] = topology.rates.get(operator.name, 0.0)
            elif selectivity > 0:
                into[i] = sum(task_outputs) / selectivity
            out[i] = sum(task_outputs) if task_outputs is not None else into[i] * selectivity
        else:
            out[i] = into[i] * selectivity
        for j in topology.downstream[i]:
            into[j] += out[i]
    return OperatorRates(input=np.asarray(into), output=np.asarray(out))


@lru_cache(maxsize=16)
def task_rates(topology: Topology) -> TaskRates:
    """Rates of tasks and links; source tasks emit `task_rates`, or equal parts."""
    graph = task_graph(topology)
    selectivity = graph.values("selectivity")
    into, out = np.zeros(graph.size), np.zeros(graph.size)
    for i in topology.sources:
        _seed_source(topology, graph, i, selectivity, into, out)
    link = np.zeros(len(graph.link_source))
    rank = np.empty(len(topology.operators), np.int64)
    rank[np.asarray(topology.order)] = np.arange(len(rank))
    by_consumer = np.argsort(rank[graph.operator_of[graph.link_target]], kind="stable")
    consumer = rank[graph.operator_of[graph.link_target[by_consumer]]]
    bounds = np.searchsorted(consumer, np.arange(len(rank) + 1)).tolist()
    for position, i in enumerate(topology.order):
        start, stop = bounds[position], bounds[position + 1]
        if start == stop:
            continue
        links = by_consumer[start:stop]
        carried = out[graph.link_source[links]] * graph.link_share[links]
        link[links] = carried
        low, high = int(graph.first[i]), int(graph.first[i + 1])
        into[low:high] = np.bincount(
            graph.link_target[links] - low, weights=carried, minlength=high - low
        )
        out[low:high] = into[low:high] * selectivity[low:high]
    return TaskRates(input=into, output=out, link=link)


def _seed_source(
    topology: Topology,
    graph: TaskGraph,
    i: int,
    selectivity: FloatArray,
    into: FloatArray,
    out: FloatArray,
) -> None:
    operator = topology.operators[i]
    span = slice(int(graph.first[i]), int(graph.first[i + 1]))
    given = topology.task_rates.get(operator.name)
    into[span] = topology.rates.get(operator.name, 0.0) / operator.parallelism
    if given is None:
        out[span] = into[span] * selectivity[span]
        return
    out[span] = given
    with np.errstate(divide="ignore", invalid="ignore"):
        derived = np.where(selectivity[span] > 0, out[span] / selectivity[span], into[span])
    into[span] = derived
