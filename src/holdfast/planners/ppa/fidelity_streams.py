"""Input streams of the fidelity model, one small class per shape of link.

A stream carries what one operator receives from another. Going down it averages the completeness
of the upstream tasks by rate (eq. 1 of PPA); going up it spreads a sensitivity back over them.
Links are never spelled out pair by pair: a Full link between tasks that divide their output alike
gives every consumer the same average, so it is one vector, however wide the operators are.

Arrays may have a second axis, one column per failure set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.topology.graph import Edge, Topology, iter_links
from holdfast.topology.links import Partitioning

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Entries = tuple[IntArray, IntArray, FloatArray]
"""Consumer, producer and weight of each link, as parallel arrays."""


class Stream(Protocol):
    """Averages over upstream tasks, and back."""

    @property
    def is_shared(self) -> bool:
        """Every consumer sees the same average."""
        ...

    def gather(self, upstream: FloatArray) -> FloatArray:
        """Completeness of the stream at each downstream task."""
        ...

    def scatter(self, downstream: FloatArray) -> FloatArray:
        """The transpose of `gather`."""
        ...

    def parts(self, task: int) -> tuple[Sequence[int], Sequence[float]]:
        """The upstream tasks (by position in their operator) behind one consumer, with weights."""
        ...

    def entries(self, size: int, width: int) -> Entries:
        """All of `parts` at once, for `size` producers and `width` consumers.

        A shared stream has the one consumer 0.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedStream:
    """Full: every consumer averages over all producers with the same weights."""

    weights: FloatArray
    width: int
    """Number of downstream tasks."""

    @property
    def is_shared(self) -> bool:
        return True

    def gather(self, upstream: FloatArray) -> FloatArray:
        average = np.asarray(self.weights @ upstream)
        return np.broadcast_to(average, (self.width, *average.shape))

    def scatter(self, downstream: FloatArray) -> FloatArray:
        return np.asarray(np.multiply.outer(self.weights, downstream.sum(axis=0)))

    def parts(self, task: int) -> tuple[Sequence[int], Sequence[float]]:  # noqa: ARG002
        return range(len(self.weights)), self.weights.tolist()

    def entries(self, size: int, width: int) -> Entries:  # noqa: ARG002
        return np.zeros(size, np.int64), np.arange(size), self.weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseStream:
    """Full, but producers divide their outputs differently: one row of weights per consumer."""

    weights: FloatArray

    @property
    def is_shared(self) -> bool:
        return False

    def gather(self, upstream: FloatArray) -> FloatArray:
        return np.asarray(self.weights @ upstream)

    def scatter(self, downstream: FloatArray) -> FloatArray:
        return np.asarray(self.weights.T @ downstream)

    def parts(self, task: int) -> tuple[Sequence[int], Sequence[float]]:
        return range(self.weights.shape[1]), self.weights[task].tolist()

    def entries(self, size: int, width: int) -> Entries:
        consumers = np.repeat(np.arange(width), size)
        return consumers, np.tile(np.arange(size), width), self.weights.ravel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedStream:
    """One-to-one: a consumer sees its own producer."""

    @property
    def is_shared(self) -> bool:
        return False

    def gather(self, upstream: FloatArray) -> FloatArray:
        return upstream

    def scatter(self, downstream: FloatArray) -> FloatArray:
        return downstream

    def parts(self, task: int) -> tuple[Sequence[int], Sequence[float]]:
        return (task,), (1.0,)

    def entries(self, size: int, width: int) -> Entries:  # noqa: ARG002
        return np.arange(size), np.arange(size), np.ones(size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitStream:
    """Split: a consumer has one producer, a producer a run of consumers."""

    producer: IntArray
    """Per consumer, its producer."""
    starts: IntArray
    """Per producer, its first consumer."""

    @property
    def is_shared(self) -> bool:
        return False

    def gather(self, upstream: FloatArray) -> FloatArray:
        return upstream[self.producer]

    def scatter(self, downstream: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(downstream, self.starts, axis=0))

    def parts(self, task: int) -> tuple[Sequence[int], Sequence[float]]:
        return (int(self.producer[task]),), (1.0,)

    def entries(self, size: int, width: int) -> Entries:  # noqa: ARG002
        return np.arange(width), self.producer, np.ones(width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeStream:
    """Merge: a producer has one consumer, a consumer a run of producers."""

    consumer: IntArray
    """Per producer, its consumer."""
    starts: IntArray
    """Per consumer, its first producer."""
    weights: FloatArray
    """Per producer, its part of its consumer's stream."""

    @property
    def is_shared(self) -> bool:
        return False

    def gather(self, upstream: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat((self.weights * upstream.T).T, self.starts, axis=0))

    def scatter(self, downstream: FloatArray) -> FloatArray:
        return (self.weights * downstream[self.consumer].T).T

    def parts(self, task: int) -> tuple[Sequence[int], Sequence[float]]:
        members = np.flatnonzero(self.consumer == task)
        return members.tolist(), self.weights[members].tolist()

    def entries(self, size: int, width: int) -> Entries:  # noqa: ARG002
        return self.consumer, np.arange(size), self.weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamRates:
    """Per edge its stream and the rate it brings to each downstream task; per task its rates."""

    streams: tuple[Stream, ...]
    arriving: tuple[FloatArray, ...]
    """Per edge, tuples per time unit into each downstream task."""
    input: FloatArray
    output: FloatArray


def stream_rates(topology: Topology) -> StreamRates:
    """Rates of all tasks and the streams between them, in time linear in tasks (not links).

    The rates are those of `holdfast.topology.rates`, with one addition: fidelity is a ratio of
    rates, so a file that states none at all is read as one where every source has the same.
    """
    parallelism = [operator.parallelism for operator in topology.operators]
    first = np.concatenate(([0], np.cumsum(parallelism)))
    into, out = np.zeros(int(first[-1])), np.zeros(int(first[-1]))
    spans = [slice(int(first[i]), int(first[i + 1])) for i in range(len(parallelism))]
    _seed_sources(topology, spans, into, out)
    links = list(iter_links(topology))
    incoming: list[list[int]] = [[] for _ in parallelism]
    for e, (_, _, v, _) in enumerate(links):
        incoming[v].append(e)
    streams: list[Stream | None] = [None] * len(links)
    arriving: list[FloatArray] = [np.zeros(0)] * len(links)
    for i in topology.order:
        for e in incoming[i]:
            edge, u, _, kind = links[e]
            streams[e], arriving[e] = _stream(edge, kind, out[spans[u]], parallelism[i])
            into[spans[i]] += arriving[e]
        if incoming[i]:
            out[spans[i]] = into[spans[i]] * np.asarray(topology.operators[i].selectivity)
    return StreamRates(
        streams=tuple(stream for stream in streams if stream is not None),
        arriving=tuple(arriving),
        input=into,
        output=out,
    )


def _seed_sources(
    topology: Topology, spans: Sequence[slice], into: FloatArray, out: FloatArray
) -> None:
    stated = any(topology.rates.values()) or any(map(any, topology.task_rates.values()))
    for i in topology.sources:
        operator, span = topology.operators[i], spans[i]
        selectivity = np.broadcast_to(np.asarray(operator.selectivity), (operator.parallelism,))
        rate = topology.rates.get(operator.name, 0.0) if stated else 1.0
        into[span] = rate / operator.parallelism
        out[span] = into[span] * selectivity
        given = topology.task_rates.get(operator.name)
        if given is not None and stated:
            out[span] = given
            positive = selectivity > 0
            into[span] = np.where(positive, out[span] / np.where(positive, selectivity, 1), 0.0)


def shares_of(values: FloatArray) -> FloatArray:
    """Parts of a whole; equal ones where the whole is nothing."""
    total = values.sum()
    return values / total if total > 0 else np.full(len(values), 1.0 / max(len(values), 1))


def _stream(
    edge: Edge, kind: Partitioning, out: FloatArray, width: int
) -> tuple[Stream, FloatArray]:
    """The stream of an edge whose producers emit `out`, and what reaches each consumer."""
    size = len(out)
    match kind:
        case "full":
            return _full(edge, out, width)
        case "one-to-one":
            return AlignedStream(), out.copy()
        case "split":
            producer = np.arange(width) * size // width
            starts = np.searchsorted(producer, np.arange(size))
            if edge.shares is None:
                share = 1.0 / np.bincount(producer, minlength=size)[producer]
            else:
                share = _flatten(edge)
            return SplitStream(producer=producer, starts=starts), out[producer] * share
        case "merge":
            consumer = np.arange(size) * width // size
            starts = np.searchsorted(consumer, np.arange(width))
            total = np.add.reduceat(out, starts)
            count = np.bincount(consumer, minlength=width)
            with np.errstate(divide="ignore", invalid="ignore"):
                weights = np.where(total[consumer] > 0, out / total[consumer], 1 / count[consumer])
            return MergeStream(consumer=consumer, starts=starts, weights=weights), total


def _full(edge: Edge, out: FloatArray, width: int) -> tuple[Stream, FloatArray]:
    shares = edge.shares
    if shares is None or not isinstance(shares[0], tuple):
        share = np.full(width, 1.0 / width) if shares is None else _flatten(edge)
        return SharedStream(weights=shares_of(out), width=width), out.sum() * share
    carried = np.asarray(shares, np.float64).T * out
    total = carried.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total[:, None] > 0, carried / total[:, None], 1 / len(out))
    return DenseStream(weights=weights), total


def _flatten(edge: Edge) -> FloatArray:
    """Shares as one number per downstream task (split and Full links)."""
    flat: list[float] = []
    for item in edge.shares or ():
        flat.extend(item if isinstance(item, tuple) else (item,))
    return np.asarray(flat, np.float64)
