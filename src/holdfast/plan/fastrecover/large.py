"""Plans for topologies of any size, with a proved bound: paths, windows and blocks.

Every plan's cost at a price on overhead only falls when a segment is split and the rear part keeps
no head: recovery terms shrink, and sqrt((a1+a2)(b1+b2)) >= sqrt(a1 b1) + sqrt(a2 b2). So the graph
may be relaxed to paths (each operator keeps its heaviest producer, each producer its heaviest
consumer), paths to blocks of about a thousand operators, and segments to a window of a few dozen:
wherever something was cut, a piece may begin without a head at no price. Shortest paths over all
blocks at once, one array operation per position, bound every plan from below in O(n * window).

The plan comes from the same shortest paths, evaluated as what it is: a headless piece belongs to
the segment before it. Where joins make that dear, a second run has every join save its inputs.
On chains little is lost (a few per thousand); on wide graphs the bound is looser, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.model.checkpointing import BoolArray, CheckpointModel, FloatArray, IntArray
from holdfast.plan.fastrecover.chain_tables import ChainTables, by_end, chain_tables
from holdfast.plan.fastrecover.problem import GAP, Outcome, Problem, search_price
from holdfast.plan.protocol import Solve

BLOCK = 1024
"""Operators to a block: long enough to lose little at its ends, short enough for few steps."""
WINDOW = 48
"""Longest segment that is represented as one piece."""
CELLS = 3_200_000
"""Most entries of a table; more operators get a narrower window."""
ROUNDS = 9


def solve_large(problem: Problem, solve: Solve) -> Outcome:
    """A plan and a bound in time about proportional to the number of operators."""
    start = problem.solve(problem.safest())
    if start is None:
        return Outcome(solution=None)
    other = problem.most() if problem.goal.bounded == "overhead" else problem.fewest()
    start = problem.better(start, problem.solve(other)) or start
    blocks = _Blocks(problem)
    search = search_price(problem, blocks.oracle, start, solve, rounds=ROUNDS, tolerance=1e-3)
    best, bound = search.best or start, search.bound
    if problem.model.has_joins and not solve.should_stop():
        closed = _Blocks(problem, closed_joins=True)
        again = search_price(problem, closed.oracle, best, solve, rounds=6, price=search.price)
        best = problem.better(best, again.best) or best
    gap = 1 - bound / best.objective if best.objective else 0.0
    stopped = "stopped early; " if solve.should_stop() else ""
    return Outcome(
        solution=best,
        bound=min(bound, best.objective),
        optimal=gap <= GAP,
        note=f"{stopped}large topology: proved to be within {max(gap, 0.0):.2%} of the optimum",
    )


def path_cover(model: CheckpointModel) -> tuple[IntArray, BoolArray]:
    """Operators path by path, and where paths begin.

    A path goes on from a producer to its heaviest consumer that takes most from it.
    """
    upstream, downstream = model.upstream, model.downstream
    weight = model.rate.tolist()
    producer = [max(up, key=weight.__getitem__) if up else -1 for up in upstream]
    following = [-1] * model.size
    for j, fed in enumerate(downstream):
        mine = [i for i in fed if producer[i] == j]
        if mine:
            following[j] = max(mine, key=weight.__getitem__)
    followed = [False] * model.size
    for i in following:
        if i >= 0:
            followed[i] = True
    order: list[int] = []
    begins: list[bool] = []
    for i in model.topology.order:
        if followed[i]:
            continue
        at, first = i, True
        while at >= 0:
            order.append(at)
            begins.append(first)
            at, first = following[at], False
    return np.asarray(order, np.int64), np.asarray(begins, bool)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layout:
    """Where pieces may begin in a row of operators."""

    breaks: BoolArray
    """A path or a block begins here: nothing reaches across."""
    open: BoolArray
    """A headless piece may begin here at no price."""


class _Blocks:
    """The relaxed problem as shortest paths over blocks of equal length."""

    def __init__(self, problem: Problem, *, closed_joins: bool = False) -> None:
        self.problem = problem
        model = problem.model
        order, begins = path_cover(model)
        size = len(order)
        self.length = min(size, BLOCK)
        window = max(4, min(WINDOW, self.length, CELLS // size))
        layout = self._layout(order, begins, closed_joins=closed_joins)
        self.tables: ChainTables = chain_tables(
            model,
            problem.required,
            problem.forbidden,
            order=order,
            window=window,
            barriers=layout.breaks,
            headless=True,
        )
        self.open = layout.open

    def _layout(self, order: IntArray, begins: BoolArray, *, closed_joins: bool) -> _Layout:
        problem = self.problem
        bound = problem.required[order]
        ends = np.arange(len(order)) % self.length == 0
        attached = begins & ~bound
        if closed_joins:
            joins = np.asarray([len(up) > 1 for up in problem.model.upstream])[order]
            attached &= ~joins
            # A join inside a path begins a path of its own, and not for free.
            begins = begins | joins
            ends = ends & ~joins
        return _Layout(breaks=begins | ends, open=(ends & ~begins & ~bound) | attached)

    def oracle(self, price: float) -> tuple[float, BoolArray]:
        """Lower bound and anchors at a price."""
        segment, headless = self.tables.prices(price, self.problem.rule)
        if headless is None:
            raise AssertionError("tables with barriers have headless pieces")
        least, heads = _all_blocks(segment, headless, self.open, self.length)
        anchors = np.zeros(self.problem.model.size, bool)
        anchors[self.tables.order] = heads
        return least, anchors | self.problem.required


def _all_blocks(
    segment: FloatArray, headless: FloatArray, may_open: BoolArray, length: int
) -> tuple[float, BoolArray]:
    """Shortest paths through all blocks side by side; least total and where segments begin."""
    size, width = segment.shape
    count = -(-size // length)
    ends = np.concatenate([by_end(segment), by_end(headless)], axis=1)
    padded = np.zeros((count * length, 2 * width))
    # Padding costs nothing and hangs on whatever came before.
    padded[size:] = np.inf
    padded[size:, width - 1] = 0.0
    padded[:size] = ends
    blocks = padded.reshape(count, length, 2 * width)
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
    heads = _trace(choice, forced, opened, whole, full, width)
    return float(whole[:, length + width - 1].sum()), heads[:size]


def _trace(
    choice: IntArray,
    forced: BoolArray,
    opened: BoolArray,
    whole: FloatArray,
    full: FloatArray,
    width: int,
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
            at = begin + width - 1
            must = bare and not (opened[block, begin] and whole[block, at] <= full[block, at])
            e = begin - 1
    return heads.ravel()
