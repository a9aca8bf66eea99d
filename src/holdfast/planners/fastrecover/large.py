"""Plans for topologies of any size, with a proved bound.

Every plan's cost at a price on overhead only falls when a segment is split and the rear part keeps
no head: recovery terms shrink, and sqrt((a1+a2)(b1+b2)) >= sqrt(a1 b1) + sqrt(a2 b2). Chains are
therefore cut into blocks of a few thousand operators and segments represented up to a window of
a few dozen: wherever something was cut, a piece may begin without a head at no price. Shortest
paths through all blocks at once, one array operation per position, bound every plan from below in
O(n * window). The plan comes from the same paths, evaluated as what it is: a headless piece
belongs to the segment before it. Little is lost, a few per thousand.

Forests use the dynamic program of `tree_dual` with a window. Graphs with joins are bounded by the
forest that keeps each operator's heaviest producer (leaving out producers only lowers recovery);
their plans let every join save its inputs, or follow the forest where that merges no large parts.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from holdfast.planners.fastrecover.chain_tables import by_end, chain_tables
from holdfast.planners.fastrecover.checkpointing import BoolArray, FloatArray, IntArray, segments_of
from holdfast.planners.fastrecover.problem import (
    GAP,
    Oracle,
    Outcome,
    Problem,
    Solution,
    climb_price,
)
from holdfast.planners.fastrecover.tree_dual import Forest, cheapest_forest, forest
from holdfast.planners.fastrecover.tree_exact import grid_step
from holdfast.planners.interface import Solve

BLOCK = 2048
"""Operators to a block: long enough to lose little at its ends, short enough for few steps."""
WINDOW = 64
"""Longest segment of a chain that is represented as one piece."""
TABLE = 5_000_000
"""Most entries of a chain's table; more operators get a narrower window."""
HEADS = 8
"""How many heads a forest tells apart."""
CELLS = 8_000_000
"""Most cells of a forest's dynamic program."""
MERGED = 2000
"""Largest segment with unsaved joins whose cost is worked out (quadratic in its size)."""
BLOCKS = (250, 1000, 4000)
"""Stretches tried as segments when not every join can save its inputs."""
ROUNDS = 14
CLOSE = 4e-3


def solve_large(problem: Problem, solve: Solve) -> Outcome:
    """A plan and a bound in time about proportional to the number of operators."""
    if problem.model.has_joins:
        return _graph(problem, solve)
    start = problem.solve(problem.safest())
    if start is None:
        return Outcome(solution=None)
    other = problem.most() if problem.goal.bounded == "overhead" else problem.fewest()
    start = problem.better(start, problem.solve(other)) or start
    oracle: Oracle
    if problem.model.is_chain:
        oracle = ChainBlocks(problem).oracle
    else:
        oracle = _forest_oracle(problem, forest(problem.model, window=HEADS))
    search = climb_price(problem, oracle, start, solve, rounds=ROUNDS, tolerance=CLOSE)
    return _outcome(search.best or start, search.bound, solve)


def _forest_oracle(problem: Problem, tree: Forest) -> Oracle:
    step = grid_step(tree, CELLS)

    def oracle(price: float) -> tuple[float, BoolArray]:
        found = cheapest_forest(
            tree,
            price,
            problem.rule,
            required=problem.required,
            forbidden=problem.forbidden,
            step=step,
        )
        return found.least, found.anchors

    return oracle


def _outcome(best: Solution, bound: float, solve: Solve) -> Outcome:
    gap = 1 - bound / best.objective if best.objective else 0.0
    stopped = "stopped early; " if solve.should_stop() else ""
    return Outcome(
        solution=best,
        bound=min(bound, best.objective) if math.isfinite(bound) else None,
        optimal=gap <= GAP,
        note=f"{stopped}large topology: proved to be within {max(gap, 0.0):.2%} of the optimum",
    )


# -- chains --------------------------------------------------------------------------------------


