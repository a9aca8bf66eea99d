"""The load that a topology and its statistics describe, per operator, in seconds and bytes.

What was measured goes before what the topology file says; what neither says has a plain default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics
from holdfast.topology.graph import Topology, per_operator
from holdfast.topology.rates import operator_rates

FloatArray = NDArray[np.float64]

QUANTITIES = ("received", "emitted", "tuple_size", "busy", "written", "state", "change")


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A number per operator, and its 95th percentile."""

    value: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Per operator, all shards together, in seconds and bytes."""

    shards: FloatArray
    skew: FloatArray
    received: Known
    """Tuples per second."""
    emitted: Known
    """Tuples per second."""
    tuple_size: Known
    """Bytes of a tuple received."""
    busy: Known
    """Seconds of computing per second."""
    written: Known
    """Bytes per second into its output's log."""
    sent: Known
    """Bytes per second that each of its consumers reads."""
    state: Known
    change: Known

    @classmethod
    def of(cls, topology: Topology, given: Statistics, time_s: float, size: float) -> Workload:
        rates = operator_rates(topology)
        none = OperatorStatistics()
        rows: dict[str, list[tuple[float, float]]] = {name: [] for name in QUANTITIES}
        skews = []
        for i, operator in enumerate(topology.operators):
            found = given.operators.get(operator.name, none)
            into = _take(found.input_rate, rates.input[i] / time_s)
            given_out = rates.output[i] / time_s
            if found.input_rate is not None:
                given_out = into[0] * per_operator(operator.selectivity)
            out = _output(found, into, given_out)
            cost = _take(found.cost, per_operator(operator.cost) * time_s)
            held = _take(found.state_size, per_operator(operator.state_size, how="sum") * size)
            received = _take(found.tuple_size, per_operator(operator.tuple_size) * size)
            rewritten = _times(into, received) if held[0] > 0 else (0.0, 0.0)
            rows["received"].append(into)
            rows["emitted"].append(out)
            rows["tuple_size"].append(received)
            rows["busy"].append(_times(into, cost))
            rows["written"].append(_times(out, _output_size(topology, given, i, received, size)))
            rows["state"].append(held)
            rows["change"].append(_take(found.state_change, None, rewritten))
            skews.append(max(1.0, found.skew.value) if found.skew else 1.0)
        known = {name: Known(*map(np.array, zip(*row, strict=True))) for name, row in rows.items()}
        return cls(
            shards=np.array([float(operator.parallelism) for operator in topology.operators]),
            skew=np.array(skews),
            sent=known["written"],
            **known,
        )


def _take(
    found: Measure | None, default: float | None, pair: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float]:
    if found is not None:
        return found.value, found.high
    return pair if default is None else (float(default), float(default))


def _times(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return a[0] * b[0], a[1] * b[1]


def _output(
    found: OperatorStatistics, into: tuple[float, float], default: float
) -> tuple[float, float]:
    if found.output_rate is not None:
        return found.output_rate.value, found.output_rate.high
    if found.selectivity is not None:
        return _times(into, (found.selectivity.value, found.selectivity.high))
    return _take(None, default)


def _output_size(
    topology: Topology, given: Statistics, i: int, received: tuple[float, float], size: float
) -> tuple[float, float]:
    """Bytes of a tuple it puts out: measured, what consumers receive, or what it receives."""
    own = given.operators.get(topology.operators[i].name)
    if own is not None and own.output_size is not None:
        return own.output_size.value, own.output_size.high
    sizes = []
    for v in topology.downstream[i]:
        consumer = topology.operators[v]
        found = given.operators.get(consumer.name)
        measured = found.tuple_size if found is not None else None
        sizes.append(_take(measured, per_operator(consumer.tuple_size) * size))
    return max(sizes, default=received)
