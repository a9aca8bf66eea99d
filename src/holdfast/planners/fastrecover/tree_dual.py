"""Out-forests at one price on overhead: a dynamic program over (operator, head, frequency).

At a fixed price a segment costs K + price * D + min over eta of (a / eta + price * b * eta). With
eta part of the state the cost is a sum over operators: an operator whose segment begins at head h
adds rho * (load + rework / eta) for everything between h and itself, and price * b * eta. Its
children either stay in the segment (same head, same eta) or begin their own.

Frequencies run over a geometric grid of sqrt(a / b). A segment's best frequency lies within a
factor sqrt(q) of a grid point, where its cost is at most kappa = (sqrt(q) + 1 / sqrt(q)) / 2 times
the best: dividing by kappa makes the result a proved lower bound (q = 1.02: kappa - 1 = 5e-5).

Operators of one depth are handled together, so that a price takes O(depth) array operations over
n * depth * grid cells. For deep forests only the nearest `window` operators are told apart as
heads; one column stands for every head further away and counts only the `window` operators
nearest, without the head's saved input: less than the truth, so the bound stays valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast.planners.fastrecover.checkpointing import (
    BoolArray,
    CheckpointModel,
    FloatArray,
    IntArray,
)
from holdfast.planners.fastrecover.frequencies import Rule

RANGE = 1e5
"""Ratio of the highest to the lowest frequency on the grid."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """All operators of one depth; those of one parent lie side by side."""

    operators: IntArray
    parent: IntArray
    """Position of the parent in the level above."""
    starts: IntArray
    """Where each run of siblings begins."""
    inherit: IntArray
    """Head column of the level above to the column it becomes here."""
    load: FloatArray
    """Per operator and head (from the root down to itself): failure rate times time to load."""
    rework: FloatArray
    """The same for one time unit's replay."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """An out-forest by depth."""

    model: CheckpointModel
    levels: tuple[Level, ...]
    ratios: tuple[float, float]
    """Least and greatest sqrt(a / b) that a segment with both above 0 can have."""

    @property
    def cells(self) -> int:
        return sum(level.load.size for level in self.levels)


def forest_cells(model: CheckpointModel) -> int:
    """How many (operator, head) pairs the program would have."""
    depth = [0] * model.size
    for i in model.topology.order:
        depth[i] = 1 + (depth[model.upstream[i][0]] if model.upstream[i] else 0)
    return sum(depth)


def forest(
    model: CheckpointModel, *, parent: IntArray | None = None, window: int | None = None
) -> Forest:
    """Arrange by depth; `parent` overrides the only producer (-1: none)."""
    if parent is None:
        parent = np.asarray([up[0] if up else -1 for up in model.upstream], np.int64)
    above_of = parent.tolist()
    children: list[list[int]] = [[] for _ in range(model.size)]
    here: list[int] = []
    for i in model.topology.order:
        if above_of[i] < 0:
            here.append(i)
        else:
            children[above_of[i]].append(i)
    levels: list[Level] = []
    at = [-1] * len(here)
    bare = np.empty((len(here), 0, 2))
    extra = np.empty((len(here), 0, 2))
    far = False
    while here:
        nodes = np.asarray(here)
        own = np.column_stack([model.state[nodes], model.replay[nodes]])
        head = np.column_stack([model.access[nodes], model.save[nodes]])
        bare = np.concatenate([bare + own[:, None], own[:, None]], axis=1)
        extra = np.concatenate([extra, head[:, None]], axis=1)
        inherit = np.arange(bare.shape[1] - 1)
        if window is not None and bare.shape[1] - far > window:
            bare, extra, inherit, far = _push_far(bare, extra, far=far)
        above, weight = np.asarray(at), model.failure[nodes][:, None]
        levels.append(
            Level(
                operators=nodes,
                parent=above,
                starts=np.flatnonzero(np.diff(above, prepend=-2)),
                inherit=inherit,
                load=(bare + extra)[:, :, 0] * weight,
                rework=(bare + extra)[:, :, 1] * weight,
            )
        )
        at = [k for k, i in enumerate(here) for _ in children[i]]
        here = [j for i in here for j in children[i]]
        bare, extra = bare[at], extra[at]
    return Forest(model=model, levels=tuple(levels), ratios=_ratios(model, levels))


def _push_far(
    bare: FloatArray, extra: FloatArray, *, far: bool
) -> tuple[FloatArray, FloatArray, IntArray, bool]:
    """One head more than the window holds: the oldest joins the column of far heads."""
    oldest = 1 if far else 0
    bare = np.concatenate([bare[:, oldest + 1 : oldest + 2], bare[:, oldest + 1 :]], axis=1)
    none = np.zeros_like(extra[:, :1])
    columns = extra.shape[1]
    extra = np.concatenate([none, extra[:, oldest + 1 :]], axis=1)
    inherit = np.maximum(np.arange(columns - 1) - oldest, 0)
    return bare, extra, inherit, True


