"""What checkpoints cost and what recovery takes when operators share segments.

The cost model of FastRecover. An **anchor** saves everything it receives; a **segment** is what
hangs together over edges that are not saved, and all its operators checkpoint their state at one
frequency. When an operator fails, it and everything upstream of it inside its segment load their
last state, the heads among them read back the input saved since, and all of them replay it.

Costs of storage are functions of size (`StorageCost`). Saved input is written and read one
checkpoint interval at a time and state one checkpoint at a time, so that the fixed part of an
affine cost is paid once per interval and per state. With linear costs this is the literal model.

Reading for graphs with joins: an anchor saves all its inputs, and every operator that takes part
in a recovery is counted once however many paths lead to it. On chains and trees this is the
published formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.topology.graph import Topology, per_operator
from holdfast.topology.rates import operator_rates

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


class StorageCost(Protocol):
    """Time to write or read `size` in one access: `fixed + per_size * size`."""

    @property
    def fixed(self) -> float: ...

    @property
    def per_size(self) -> float: ...

    def __call__(self, size: float) -> float: ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Proportional to size."""

    per_size: float

    @property
    def fixed(self) -> float:
        return 0.0

    def __call__(self, size: float) -> float:
        return self.per_size * size


@dataclass(frozen=True, slots=True)
class AffineCost:
    """A fixed time per access plus a part proportional to size; nothing to store costs nothing."""

    fixed: float
    per_size: float

    def __call__(self, size: float) -> float:
        return self.fixed + self.per_size * size if size > 0 else 0.0


def storage_cost(fixed: float, per_size: float) -> StorageCost:
    """The simplest function with these parts."""
    return AffineCost(fixed, per_size) if fixed else LinearCost(per_size)


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckpointModel:
    """One number per operator for everything the plan's cost depends on, in the file's order."""

    topology: Topology
    rate: FloatArray
    """Tuples received per time unit (Omega)."""
    save: FloatArray
    """Time per time unit to save the input, were it an anchor; also to read back one time unit's
    worth."""
    access: FloatArray
    """Fixed time to write, or to read, the input of one interval, were it a head."""
    replay: FloatArray
    """Time to process again what one time unit brings (tau * Omega)."""
    state: FloatArray
    """Time to write, or to load, the state once."""
    failure: FloatArray
    """Failures per time unit (rho)."""
    max_frequency: FloatArray
    """Most checkpoints per time unit: one by `min_interval`, infinite without one."""

    @property
    def size(self) -> int:
        return len(self.rate)

    @property
    def upstream(self) -> tuple[tuple[int, ...], ...]:
        return self.topology.upstream

    @property
    def downstream(self) -> tuple[tuple[int, ...], ...]:
        return self.topology.downstream

    @cached_property
    def is_source(self) -> BoolArray:
        return np.asarray([not producers for producers in self.upstream])

    @cached_property
    def has_joins(self) -> bool:
        return any(len(producers) > 1 for producers in self.upstream)

    @cached_property
    def is_chain(self) -> bool:
        """One source, one sink, one path."""
        narrow = not self.has_joins and all(len(fed) <= 1 for fed in self.downstream)
        return narrow and int(self.is_source.sum()) == 1


def checkpoint_model(
    topology: Topology,
    *,
    tuples: StorageCost | None = None,
    state: StorageCost | None = None,
) -> CheckpointModel:
    """The model of a topology; storage costs are the file's unless given."""
    given = topology.storage
    tuples = tuples or storage_cost(given.tuple_fixed, given.tuple_cost)
    state = state or storage_cost(given.state_fixed, given.state_cost)
    rate = operator_rates(topology).input
    operators = topology.operators
    volume = rate * np.asarray([per_operator(op.tuple_size) for op in operators])
    interval = np.asarray([op.min_interval for op in operators])
    with np.errstate(divide="ignore"):
        ceiling = np.where(interval > 0, 1.0 / interval, np.inf)
    return CheckpointModel(
        topology=topology,
        rate=rate,
        save=tuples.per_size * volume,
        access=np.where(volume > 0, tuples.fixed, 0.0),
        replay=rate * np.asarray([per_operator(op.cost) for op in operators]),
        state=np.asarray([state(per_operator(op.state_size, how="sum")) for op in operators]),
        failure=np.asarray([per_operator(op.failure_rate, how="sum") for op in operators]),
        max_frequency=ceiling,
    )


