"""A linear relaxation of FastRecover on any graph, at a fixed price on overhead.

Variables, all in [0, 1]: x_k, operator k is an anchor; y_ikg, operator i runs in frequency class g
and k is among the ancestors that its recovery involves (y_iig: i is in class g); h_ikg, k is a head
among them; c_jig, the edge from j (in class g) to i is saved. Minimise expected recovery
+ price * overhead, where

  sum_g y_iig >= 1                        every operator has a frequency
  y_ijg >= y_ikg - h_ikg   (j feeds k)    behind k lies j, unless k reads its saved input
  sum_g h_ikg <= x_k                      which only an anchor has
  y_ikg >= y_jkg - c_jig   (j feeds i)    what j involves, i involves, unless the edge is saved
  sum_g c_jig <= x_i

A class covers frequencies from l to h. A segment whose best frequency lies there costs at least
a * 2 / (l + h) + price * b * 2 l h / (l + h): the chord of the concave 2 sqrt(price a b), exact
where the best frequency is l or h. The outermost classes reach to 0 and to infinity; caps and lists
add classes of one frequency.

The relaxation is nearly always integral in practice; its value is a bound for every plan.
Leaving out pairs (i, k) only weakens it, which keeps large graphs affordable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from holdfast.planners.fastrecover.checkpointing import BoolArray, FloatArray, IntArray
from holdfast.planners.fastrecover.first_order import BoxedProgram
from holdfast.planners.fastrecover.problem import Problem, Solution

TAIL = 0.01
"""Share of the cost whose frequencies need no narrow classes, on each side."""
MOST_CAPS = 6
"""Distinct caps told apart; others are relaxed to the next higher."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
    """Per class, what one unit of replay and one of writing (times price) cost at least."""

    replay: FloatArray
    write: FloatArray
    lowest: FloatArray
    """An operator may be in a class if its cap is not below this."""
    limits: FloatArray
    """Where the classes of a range meet."""

    @property
    def size(self) -> int:
        return len(self.replay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """How finely frequencies are told apart."""

    step: float
    """Ratio of a class's limits; 1.3 loses at most 0.9% inside a class, nothing at its limits."""
    margin: float
    """How far beyond the plan's own frequencies there are such classes (natural logarithm)."""
    fewest: int
    most: int
    """Between these many classes."""


COARSE = Resolution(step=1.7, margin=1.2, fewest=6, most=8)
"""To find a plan."""
FINE = Resolution(step=1.3, margin=0.35, fewest=11, most=16)
"""To prove its worth."""


def make_classes(
    problem: Problem, plan: Solution, how: Resolution, *, like: Classes | None = None
) -> Classes:
    """Classes around a plan's frequencies, or those of the list.

    With `like`, as many classes over the same range, shifted so that their limits meet the plan's
    frequencies as well as possible: there the chord is exact.
    """
    if problem.rule.choices:
        points = np.asarray(problem.rule.choices)
        return Classes(replay=1.0 / points, write=points, lowest=points, limits=points)
    eta = plan.allocation.frequency
    some = np.isfinite(eta) & (eta > 0)
    used = np.log(eta[some]) if some.any() else np.zeros(1)
    weight = plan.partition.replay[some] / eta[some] if some.any() else np.ones(1)
    if like is None:
        # Segments that hardly cost anything may fall into the outermost classes.
        order = np.argsort(used)
        share = np.cumsum(weight[order]) / weight.sum() if weight.any() else np.ones(len(used))
        first, last = np.searchsorted(share, [TAIL, 1 - TAIL])
        low, high = float(used[order[first]]), float(used[order[min(last, len(used) - 1)]])
        margin = max(how.margin, (how.fewest * math.log(how.step) - (high - low)) / 2)
        low, high = low - margin, high + margin
        count = min(how.most, max(1, math.ceil((high - low) / math.log(how.step))))
        width = (high - low) / count
    else:
        low, count = math.log(like.limits[0]), len(like.limits) - 1
        width = math.log(like.limits[-1] / like.limits[0]) / count
    place = (used - low) / width
    # What a chord loses is about quadratic in the distance to the limits on both sides.
    shifts = np.unique(np.mod(place, 1.0))
    apart = np.mod(place[None, :] - shifts[:, None], 1.0)
    shift = float(shifts[int(((apart * (1 - apart)) @ weight).argmin())])
    shift -= 1.0 if shift > 0.5 else 0.0
    return _from_limits(np.exp(low + width * (np.arange(count + 1) + shift)), _caps(problem))


def _from_limits(limits: FloatArray, caps: FloatArray) -> Classes:
    below, above = limits[:-1], limits[1:]
    return Classes(
        replay=np.concatenate([[2 / limits[0]], 2 / (below + above), [0.0], 1 / caps]),
        write=np.concatenate([[0.0], 2 * below * above / (below + above), [2 * limits[-1]], caps]),
        lowest=np.concatenate([[0.0], below, [limits[-1]], caps]),
        limits=limits,
    )


def _caps(problem: Problem) -> FloatArray:
    caps = np.unique(problem.model.max_frequency)
    caps = caps[np.isfinite(caps)]
    if len(caps) <= MOST_CAPS:
        return caps
    return np.quantile(caps, np.linspace(0, 1, MOST_CAPS + 1)[1:], method="higher")


def _ceilings(problem: Problem) -> FloatArray:
    """Caps as the classes know them."""
    caps = np.append(_caps(problem), np.inf)
    return caps[np.searchsorted(caps, problem.model.max_frequency)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """The pairs (i, k) with k an ancestor of i, or i itself, that are represented."""

    below: IntArray
    """i."""
    above: IntArray
    """k."""
    number: dict[tuple[int, int], int]


def make_pairs(problem: Problem, most: int, depth: int) -> Pairs:
    """Pairs at most `depth` edges apart, the nearest `most` of them."""
    upstream = problem.model.upstream
    pairs = [(i, i) for i in range(problem.model.size)]
    seen = set(pairs)
    ring = pairs
    for _ in range(depth):
        ring = [
            pair
            for pair in dict.fromkeys((i, j) for i, k in ring for j in upstream[k])
            if pair not in seen
        ]
        seen.update(ring)
        pairs = pairs + ring[: most - len(pairs)]
        if not ring or len(pairs) >= most:
            break
    return Pairs(
        below=np.asarray([i for i, _ in pairs]),
        above=np.asarray([k for _, k in pairs]),
        number={pair: at for at, pair in enumerate(pairs)},
    )


def segment_depth(plan: Solution) -> int:
    """Edges on the longest unsaved path of a plan."""
    model, anchors = plan.partition.model, plan.anchors
    depth = [0] * model.size
    for i in model.topology.order:
        if not anchors[i]:
            depth[i] = 1 + max(depth[j] for j in model.upstream[i])
    return max(depth)


class Relaxation:
    """The program of one graph and one number of classes; costs follow price and classes."""

    def __init__(self, problem: Problem, pairs: Pairs, classes: Classes) -> None:
        self.problem, self.pairs, self.classes = problem, pairs, classes
        self.size = problem.model.size
        self.edges = [
            (j, i) for i, producers in enumerate(problem.model.upstream) for j in producers
        ]
        count = len(pairs.below) * classes.size
        self.at_y = self.size
        self.at_h = self.at_y + count
        self.at_c = self.at_h + count
        self.width = self.at_c + len(self.edges) * classes.size
        self.program = self._program()

    def anchors(self, x: FloatArray) -> FloatArray:
        return x[: self.size]

    def adopt(self, classes: Classes) -> None:
        """Go on with other classes of the same number: only costs and caps change."""
        self.classes = classes
        self.program.upper[self.at_y : self.at_h] = self._open().ravel()

    def _open(self) -> FloatArray:
        """Per pair and class, 0 where the operator's cap bars the class."""
        barred = self.classes.lowest[None, :] > _ceilings(self.problem)[:, None]
        return np.where(barred[self.pairs.below], 0.0, 1.0)

    def cost(self, price: float) -> FloatArray:
        """Objective at a price."""
        classes = self.classes
        model, below, above = self.problem.model, self.pairs.below, self.pairs.above
        failure = model.failure[below][:, None]
        load = model.state[above] + np.where(model.is_source[above], model.access[above], 0.0)
        work = model.replay[above] + np.where(model.is_source[above], model.save[above], 0.0)
        y = failure * (load[:, None] + work[:, None] * classes.replay)
        own = below == above
        own_write = model.state + np.where(model.is_source, model.access, 0.0)
        y[own] += price * own_write[below[own]][:, None] * classes.write
        h = failure * (model.access[above][:, None] + model.save[above][:, None] * classes.replay)
        h = np.where(model.is_source[above][:, None], 0.0, h)
        h[own] += (
            price
            * np.where(model.is_source[below[own]], 0.0, model.access[below[own]])[:, None]
            * classes.write
        )
        return np.concatenate(
            [price * model.save, y.ravel(), h.ravel(), np.zeros(self.width - self.at_c)]
        )

    def overhead(self, x: FloatArray) -> float:
        """The overhead part of a point: the slope of its value in the price."""
        classes = self.classes
        model, pairs = self.problem.model, self.pairs
        own = np.flatnonzero(pairs.below == pairs.above)
        y = x[self.at_y : self.at_h].reshape(-1, classes.size)[own]
        written = model.state[pairs.below[own]] @ (y @ classes.write)
        return float(model.save @ x[: self.size] + written)

    def _program(self) -> BoxedProgram:
        problem, groups = self.problem, self.classes.size
        rows = _Rows()
        own = np.asarray([self.pairs.number[i, i] for i in range(self.size)])
        rows.sums(self.at_y + own[:, None] * groups + np.arange(groups), None, 1.0)
        self._recovery_rows(rows)
        self._edge_rows(rows)
        lower, upper = np.zeros(self.width), np.ones(self.width)
        lower[: self.size][problem.required] = 1.0
        upper[: self.size][problem.forbidden & ~problem.required] = 0.0
        upper[self.at_y : self.at_h] = self._open().ravel()
        return BoxedProgram(
            matrix=rows.matrix(self.width), least=rows.least(), lower=lower, upper=upper
        )

    def _recovery_rows(self, rows: _Rows) -> None:
        number, groups = self.pairs.number, self.classes.size
        upstream = self.problem.model.upstream
        links = [
            (at, number[i, j])
            for (i, k), at in number.items()
            for j in upstream[k]
            if (i, j) in number
        ]
        near, far = _spread(links, groups)
        rows.less(self.at_y + far, self.at_y + near, self.at_h + near)
        heads = np.arange(len(self.pairs.below))
        columns = self.at_h + heads[:, None] * groups + np.arange(groups)
        rows.sums(columns, self.pairs.above, 0.0)

    def _edge_rows(self, rows: _Rows) -> None:
        number, groups = self.pairs.number, self.classes.size
        by_below: dict[int, list[int]] = {}
        for i, k in number:
            by_below.setdefault(i, []).append(k)
        links, cuts = [], []
        for at, (j, i) in enumerate(self.edges):
            for k in by_below[j]:
                if (i, k) in number:
                    links.append((number[j, k], number[i, k]))
                    cuts.append(at)
                if k == j:
                    # Uncut edges join their ends in one class.
                    links.append((number[j, j], number[i, i]))
                    cuts.append(at)
        producer, consumer = _spread(links, groups)
        cut = (np.asarray(cuts, np.int64)[:, None] * groups + np.arange(groups)).ravel()
        rows.less(self.at_y + consumer, self.at_y + producer, self.at_c + cut)
        each = np.arange(len(self.edges))
        columns = self.at_c + each[:, None] * groups + np.arange(groups)
        rows.sums(columns, np.asarray([i for _, i in self.edges], np.int64), 0.0)


def _spread(links: list[tuple[int, int]], groups: int) -> tuple[IntArray, IntArray]:
    """Pair numbers to positions, class by class."""
    table = np.asarray(links, np.int64).reshape(-1, 2)
    first = (table[:, 0][:, None] * groups + np.arange(groups)).ravel()
    second = (table[:, 1][:, None] * groups + np.arange(groups)).ravel()
    return first, second


class _Rows:
    """Collects the triplets of a sparse matrix, block by block."""

    def __init__(self) -> None:
        self._row: list[IntArray] = []
        self._column: list[IntArray] = []
        self._value: list[FloatArray] = []
        self._least: list[FloatArray] = []
        self._count = 0

    def _add(self, row: IntArray, column: IntArray, value: float) -> None:
        self._row.append(row)
        self._column.append(column)
        self._value.append(np.full(len(row), value))

    def less(self, kept: IntArray, given: IntArray, excuse: IntArray) -> None:
        """Kept >= given - excuse, row by row."""
        row = self._count + np.arange(len(kept))
        self._add(row, kept, 1.0)
        self._add(row, given, -1.0)
        self._add(row, excuse, 1.0)
        self._least.append(np.zeros(len(kept)))
        self._count += len(kept)

    def sums(self, columns: IntArray, allowed: IntArray | None, least: float) -> None:
        """Sum of each row of columns >= least, or <= the variable `allowed`."""
        count, many = columns.shape
        row = self._count + np.arange(count)
        sign = 1.0 if allowed is None else -1.0
        self._add(np.repeat(row, many), columns.ravel(), sign)
        if allowed is not None:
            self._add(row, allowed, 1.0)
        self._least.append(np.full(count, least))
        self._count += count

    def least(self) -> FloatArray:
        return np.concatenate(self._least)

    def matrix(self, width: int) -> csr_matrix:
        parts = (
            np.concatenate(self._value),
            (np.concatenate(self._row), np.concatenate(self._column)),
        )
        return csr_matrix(parts, shape=(self._count, width))


def round_anchors(
    share: FloatArray, problem: Problem, levels: tuple[float, ...]
) -> list[BoolArray]:
    """Sets of anchors from fractional ones: everything above each level."""
    found: list[BoolArray] = []
    for level in levels:
        anchors = ((share > level) | problem.required) & ~(problem.forbidden & ~problem.required)
        if not any(np.array_equal(anchors, other) for other in found):
            found.append(anchors)
    return found
