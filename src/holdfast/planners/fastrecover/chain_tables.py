"""Costs of all segments of a chain, and shortest paths over them.

Row h, column l of a table is the segment of l + 1 operators that begins at position h. Sums run
outwards from the head, never as differences of prefix sums: after a few hundred selective
operators rates differ by more digits than a double has.

With fewer columns than operators (a window) long segments are not represented. They are then
relaxed, not lost: a segment costs at least as much as its first `window` operators plus the rest
without a head (recovery terms only grow with length, and sqrt((a1+a2)(b1+b2)) is at least
sqrt(a1 b1) + sqrt(a2 b2)), so a full piece may be followed by a headless one. The bound stays
valid, and it is exact for its price whenever the best path uses no headless piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from holdfast.planners.fastrecover.checkpointing import (
    BoolArray,
    CheckpointModel,
    FloatArray,
    IntArray,
)
from holdfast.planners.fastrecover.frequencies import Rule, charge


@dataclass(frozen=True, kw_only=True, eq=False)
class ChainTables:
    """Per segment its K, a, b and cap (see `Partition`); D per head."""

    order: IntArray
    """Position along the chain to operator."""
    fixed: FloatArray
    replay: FloatArray
    write: FloatArray
    max_frequency: FloatArray
    save: FloatArray
    """Per head."""
    allowed: BoolArray
    """Whether a segment exists and respects what is required and forbidden."""
    headless: tuple[FloatArray, FloatArray, FloatArray] | None = None
    """K, a and b without a head's part, when the window is shorter than the chain."""

    @property
    def size(self) -> int:
        return len(self.save)

    @property
    def window(self) -> int:
        return int(self.fixed.shape[1])

    def prices(self, price: float, rule: Rule) -> tuple[FloatArray, FloatArray | None]:
        """Cost of every segment at a price on overhead; and of every headless piece."""
        paid = charge(self.replay, self.write, self.max_frequency, price, rule)
        paid += self.fixed
        paid += price * self.save[:, None]
        paid[~self.allowed] = np.inf
        if self.headless is None:
            return paid, None
        fixed, replay, write = self.headless
        # Without caps or a list: a piece of a segment need not obey what binds the whole.
        return paid, fixed + charge(replay, write, np.full_like(replay, np.inf), price, Rule())