class ChainBlocks:
    """A chain as shortest paths over blocks of equal length."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        model = problem.model
        order = np.asarray(model.topology.order)
        self.length = min(model.size, BLOCK)
        self.cuts = np.arange(model.size) % self.length == 0
        self.tables = chain_tables(
            model,
            problem.required,
            problem.forbidden,
            order=order,
            window=max(4, min(WINDOW, self.length, TABLE // model.size)),
            barriers=self.cuts,
        )
        self.open = self.cuts & ~problem.required[order]

    def oracle(self, price: float) -> tuple[float, BoolArray]:
        """Lower bound and anchors at a price."""
        segment, headless = self.tables.prices(price, self.problem.rule)
        if headless is None:
            raise AssertionError("tables with barriers price what begins before them")
        least, heads = through_blocks(segment, headless, self.open, self.length)
        anchors = np.zeros(self.problem.model.size, bool)
        anchors[self.tables.order] = heads
        return least, anchors | self.problem.required


def through_blocks(
    segment: FloatArray, headless: FloatArray, may_open: BoolArray, length: int
) -> tuple[float, BoolArray]:
    """Shortest paths through all blocks side by side; least total and where segments begin."""
    size, width = segment.shape
    count = -(-size // length)
    # Padding behind the last operator costs nothing and begins nothing that counts.
    ends = np.full((count * length, 2 * width), np.inf)
    ends[size:, width - 1] = 0.0
    ends[:size, :width] = by_end(segment)
    ends[:size, width:] = by_end(headless)
    blocks = ends.reshape(count, length, 2 * width)
    opened = np.zeros(count * length, bool)
    opened[:size] = may_open
    opened = opened.reshape(count, length)
    whole = np.full((count, length + width), np.inf)
    full = np.full((count, length + width), np.inf)
    whole[:, width - 1] = 0.0
    choice = np.empty((length, count), np.int64)
    forced = np.empty((length, count), bool)
    rows = np.arange(count)
    for t in range(length):
        at = t + width - 1
        here = opened[:, t]
        full[here, at] = np.minimum(full[here, at], whole[here, at])
        both = np.concatenate([whole[:, t : t + width], full[:, t : t + width]], axis=1)
        both += blocks[:, t]
        pick = both.argmin(axis=1)
        choice[t] = pick
        whole[:, at + 1] = both[rows, pick]
        forced[t] = both[:, width] < both[:, 0]
        full[:, at + 1] = np.minimum(both[:, 0], both[:, width])
    heads = _trace(choice, forced, opened, whole <= full, width)
    return float(whole[:, length + width - 1].sum()), heads[:size]


def _trace(
    choice: IntArray, forced: BoolArray, opened: BoolArray, free: BoolArray, width: int
) -> BoolArray:
    """Walk back through each block; a headless piece needs a full one before it, or an opening."""
    length, count = choice.shape
    heads = np.zeros((count, length), bool)
    for block in range(count):
        e, must = length - 1, False
        while e >= 0:
            pick = (width if forced[e, block] else 0) if must else int(choice[e, block])
            begin = e - width + 1 + pick % width
            bare = pick >= width
            heads[block, begin] = not bare
            must = bare and not (opened[block, begin] and free[block, begin + width - 1])
            e = begin - 1
    return heads.ravel()


# -- graphs with joins ---------------------------------------------------------------------------


def _graph(problem: Problem, solve: Solve) -> Outcome:
    """Bound by the forest of heaviest producers; plans with joins saved, or not."""
    best = _first_plan(problem, solve)
    if best is None:
        return Outcome(solution=None)
    model = problem.model
    rate = model.rate.tolist()
    parent = np.asarray([max(up, key=rate.__getitem__) if up else -1 for up in model.upstream])
    search = climb_price(
        problem,
        _forest_oracle(problem, forest(model, parent=parent, window=HEADS)),
        best,
        solve,
        rounds=ROUNDS,
        tolerance=CLOSE,
        usable=lambda anchors: _small(problem, anchors),
    )
    return _outcome(search.best or best, search.bound, solve)


def _first_plan(problem: Problem, solve: Solve) -> Solution | None:
    """Every join an anchor leaves a forest, which is planned as such; else the safest plan."""
    model = problem.model
    joins = np.asarray([len(up) > 1 for up in model.upstream])
    closed = replace(problem, required=problem.required | (joins & ~problem.forbidden))
    best: Solution | None = None
    if not (joins & problem.forbidden).any():
        start = closed.solve(closed.fewest())
        if problem.goal.bounded == "recovery":
            start = closed.solve(closed.most())
        if start is not None:
            parent = np.asarray([up[0] if len(up) == 1 else -1 for up in model.upstream])
            oracle = _forest_oracle(closed, forest(model, parent=parent, window=HEADS))
            search = climb_price(closed, oracle, start, solve, rounds=6, tolerance=CLOSE)
            best = search.best
    if best is None and problem.goal.bounded == "overhead":
        for length in BLOCKS:
            anchors = _between_blocks(problem, length)
            if float(model.save[anchors].sum()) < problem.goal.limit:
                best = problem.better(best, problem.solve(anchors))
    return best or problem.solve(problem.safest())


def _between_blocks(problem: Problem, length: int) -> BoolArray:
    """Anchors wherever an edge leads from one stretch of the topological order to a later one."""
    model = problem.model
    block = np.empty(model.size, np.int64)
    block[np.asarray(model.topology.order)] = np.arange(model.size) // length
    where = block.tolist()
    crossed = [any(where[j] != where[i] for j in up) for i, up in enumerate(model.upstream)]
    return (np.asarray(crossed) & ~problem.forbidden) | problem.required


def _small(problem: Problem, anchors: BoolArray) -> bool:
    """Whether no large segment has unsaved joins."""
    upstream = problem.model.upstream
    label, _ = segments_of(problem.model, anchors)
    size = np.bincount(label)
    return all(
        size[label[i]] <= MERGED
        for i in range(problem.model.size)
        if len(upstream[i]) > 1 and not anchors[i]
    )