def _ratios(model: CheckpointModel, levels: list[Level]) -> tuple[float, float]:
    """The a / b of a segment lies between those of its operators, unless some are zero."""
    lows, highs, most, least, nothing = [], [], 0.0, math.inf, False
    for level in levels:
        write = model.state[level.operators][:, None]
        positive = level.rework[level.rework > 0]
        nothing |= len(positive) < level.rework.size
        if len(positive):
            most += float(level.rework.max(axis=1).sum())
            least = min(least, float(positive.min()))
        heavy = write + model.access[level.operators][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            lows.append(float(np.min(np.where(heavy > 0, level.rework / heavy, np.inf))))
            highs.append(float(np.max(np.where(write > 0, level.rework / write, 0.0))))
    writes = model.state + model.access
    if not most or not writes.any():
        return 1.0, 1.0
    low, high = min(lows), max(highs)
    if nothing or not 0 < low < math.inf:
        low = least / max(float(writes.sum()), 1e-300)
    if (model.state == 0).any():
        smallest = float(np.min(writes[writes > 0], initial=math.inf))
        high = most / smallest if math.isfinite(smallest) else low
    # What lies further down hardly costs anything, and the lowest point still bounds it.
    return math.sqrt(max(low, high * RANGE**-2)), math.sqrt(max(high, low))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """What replay and writing cost per unit at each point, rounded down by what a point may lose.

    The first point stands for all lower frequencies and the last for all higher ones: below l a
    segment costs at least 2 a / l, above h at least 2 price b h.
    """

    replay: FloatArray
    write: FloatArray
    lowest: FloatArray
    """An operator may use a point if its cap is not below this."""


def make_grid(tree: Forest, price: float, rule: Rule, step: float) -> Grid:
    """The points for a price; a list is its own grid and loses nothing."""
    if rule.choices:
        points = np.asarray(rule.choices)
        return Grid(replay=1 / points, write=price * points, lowest=points)
    low, high = tree.ratios
    count = 1 + max(1, math.ceil(math.log(high / low) / math.log(step)))
    points = low * np.float64(step) ** np.arange(count, dtype=np.float64) / math.sqrt(price)
    half = math.sqrt(step)
    kappa = (half + 1 / half) / 2
    caps = np.unique(tree.model.max_frequency)
    caps = caps[np.isfinite(caps)]
    return Grid(
        replay=np.concatenate([[2 / points[0]], 1 / points / kappa, 1 / caps, [0.0]]),
        write=price * np.concatenate([[0.0], points / kappa, caps, [2 * points[-1]]]),
        lowest=np.concatenate([[0.0], points / half, caps, [points[-1]]]),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cheapest:
    """The answer at one price."""

    least: float
    anchors: BoolArray


def cheapest_forest(
    tree: Forest,
    price: float,
    rule: Rule,
    *,
    required: BoolArray,
    forbidden: BoolArray,
    step: float,
) -> Cheapest:
    """Minimum of recovery + price * overhead, rounded down by what the grid may cost."""
    grid = make_grid(tree, price, rule, step)
    model = tree.model
    stay: list[FloatArray] = []
    leave: list[FloatArray] = []
    pick: list[IntArray] = []
    below: tuple[Level, FloatArray] | None = None
    for level in reversed(tree.levels):
        nodes = level.operators
        value = _own(level, grid, model)
        if below is not None:
            under, passed = below
            value[under.parent[under.starts]] += np.add.reduceat(passed, under.starts, axis=0)
        own = value[:, -1, :]
        at = own.argmin(axis=1)
        begin = own[np.arange(len(nodes)), at] + price * model.save[nodes]
        begin = np.where(forbidden[nodes] & ~required[nodes], np.inf, begin)
        value[required[nodes]] = np.inf
        stay.append(value)
        leave.append(begin)
        pick.append(at)
        below = (level, np.minimum(value[:, level.inherit, :], begin[:, None, None]))
    stay.reverse()
    leave.reverse()
    pick.reverse()
    anchors = _trace(tree, stay, leave, pick)
    return Cheapest(least=float(leave[0].sum()), anchors=anchors)


def _own(level: Level, grid: Grid, model: CheckpointModel) -> FloatArray:
    """What the operators of a level add themselves, per head and frequency."""
    nodes = level.operators
    value = level.rework[:, :, None] * grid.replay
    value += level.load[:, :, None]
    written = model.state[nodes][:, None] * grid.write
    over = grid.lowest > model.max_frequency[nodes][:, None]
    value += np.where(over, np.inf, written)[:, None, :]
    value[:, -1, :] += model.access[nodes][:, None] * grid.write
    return value


def _trace(
    tree: Forest, stay: list[FloatArray], leave: list[FloatArray], pick: list[IntArray]
) -> BoolArray:
    anchors = np.zeros(tree.model.size, bool)
    anchors[tree.levels[0].operators] = True
    head = np.zeros(len(tree.levels[0].operators), np.int64)
    point = pick[0]
    for depth in range(1, len(tree.levels)):
        level = tree.levels[depth]
        rows = np.arange(len(level.operators))
        head, point = level.inherit[head[level.parent]], point[level.parent]
        begins = leave[depth] < stay[depth][rows, head, point]
        head = np.where(begins, level.load.shape[1] - 1, head)
        point = np.where(begins, pick[depth], point)
        anchors[level.operators[begins]] = True
    return anchors