def segments_of(model: CheckpointModel, anchors: BoolArray) -> tuple[IntArray, int]:
    """Per operator its segment, numbered by first operator in topological order; and how many.

    An operator that is not an anchor shares the segment of all its producers.
    """
    if not model.has_joins:
        return _segments_of_forest(model, anchors)
    parent = list(range(model.size))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    upstream = model.upstream
    for i in model.topology.order:
        if not anchors[i]:
            for j in upstream[i]:
                parent[find(i)] = find(j)
    number: dict[int, int] = {}
    label = np.empty(model.size, np.int64)
    for i in model.topology.order:
        label[i] = number.setdefault(find(i), len(number))
    return label, len(number)


def _segments_of_forest(model: CheckpointModel, anchors: BoolArray) -> tuple[IntArray, int]:
    """Without joins a segment is known by its only head."""
    upstream, chosen = model.upstream, anchors.tolist()
    label, count = [0] * model.size, 0
    for i in model.topology.order:
        if chosen[i] or not upstream[i]:
            label[i] = count
            count += 1
        else:
            label[i] = label[upstream[i][0]]
    return np.asarray(label), count


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposure:
    """What a failure of each operator brings back into play, for one set of anchors."""

    load: FloatArray
    """Per operator, the time to load every state (and access every saved input) involved."""
    rework: FloatArray
    """Per operator, the time to read and replay one time unit's worth of input."""


def exposure(model: CheckpointModel, anchors: BoolArray, label: IntArray) -> Exposure:
    """Sum over each operator and all its ancestors in the segment, each once.

    O(n) while every operator depends on one unsaved producer. From where unsaved paths meet, sets
    of ancestors are merged as bit masks over the operators of the segment, and a mask is dropped
    with its last consumer.
    """
    own_load = model.state + np.where(anchors, model.access, 0.0)
    own_rework = model.replay + np.where(anchors, model.save, 0.0)
    load, rework = own_load.copy(), own_rework.copy()
    if model.has_joins:
        _merge_ancestors(model, anchors, label, load, rework)
        return Exposure(load=load, rework=rework)
    upstream = model.upstream
    loads, reworks, chosen = load.tolist(), rework.tolist(), anchors.tolist()
    for i in model.topology.order:
        if not chosen[i] and upstream[i]:
            j = upstream[i][0]
            loads[i] += loads[j]
            reworks[i] += reworks[j]
    return Exposure(load=np.asarray(loads), rework=np.asarray(reworks))


def _merge_ancestors(
    model: CheckpointModel,
    anchors: BoolArray,
    label: IntArray,
    load: FloatArray,
    rework: FloatArray,
) -> None:
    """Turn each operator's own terms into sums over its ancestor set, in place."""
    upstream, downstream = model.upstream, model.downstream
    merging = {int(label[i]) for i in range(model.size) if len(upstream[i]) > 1 and not anchors[i]}
    members: dict[int, list[int]] = {number: [] for number in merging}
    own = np.column_stack([load, rework])
    masks: dict[int, int] = {}
    waiting: dict[int, int] = {}
    chosen = anchors.tolist()
    for i in model.topology.order:
        number = int(label[i])
        if number not in members:
            if not chosen[i] and upstream[i]:
                load[i] += load[upstream[i][0]]
                rework[i] += rework[upstream[i][0]]
            continue
        mask = 1 << len(members[number])
        members[number].append(i)
        if not chosen[i]:
            for j in upstream[i]:
                mask |= masks[j]
                waiting[j] -= 1
                if not waiting[j]:
                    del masks[j], waiting[j]
            included = bits(mask)
            inside = np.asarray(members[number])[included]
            load[i], rework[i] = own[inside].sum(axis=0)
        consumers = sum(1 for j in downstream[i] if not chosen[j])
        if consumers:
            masks[i], waiting[i] = mask, consumers


def ancestors_mask(model: CheckpointModel, anchors: BoolArray, i: int) -> int:
    """An operator and its ancestors within its segment, one bit per position in the file."""
    mask, frontier = 0, [i]
    while frontier:
        k = frontier.pop()
        if mask >> k & 1:
            continue
        mask |= 1 << k
        if not anchors[k]:
            frontier.extend(model.upstream[k])
    return mask


