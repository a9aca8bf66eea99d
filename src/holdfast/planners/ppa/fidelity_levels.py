"""Fidelity passes over whole levels at once, for topologies with many operators.

Operator by operator, the time of a pass is the overhead of a few array calls per operator. Where
many operators lie side by side at the same depth, one sparse product per level does the work of
all of them. A slot is one input stream of one task (or of all tasks that read a Full link).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from holdfast.planners.ppa.fidelity_streams import FloatArray, IntArray, Stream

if TYPE_CHECKING:
    from holdfast.planners.ppa.fidelity import FidelityModel

FEWEST_OPERATORS = 30
OPERATORS_PER_LEVEL = 3
"""Fewer than this on average, and levels save nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Level:
    """The operators of one depth below the sources."""

    tasks: IntArray
    """Positions in the topology's task order."""
    gather: csr_matrix
    """Slots by all tasks."""
    scatter: csr_matrix
    """Its transpose, stored by rows."""
    mix: csr_matrix
    """This level's tasks by slots: weights of what is added; join rows are empty."""
    unmix: csr_matrix
    """Its transpose, stored by rows."""
    union: csr_matrix
    """Like `mix`, with joins treated as unions."""
    joins: IntArray
    """Rows (positions in `tasks`) that multiply."""
    pairs: IntArray
    """The slots of the joins, join after join."""
    starts: IntArray
    """Where each join's slots begin in `pairs`."""
    owner: IntArray
    """Per pair, its join."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelPasses:
    """Forward and backward passes, level by level."""

    levels: tuple[_Level, ...]

    def propagate(self, state: FloatArray, *, joins: bool) -> FloatArray:
        """As `FidelityModel.propagate`."""
        complete = state.copy()
        for level in self.levels:
            slots = level.gather @ complete
            complete[level.tasks] *= _arriving(level, slots, joins=joins)
        return complete

    def sensitivity(self, state: FloatArray, complete: FloatArray, sinks: FloatArray) -> FloatArray:
        """As `FidelityModel.sensitivity`, for one failure set; `sinks` is OF by completeness."""
        down = sinks.copy()
        by_state = np.empty_like(complete)
        for level in reversed(self.levels):
            slots = level.gather @ complete
            here = down[level.tasks]
            by_state[level.tasks] = here * _arriving(level, slots, joins=True)
            passed = here * state[level.tasks]
            weight = level.unmix @ passed
            if len(level.joins):
                others = _others(slots[level.pairs], level.starts, level.owner)
                share = passed[level.joins][level.owner] * others
                weight += np.bincount(level.pairs, share, minlength=len(weight))
            down += level.scatter @ weight
        is_source = np.ones(len(down), bool)
        for level in self.levels:
            is_source[level.tasks] = False
        by_state[is_source] = down[is_source]
        return by_state


def _arriving(level: _Level, slots: FloatArray, *, joins: bool) -> FloatArray:
    if not joins:
        return np.asarray(level.union @ slots)
    arriving = np.asarray(level.mix @ slots)
    if len(level.joins):
        arriving[level.joins] = np.multiply.reduceat(slots[level.pairs], level.starts, axis=0)
    return arriving


def _others(values: FloatArray, starts: IntArray, owner: IntArray) -> FloatArray:
    """Per slot of a join, the product of the join's other slots; zeros are not divided by."""
    is_zero = values == 0
    zeros = np.add.reduceat(is_zero.astype(np.int64), starts)[owner]
    product = np.multiply.reduceat(np.where(is_zero, 1.0, values), starts)[owner]
    own = np.where(is_zero, 1.0, values)
    return np.where(zeros - is_zero == 0, product / own, 0.0)


def level_passes(model: FidelityModel) -> LevelPasses | None:
    """The passes by level, or None where operators lie one below the other anyway."""
    depth = [0] * len(model.spans)
    for i in model.topology.order:
        if model.inputs[i]:
            depth[i] = 1 + max(depth[item.producer] for item in model.inputs[i])
    deepest = max(depth, default=0)
    if len(depth) < max(FEWEST_OPERATORS, OPERATORS_PER_LEVEL * deepest):
        return None
    members: list[list[int]] = [[] for _ in range(deepest + 1)]
    for i in model.topology.order:
        members[depth[i]].append(i)
    return LevelPasses(levels=tuple(_level(model, group) for group in members[1:]))


def _level(model: FidelityModel, group: Sequence[int]) -> _Level:
    spans = [model.spans[i] for i in group]
    tasks = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    entries = _Triplets()
    mix, union = _Triplets(), _Triplets()
    slot, row = 0, 0
    joins: list[IntArray] = []
    pairs: list[IntArray] = []
    lengths: list[IntArray] = []
    for i, span in zip(group, spans, strict=True):
        width = span.stop - span.start
        rows = np.arange(row, row + width)
        own: list[IntArray] = []
        is_product = model.is_join[i] and len(model.inputs[i]) > 1
        for item in model.inputs[i]:
            slots, count = _connect(entries, item.stream, slot, model.spans[item.producer], width)
            union.add(rows, slots, item.weight)
            if not is_product:
                mix.add(rows, slots, item.weight)
            own.append(slots)
            slot += count
        if is_product:
            joins.append(rows)
            pairs.append(np.stack(own, axis=1).ravel())
            lengths.append(np.full(width, len(own)))
        row += width
    gather = entries.matrix(slot, model.size)
    mixed = mix.matrix(row, slot)
    sizes = _flat(lengths)
    return _Level(
        tasks=tasks,
        gather=gather,
        scatter=gather.T.tocsr(),
        mix=mixed,
        unmix=mixed.T.tocsr(),
        union=union.matrix(row, slot),
        joins=_flat(joins),
        pairs=_flat(pairs),
        starts=np.cumsum(sizes) - sizes,
        owner=np.repeat(np.arange(len(sizes)), sizes),
    )


class _Triplets:
    """A sparse matrix in the making."""

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        self._columns: list[IntArray] = []
        self._values: list[FloatArray] = []

    def add(self, rows: IntArray, columns: IntArray, values: FloatArray) -> None:
        self._rows.append(rows)
        self._columns.append(columns)
        self._values.append(values)

    def matrix(self, height: int, width: int) -> csr_matrix:
        values = np.concatenate(self._values) if self._values else np.zeros(0)
        places = (_flat(self._rows), _flat(self._columns))
        return csr_matrix((values, places), shape=(height, width))


def _flat(parts: Sequence[IntArray]) -> IntArray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _connect(
    entries: _Triplets, stream: Stream, slot: int, producer: slice, width: int
) -> tuple[IntArray, int]:
    """Add a stream's weights; returns the slot of each consumer and how many slots there are."""
    consumers, members, weights = stream.entries(producer.stop - producer.start, width)
    entries.add(slot + consumers, producer.start + members, weights)
    if stream.is_shared:
        return np.full(width, slot), 1
    return np.arange(slot, slot + width), width
