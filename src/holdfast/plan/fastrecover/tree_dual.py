"""Out-forests at one price on overhead: a dynamic program over (operator, head, frequency).

At a fixed price a segment costs K + price * D + min over eta of (a / eta + price * b * eta). With
eta part of the state the cost is a sum over operators: an operator whose segment begins at head h
adds rho * (load + rework / eta) for everything between h and itself, and price * b * eta. Its
children either stay in the segment (same head, same eta) or begin their own.

Frequencies run over a geometric grid of sqrt(a / b) that covers every segment the forest can
have. A segment's best frequency lies within a factor sqrt(q) of a grid point, where its cost is at
most kappa = (sqrt(q) + 1 / sqrt(q)) / 2 times the best: dividing by kappa makes the result a
proved lower bound (q = 1.02: kappa - 1 = 5e-5).

Operators of one depth are handled together, so that a price takes O(depth) array operations over
n * depth * grid cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast.model.checkpointing import BoolArray, CheckpointModel, FloatArray, IntArray
from holdfast.plan.fastrecover.frequencies import Rule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """All operators of one depth; those of one parent lie side by side."""

    operators: IntArray
    parent: IntArray
    """Position of the parent in the level above."""
    starts: IntArray
    """Where each run of siblings begins."""
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


def forest(model: CheckpointModel, *, parent: IntArray | None = None) -> Forest:
    """Arrange by depth; `parent` overrides the only producer (-1: none)."""
    if parent is None:
        parent = np.asarray([up[0] if up else -1 for up in model.upstream], np.int64)
    children: list[list[int]] = [[] for _ in range(model.size)]
    roots = []
    for i in model.topology.order:
        if parent[i] < 0:
            roots.append(i)
        else:
            children[int(parent[i])].append(i)
    levels: list[Level] = []
    here, at = roots, [-1] * len(roots)
    load, rework = np.empty((len(roots), 0)), np.empty((len(roots), 0))
    while here:
        nodes = np.asarray(here)
        state, replay = model.state[nodes], model.replay[nodes]
        load = np.column_stack([load + state[:, None], state + model.access[nodes]])
        rework = np.column_stack([rework + replay[:, None], replay + model.save[nodes]])
        above = np.asarray(at)
        levels.append(
            Level(
                operators=nodes,
                parent=above,
                starts=np.flatnonzero(np.diff(above, prepend=-2)),
                load=load * model.failure[nodes][:, None],
                rework=rework * model.failure[nodes][:, None],
            )
        )
        at = [k for k, i in enumerate(here) for _ in children[i]]
        here = [j for i in here for j in children[i]]
        load, rework = load[at], rework[at]
    return Forest(model=model, levels=tuple(levels), ratios=_ratios(model, levels))


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
    return math.sqrt(low), math.sqrt(max(high, low))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Frequencies to choose from at one price, and how much the grid may cost."""

    frequency: FloatArray
    kappa: float
    slack: float
    """A point stands for frequencies down to itself divided by this."""


def make_grid(tree: Forest, price: float, rule: Rule, step: float) -> Grid:
    """The points for a price; a list is its own grid and costs nothing."""
    if rule.choices:
        return Grid(frequency=np.asarray(rule.choices), kappa=1.0, slack=1.0)
    low, high = tree.ratios
    count = 1 + max(1, math.ceil(math.log(high / low) / math.log(step)))
    points = low * np.float64(step) ** np.arange(count, dtype=np.float64) / math.sqrt(price)
    caps = tree.model.max_frequency
    points = np.unique(np.concatenate([points, caps[np.isfinite(caps)], [0.0, math.inf]]))
    half = math.sqrt(step)
    return Grid(frequency=points, kappa=(half + 1 / half) / 2, slack=half)


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
    model, eta = tree.model, grid.frequency
    with np.errstate(divide="ignore"):
        inverse = np.where(np.isinf(eta), 0.0, 1.0 / eta / grid.kappa)
    weight = price * eta / grid.kappa
    stay: list[FloatArray] = []
    leave: list[FloatArray] = []
    pick: list[IntArray] = []
    below: tuple[Level, FloatArray] | None = None
    for level in reversed(tree.levels):
        nodes = level.operators
        over = eta > model.max_frequency[nodes][:, None] * grid.slack
        value = _own(level, inverse, weight, model, over)
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
        below = (level, np.minimum(value[:, :-1, :], begin[:, None, None]))
    stay.reverse()
    leave.reverse()
    pick.reverse()
    anchors = _trace(tree, stay, leave, pick)
    return Cheapest(least=float(leave[0].sum()), anchors=anchors)


def _own(
    level: Level, inverse: FloatArray, weight: FloatArray, model: CheckpointModel, over: BoolArray
) -> FloatArray:
    """What the operators of a level add themselves, per head and frequency."""
    nodes = level.operators
    with np.errstate(invalid="ignore"):
        value = level.rework[:, :, None] * inverse
        written = model.state[nodes][:, None] * weight
        headed = model.access[nodes][:, None] * weight
    if not np.isfinite(inverse[0]):
        # 0 * inf: nothing to replay takes no time, nothing to write costs nothing.
        value[:, :, 0] = np.where(level.rework == 0, 0.0, np.inf)
    if not np.isfinite(weight[-1]):
        written[:, -1] = np.where(model.state[nodes] == 0, 0.0, np.inf)
        headed[:, -1] = np.where(model.access[nodes] == 0, 0.0, np.inf)
    value += level.load[:, :, None]
    value += np.where(over, np.inf, written)[:, None, :]
    value[:, -1, :] += headed
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
        head, point = head[level.parent], point[level.parent]
        begins = leave[depth] < stay[depth][rows, head, point]
        head = np.where(begins, depth, head)
        point = np.where(begins, pick[depth], point)
        anchors[level.operators[begins]] = True
    return anchors