def bits(mask: int) -> IntArray:
    """Positions of the set bits, ascending."""
    raw = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Partition:
    """One set of anchors with everything its cost depends on except frequencies.

    At frequency eta a segment's expected recovery time is `fixed + replay / eta`, its overhead
    `save + write * eta`.
    """

    model: CheckpointModel
    anchors: BoolArray
    label: IntArray
    """Per operator its segment."""
    exposure: Exposure
    fixed: FloatArray
    """K, per segment like those below: state loaded (and accesses made) per failure, weighted by
    failure rates.
    """
    replay: FloatArray
    """a: input read back and replayed per time unit of interval, weighted by failure rates."""
    write: FloatArray
    """b: time of one checkpoint of all its operators."""
    save: FloatArray
    """D: time per time unit to save the heads' input."""
    max_frequency: FloatArray

    @property
    def size(self) -> int:
        return len(self.fixed)


def partition(model: CheckpointModel, anchors: BoolArray) -> Partition:
    """Cut a topology at its anchors and add up each segment."""
    label, count = segments_of(model, anchors)
    exposed = exposure(model, anchors, label)

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(label, weights=values, minlength=count).astype(np.float64)

    ceiling = np.full(count, np.inf)
    np.minimum.at(ceiling, label, model.max_frequency)
    return Partition(
        model=model,
        anchors=anchors,
        label=label,
        exposure=exposed,
        fixed=total(model.failure * exposed.load),
        replay=total(model.failure * exposed.rework),
        write=total(model.state + np.where(anchors, model.access, 0.0)),
        save=total(np.where(anchors, model.save, 0.0)),
        max_frequency=ceiling,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Configuration:
    """Anchors and checkpoint frequencies: all that is chosen, and what it costs."""

    partition: Partition
    frequency: FloatArray
    """Per operator; one value in a segment unless relaxed (RSRFS)."""

    @cached_property
    def overheads(self) -> FloatArray:
        """ch_i: share of time each operator spends on checkpoints and on saving input."""
        model, anchors = self.partition.model, self.partition.anchors
        each = model.state + np.where(anchors, model.access, 0.0)
        busy = each > 0
        written = np.zeros(model.size)
        written[busy] = each[busy] * self.frequency[busy]
        return written + np.where(anchors, model.save, 0.0)

    @cached_property
    def recovery_times(self) -> FloatArray:
        """rt_i: time to recover from a failure of i just before its next checkpoint."""
        exposed = self.partition.exposure
        return exposed.load + divide(exposed.rework, self.frequency)

    @property
    def overhead(self) -> float:
        return float(self.overheads.sum())

    @property
    def expected_recovery_time(self) -> float:
        """Sum of rho_i * rt_i; an operator that never fails adds nothing."""
        failure = self.partition.model.failure
        fails = failure > 0
        return float(failure[fails] @ self.recovery_times[fails])

    @cached_property
    def worst_case(self) -> FloatArray:
        """Bound on each operator's recovery, whenever it fails.

        The unluckiest failure comes just before a checkpoint is complete: what arrived during the
        whole interval and while the segment wrote its state has to be replayed.
        """
        parts, model = self.partition, self.partition.model
        each = model.state + np.where(parts.anchors, model.access, 0.0)
        writing = np.bincount(parts.label, weights=each, minlength=parts.size)[parts.label]
        return self.recovery_times + parts.exposure.rework * writing


def divide(amount: FloatArray, frequency: FloatArray) -> FloatArray:
    """`amount / frequency` where nothing to replay takes no time, however rare the checkpoints."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((amount == 0) | np.isinf(frequency), 0.0, amount / frequency)


def configuration(
    model: CheckpointModel, anchors: Iterable[str], frequency: Mapping[str, float] | Sequence[float]
) -> Configuration:
    """A configuration by operator names; frequencies per operator, or by any member of a segment.

    For checking plans that come from elsewhere.
    """
    index = model.topology.index
    chosen = model.is_source.copy()
    for name in anchors:
        chosen[index[name]] = True
    parts = partition(model, chosen)
    if isinstance(frequency, Mapping):
        by_segment = np.full(parts.size, np.nan)
        for name, value in frequency.items():
            by_segment[parts.label[index[name]]] = value
        values = by_segment[parts.label]
    else:
        values = np.asarray(frequency, float)
    return Configuration(partition=parts, frequency=values)