def chain_tables(
    model: CheckpointModel,
    required: BoolArray,
    forbidden: BoolArray,
    *,
    order: IntArray | None = None,
    window: int | None = None,
    barriers: BoolArray | None = None,
) -> ChainTables:
    """Tables of a chain given in `order` (default: the topology's), O(n * window).

    No segment reaches across a barrier (a position at which something else begins).
    """
    order = np.asarray(model.topology.order) if order is None else order
    size = len(order)
    width = min(size, window or size)

    def spread_row(row: FloatArray, fill: float = 0.0) -> FloatArray:
        return sliding_window_view(np.append(row, np.full(width - 1, fill)), width).copy()

    def spread(values: FloatArray, fill: float = 0.0) -> FloatArray:
        return spread_row(values[order], fill)

    head_save, head_access = model.save[order], model.access[order]
    failure, state, replay = spread(model.failure), spread(model.state), spread(model.replay)
    load, rework = np.cumsum(state, axis=1), np.cumsum(replay, axis=1)
    fixed = np.cumsum(failure * (load + head_access[:, None]), axis=1)
    redo = np.cumsum(failure * (rework + head_save[:, None]), axis=1)
    write = np.cumsum(state, axis=1)
    exists = np.arange(size)[:, None] + np.arange(width)[None, :] < size
    stops = required[order] if barriers is None else required[order] | barriers
    inner = spread_row(stops.astype(float))
    inner[:, 0] = 0.0
    within = exists & (np.cumsum(inner, axis=1) == 0)
    allowed = within & ~(forbidden & ~required)[order][:, None]
    ceiling: FloatArray = np.broadcast_to(np.inf, (size, width))
    if np.isfinite(model.max_frequency).any():
        ceiling = np.minimum.accumulate(spread(model.max_frequency, np.inf), axis=1)
    bare = None
    if barriers is not None or width < size:
        bare_fixed = np.where(within, np.cumsum(failure * load, axis=1), np.inf)
        bare = (bare_fixed, np.cumsum(failure * rework, axis=1), write)
    return ChainTables(
        order=order,
        fixed=fixed,
        replay=redo,
        write=write + head_access[:, None],
        max_frequency=ceiling,
        save=head_save,
        allowed=allowed,
        headless=bare,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """A cheapest partition at one price."""

    least: float
    heads: BoolArray
    """Per position, whether a segment begins there (a headless piece does not count)."""
    relaxed: bool
    """Whether a headless piece was used, so that `least` is a bound only."""


def cheapest_path(segment: FloatArray, headless: FloatArray | None) -> Path:
    """Shortest path over segments: O(n * window)."""
    if headless is None:
        return _plain_path(segment)
    return _relaxed_path(segment, headless)


def by_end(table: FloatArray) -> FloatArray:
    """Row e, column j: the segment that ends at e and begins at e - window + 1 + j."""
    size, width = table.shape
    ends = np.full((size, width), np.inf)
    for length in range(width):
        ends[length:, width - 1 - length] = table[: size - length, length]
    return ends


def prefixes(segment: FloatArray) -> tuple[FloatArray, list[int]]:
    """Least cost of each prefix, and where its last segment begins."""
    size, width = segment.shape
    ends = by_end(segment)
    value = np.full(size + width, np.inf)
    value[width - 1] = 0.0
    begins = []
    for e in range(size):
        reach = value[e : e + width] + ends[e]
        j = int(reach.argmin())
        value[e + width] = reach[j]
        begins.append(e - width + 1 + j)
    return value[width - 1 :], begins


def suffixes(segment: FloatArray) -> tuple[FloatArray, list[int]]:
    """Least cost of each suffix (entry n is 0), and where its second segment begins."""
    size, width = segment.shape
    value = np.full(size + width, np.inf)
    value[size] = 0.0
    following = [size] * size
    for h in reversed(range(size)):
        reach = segment[h] + value[h + 1 : h + 1 + width]
        at = int(reach.argmin())
        value[h] = reach[at]
        following[h] = h + 1 + at
    return value[: size + 1], following


def _plain_path(segment: FloatArray) -> Path:
    value, begins = prefixes(segment)
    heads = np.zeros(len(begins), bool)
    e = len(begins) - 1
    while e >= 0:
        heads[begins[e]] = True
        e = begins[e] - 1
    return Path(least=float(value[-1]), heads=heads, relaxed=False)


def _relaxed_path(segment: FloatArray, headless: FloatArray) -> Path:
    size, width = segment.shape
    ends = np.concatenate([by_end(segment), by_end(headless)], axis=1)
    whole, full = np.full(size + width, np.inf), np.full(size + width, np.inf)
    whole[width - 1] = 0.0
    both = np.empty(2 * width)
    choice = np.empty(size, np.int64)
    last = np.zeros(size, bool)
    for e in range(size):
        both[:width] = whole[e : e + width]
        both[width:] = full[e : e + width]
        both += ends[e]
        j = int(both.argmin())
        choice[e] = j
        whole[e + width] = both[j]
        full[e + width] = min(both[0], both[width])
        last[e] = both[width] < both[0]
    heads = np.zeros(size, bool)
    relaxed, e, must = False, size - 1, False
    while e >= 0:
        j = (width if last[e] else 0) if must else int(choice[e])
        begin = e - width + 1 + j % width
        must = j >= width
        relaxed |= must
        heads[begin] = not must
        e = begin - 1
    return Path(least=float(whole[-1]), heads=heads, relaxed=relaxed)
