"""Fidelity: how much of the source input the output still reflects when tasks have failed.

The model is PPA's (eq. 1 to 4). A failed task loses its whole output. A live task of an
independent-input operator loses what its inputs lost, averaged by rate; one of a correlated-input
operator (a join) keeps the product of what its input streams kept. The output fidelity (OF) of a
query is the completeness of its sink tasks averaged by output rate; that of the topology is the
average over queries by priority, which is what PPA's virtual sink computes.

Internal completeness (IC) is the measure PPA is compared with: tuples processed by all tasks, over
those processed without failures, joins treated like unions.

OF is a polynomial in the tasks' states with one non-negative monomial per minimal complete tree.
Hence it is monotone and supermodular, and one backward pass gives the exact change of OF for every
single task that fails or returns (`marginals`), unless a join combines two streams that come from
one operator: there a task enters squared, and the changes are found by trying.

Sources have no inputs, their own is durable, but they may fail like any task. A query may read an
operator that also feeds others. Where nothing flows at all, parts count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.planners.ppa.fidelity_levels import LevelPasses, level_passes
from holdfast.planners.ppa.fidelity_streams import (
    FloatArray,
    Stream,
    StreamRates,
    shares_of,
    stream_rates,
)
from holdfast.topology.graph import Topology

BoolArray = NDArray[np.bool_]

BATCH_CELLS = 4_000_000
"""Tasks times failure sets evaluated at once: bounds the memory of `evaluate`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Input:
    """One input stream of an operator."""

    producer: int
    """Position of the upstream operator."""
    stream: Stream
    weight: FloatArray
    """Per task of the operator, the part this stream has in what arrives there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuerySink:
    """A query's sink and how its tasks count."""

    name: str
    operator: int
    weight: float
    """Priority over the sum of priorities."""
    parts: FloatArray
    """Per sink task, its part of the query's output."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """What a number of failure sets leave of the output; the first axis is the failure set."""

    fidelity: FloatArray
    per_query: FloatArray
    """Failure sets by queries."""
    completeness: FloatArray
    """Internal completeness."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FidelityModel:
    """A topology prepared for asking what survives; see `fidelity_model`."""

    topology: Topology
    names: tuple[str, ...]
    """Task ids in topology order."""
    spans: tuple[slice, ...]
    """Per operator, its tasks."""
    inputs: tuple[tuple[Input, ...], ...]
    """Per operator, its input streams."""
    is_join: tuple[bool, ...]
    queries: tuple[QuerySink, ...]
    input_rate: FloatArray
    output_rate: FloatArray

    @property
    def size(self) -> int:
        return len(self.names)

    # -- asking -----------------------------------------------------------------------------------

    def fidelity(self, alive: BoolArray) -> float:
        """OF when exactly the tasks marked in `alive` run."""
        return float(self.weigh(self.propagate(alive.astype(np.float64))))

    def fidelity_per_query(self, alive: BoolArray) -> dict[str, float]:
        """OF of each query."""
        complete = self.propagate(alive.astype(np.float64))
        return {q.name: float(q.parts @ complete[self.spans[q.operator]]) for q in self.queries}

    def completeness(self, alive: BoolArray) -> float:
        """Internal completeness when exactly the tasks marked in `alive` run."""
        return float(self.evaluate(alive[None, :]).completeness[0])

    def evaluate(self, alive: BoolArray) -> Evaluation:
        """OF, OF per query and IC of many failure sets at once; `alive` has one row per set."""
        sets = len(alive)
        fidelity, completeness = np.empty(sets), np.empty(sets)
        per_query = np.empty((sets, len(self.queries)))
        processed = shares_of(self.input_rate)
        step = max(1, BATCH_CELLS // max(self.size, 1))
        for start in range(0, sets, step):
            rows = slice(start, min(start + step, sets))
            state = np.ascontiguousarray(alive[rows].T, dtype=np.float64)
            complete = self.propagate(state)
            for k, query in enumerate(self.queries):
                per_query[rows, k] = query.parts @ complete[self.spans[query.operator]]
            fidelity[rows] = self.weigh(complete)
            united = self.propagate(state, joins=False) if any(self.is_join) else complete
            completeness[rows] = processed @ united
        return Evaluation(fidelity=fidelity, per_query=per_query, completeness=completeness)

    def fidelities(self, alive: BoolArray) -> FloatArray:
        """OF of many failure sets at once; `alive` has one row per set."""
        out = np.empty(len(alive))
        step = max(1, BATCH_CELLS // max(self.size, 1))
        for start in range(0, len(alive), step):
            rows = slice(start, min(start + step, len(alive)))
            state = np.ascontiguousarray(alive[rows].T, dtype=np.float64)
            out[rows] = self.weigh(self.propagate(state))
        return out

    def marginals(self, alive: BoolArray) -> FloatArray:
        """Per task, OF with it alive minus OF with it failed, the others as in `alive`.

        One pass forward and one backward where OF is linear in each task's state, because then
        its derivative is the difference; else one evaluation per task.
        """
        if self.is_linear:
            state = alive.astype(np.float64)
            return self.sensitivity(state, self.propagate(state))
        out = np.empty(self.size)
        base = self.fidelity(alive)
        step = max(1, BATCH_CELLS // self.size)
        for start in range(0, self.size, step):
            tasks = np.arange(start, min(start + step, self.size))
            flipped = np.repeat(alive[None, :], len(tasks), axis=0)
            flipped[np.arange(len(tasks)), tasks] ^= True
            change = self.fidelities(flipped) - base
            out[tasks] = np.where(alive[tasks], -change, change)
        return out

    @cached_property
    def is_linear(self) -> bool:
        """No join combines streams that share an upstream operator."""
        if not any(self.is_join):
            return True
        above: list[int] = [0] * len(self.inputs)
        for i in self.topology.order:
            seen = 0
            for item in self.inputs[i]:
                own = above[item.producer] | (1 << item.producer)
                if self.is_join[i] and seen & own:
                    return False
                seen |= own
            above[i] = seen
        return True

    # -- the passes -------------------------------------------------------------------------------

    def propagate(self, state: FloatArray, *, joins: bool = True) -> FloatArray:
        """Completeness of every task's output; `joins=False` treats joins as unions."""
        if self._levels is not None:
            return self._levels.propagate(state, joins=joins)
        complete = state.copy()
        for i in self.topology.order:
            if self.inputs[i]:
                complete[self.spans[i]] *= self.arriving(i, complete, joins=joins)
        return complete

    def arriving(self, operator: int, complete: FloatArray, *, joins: bool = True) -> FloatArray:
        """Completeness of what reaches each task of an operator."""
        inputs = self.inputs[operator]
        if len(inputs) == 1:
            return inputs[0].stream.gather(complete[self.spans[inputs[0].producer]])
        is_product = joins and self.is_join[operator]
        width = self.spans[operator].stop - self.spans[operator].start
        total = np.full((width, *complete.shape[1:]), 1.0 if is_product else 0.0)
        for item in inputs:
            part = item.stream.gather(complete[self.spans[item.producer]])
            if is_product:
                total *= part
            else:
                total += (item.weight * part.T).T
        return total

    def weigh(self, complete: FloatArray) -> FloatArray:
        """OF from completeness."""
        total = np.zeros(complete.shape[1:])
        for query in self.queries:
            total = total + query.weight * (query.parts @ complete[self.spans[query.operator]])
        return total

    def sensitivity(self, state: FloatArray, complete: FloatArray) -> FloatArray:
        """Derivative of OF by each task's state (of one failure set), from `propagate`."""
        down = np.zeros(self.size)
        for query in self.queries:
            down[self.spans[query.operator]] += query.weight * query.parts
        if self._levels is not None:
            return self._levels.sensitivity(state, complete, down)
        by_state = np.empty_like(complete)
        for i in reversed(self.topology.order):
            span, inputs = self.spans[i], self.inputs[i]
            if not inputs:
                by_state[span] = down[span]
                continue
            passed = down[span] * state[span]
            parts = [item.stream.gather(complete[self.spans[item.producer]]) for item in inputs]
            if len(inputs) == 1:
                by_state[span] = down[span] * parts[0]
                down[self.spans[inputs[0].producer]] += inputs[0].stream.scatter(passed)
                continue
            by_state[span] = down[span] * self.arriving(i, complete)
            for k, item in enumerate(inputs):
                if self.is_join[i]:
                    others = [part for j, part in enumerate(parts) if j != k]
                    share = passed * np.prod(np.broadcast_arrays(*others), axis=0)
                else:
                    share = (item.weight * passed.T).T
                down[self.spans[item.producer]] += item.stream.scatter(share)
        return by_state

    @cached_property
    def _levels(self) -> LevelPasses | None:
        return level_passes(self)

    # -- names ------------------------------------------------------------------------------------

    def resolve(self, name: str) -> range:
        """The tasks meant by a task id, or by an operator's name (all its tasks)."""
        operator = self.topology.index.get(name)
        if operator is not None:
            span = self.spans[operator]
            return range(span.start, span.stop)
        stem, _, number = name.rpartition(".")
        operator = self.topology.index.get(stem)
        if operator is not None and number.isdecimal():
            task = self.spans[operator].start + int(number)
            if task < self.spans[operator].stop and self.names[task] == name:
                return range(task, task + 1)
        raise BadInputError(
            f"there is no task or operator {name!r}", hint=f"task ids look like {self.names[0]!r}"
        )

    def domains(self) -> Mapping[str, list[int]]:
        """Failure domain to its tasks."""
        found: dict[str, list[int]] = {}
        for operator, span in zip(self.topology.operators, self.spans, strict=True):
            label = operator.failure_domain
            if label is None:
                continue
            for k, task in enumerate(range(span.start, span.stop)):
                found.setdefault(label if isinstance(label, str) else label[k], []).append(task)
        return found

    def domain(self, label: str) -> list[int]:
        """The tasks of a failure domain; one clear line when there is none."""
        known = self.domains()
        if label not in known:
            raise BadInputError(
                f"no operator names the failure domain {label!r}",
                hint=f"known: {', '.join(sorted(known))}" if known else "write failure_domain",
            )
        return known[label]


@lru_cache(maxsize=16)
def fidelity_model(topology: Topology) -> FidelityModel:
    """The fidelity model of a topology; asking again for the same object costs nothing."""
    rates = stream_rates(topology)
    ends = [0]
    for operator in topology.operators:
        ends.append(ends[-1] + operator.parallelism)
    spans = tuple(slice(a, b) for a, b in pairwise(ends))
    return FidelityModel(
        topology=topology,
        names=tuple(
            operator.task_name(k)
            for operator in topology.operators
            for k in range(operator.parallelism)
        ),
        spans=spans,
        inputs=_inputs(topology, rates, spans),
        is_join=tuple(operator.input == "correlated" for operator in topology.operators),
        queries=_queries(topology, rates, spans),
        input_rate=rates.input,
        output_rate=rates.output,
    )


def _inputs(
    topology: Topology, rates: StreamRates, spans: tuple[slice, ...]
) -> tuple[tuple[Input, ...], ...]:
    edges: list[list[int]] = [[] for _ in topology.operators]
    for e, edge in enumerate(topology.edges):
        edges[topology.index[edge.target]].append(e)
    found: list[tuple[Input, ...]] = []
    for i, incoming in enumerate(edges):
        total = rates.input[spans[i]]
        row: list[Input] = []
        for e in incoming:
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = np.where(total > 0, rates.arriving[e] / total, 1.0 / len(incoming))
            producer = topology.index[topology.edges[e].source]
            row.append(Input(producer=producer, stream=rates.streams[e], weight=weight))
        found.append(tuple(row))
    return tuple(found)


def _queries(
    topology: Topology, rates: StreamRates, spans: tuple[slice, ...]
) -> tuple[QuerySink, ...]:
    queries = topology.effective_queries
    priorities = sum(query.priority for query in queries)
    return tuple(
        QuerySink(
            name=query.name,
            operator=topology.index[query.sink],
            weight=query.priority / priorities,
            parts=shares_of(rates.output[spans[topology.index[query.sink]]]),
        )
        for query in queries
    )
