"""`dag`: any topology, joins included, with a proved bound.

Problem: as stated for chains, with the reading of `checkpointing.py` for joins: an anchor saves all
its inputs, operators joined by unsaved edges form one segment (with one frequency and possibly
several heads), and a recovery involves every ancestor in the segment once.

Three parts take turns. A local search over anchors finds plans. A linear relaxation at the price
of the best plan bounds all plans; its fractional anchors, rounded at several levels, are new
starting points for the search. A better plan or a wrong slope moves the price. Small graphs are
enumerated in the end, which proves the optimum; graphs without joins are left to the exact
algorithms.

Work is limited by counts, not by time, so that the same request gives the same plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast.planners.fastrecover.chain_exact import exact_chain
from holdfast.planners.fastrecover.dag_relaxation import (
    COARSE,
    FINE,
    Relaxation,
    Resolution,
    make_classes,
    make_pairs,
    round_anchors,
    segment_depth,
)
from holdfast.planners.fastrecover.dag_search import LocalSearch, MaskedGraph
from holdfast.planners.fastrecover.first_order import Box, FirstOrder, Iterate
from holdfast.planners.fastrecover.problem import GAP, Outcome, Problem, first_price
from holdfast.planners.fastrecover.tree_exact import exact_tree
from holdfast.planners.interface import Progress, Solve

ENUMERATE = 11
"""Most free operators of a graph that is enumerated (2048 sets of anchors)."""
CELLS = 26_000
"""Most pairs times classes of the relaxation."""
ENOUGH = 3e-3
"""Relative gap at which more bounding is not worth its time."""
BRANCH = 1e-2
"""Relative gap at which branching is not."""
TURNS = 9
PATIENCE = 3
"""Turns without progress after which it ends."""
ITERATIONS = 250
"""Of the first-order method, per turn."""
WORK = 3e8
"""Non-zeros of the relaxation times iterations, in all: about a second and a half."""
LEVELS = (0.15, 0.35, 0.5, 0.65, 0.85)


def solve_dag(problem: Problem, solve: Solve) -> Outcome:
    """A good plan of any topology and a bound for all of them."""
    if not problem.model.has_joins:
        return (exact_chain if problem.model.is_chain else exact_tree)(problem, solve)
    start = problem.solve(problem.safest())
    if start is None:
        return Outcome(solution=None)
    other = problem.most() if problem.goal.bounded == "overhead" else problem.fewest()
    start = problem.better(start, problem.solve(other)) or start
    graph = MaskedGraph(problem.model)
    search = LocalSearch(problem, graph, start)
    if len(search.free) <= ENUMERATE:
        return _enumerate(search, solve)
    search.run(solve, kicks=0)
    if solve.should_stop():
        return Outcome(solution=search.best, note="stopped early: no bound was computed")
    bound, work = -math.inf, WORK
    if not problem.rule.choices:
        rough = Bounding(problem, search, solve, COARSE, work)
        bound = rough.whole(turns=4).bound
        work = rough.work_left
    if not bound >= search.best.objective * (1 - ENOUGH):
        bound = max(bound, Bounding(problem, search, solve, FINE, work).run())
    best = search.best
    return Outcome(
        solution=best,
        bound=min(bound, best.objective),
        optimal=bound >= best.objective * (1 - GAP),
        note="stopped early" if solve.should_stop() else "",
    )


def _enumerate(search: LocalSearch, solve: Solve) -> Outcome:
    """Every set of anchors, neighbours in Gray order so that segments repeat."""
    problem, graph = search.problem, search.graph
    anchors = graph.mask(problem.fewest())
    exact = True
    for step in range(1, 1 << len(search.free)):
        score = search.score(anchors)
        if search.simple:
            if score < search.best_score:
                search.offer(anchors)
        else:
            found = problem.solve(graph.array(anchors))
            if found is not None:
                exact &= found.allocation.exact
                if found.objective < search.best.objective:
                    search.best = found
        anchors ^= 1 << search.free[(step & -step).bit_length() - 1]
        if step % 128 == 0 and solve.should_stop():
            return Outcome(solution=search.best, note="stopped early: no bound was computed")
    last = problem.solve(graph.array(anchors))
    best = problem.better(search.best, last) or search.best
    return Outcome(solution=best, bound=best.objective if exact else None, optimal=exact)


@dataclass(slots=True, eq=False)
class Branch:
    """A part of the plans: some operators decided."""

    box: Box
    price: float
    at: Iterate
    bound: float = -math.inf
    idle: int = 0


class Bounding:
    """Relaxation, rounding and search in turns, on one program that is never rebuilt."""

    def __init__(
        self,
        problem: Problem,
        search: LocalSearch,
        solve: Solve,
        how: Resolution,
        work: float,
    ) -> None:
        self.problem, self.search, self.solve, self.how = problem, search, solve, how
        self.classes = make_classes(problem, search.best, how)
        room = max(problem.model.size, CELLS // self.classes.size)
        pairs = make_pairs(problem, room, segment_depth(search.best) + 3)
        self.relaxed = Relaxation(problem, pairs, self.classes)
        self.method = FirstOrder(self.relaxed.program)
        self.seen: set[int] = set()
        self.cost = max(self.relaxed.program.matrix.nnz, 1)
        self.work = work / self.cost
        """Iterations left."""

    @property
    def work_left(self) -> float:
        return float(self.work * self.cost)

    def whole(self, *, turns: int = TURNS) -> Branch:
        """The bound without any branching."""
        whole = Branch(self.method.boxes(), first_price(self.search.best), self.method.begin())
        self._settle(whole, turns=turns, shift=True)
        return whole

    def run(self) -> float:
        """A bound for all plans: that of the whole, or the least of its branches."""
        branches = [self.whole()]
        while self.work > 0 and not self.solve.should_stop():
            worst = min(branches, key=lambda branch: branch.bound)
            if worst.bound >= self.search.best.objective * (1 - BRANCH):
                break
            at = self._disputed(worst)
            if at is None:
                break
            branches.remove(worst)
            for side in (0.0, 1.0):
                box = worst.box[0].copy(), worst.box[1].copy()
                box[0][at] = box[1][at] = side
                part = Branch(box, worst.price, worst.at, worst.bound)
                self._settle(part, turns=2, shift=False)
                branches.append(part)
        return min(branch.bound for branch in branches)

    def _settle(self, branch: Branch, *, turns: int, shift: bool) -> None:
        """Turns until the gap is small, nothing moves any more, or the work is used up."""
        for turn in range(turns):
            objective, bound = self.search.best.objective, branch.bound
            if shift and turn:
                moved = make_classes(self.problem, self.search.best, self.how, like=self.classes)
                self.relaxed.adopt(moved)
            self._iterate(branch)
            if self._done(branch):
                return
            self._round(branch)
            rise = branch.bound - bound if math.isfinite(bound) else branch.bound
            gain = (objective - self.search.best.objective + rise) / objective
            branch.idle = branch.idle + 1 if gain < 5e-4 else 0
            if self._done(branch) or branch.idle >= PATIENCE:
                return
            branch.price *= self._pull(branch)

    def _done(self, branch: Branch) -> bool:
        enough = branch.bound >= self.search.best.objective * (1 - ENOUGH)
        return enough or self.work <= 0 or self.solve.should_stop()

    def _iterate(self, branch: Branch) -> None:
        best, goal, price = self.search.best, self.problem.goal, branch.price
        before = branch.at.iterations
        branch.at = self.method.run(
            self.relaxed.cost(price),
            branch.at,
            self.solve,
            iterations=ITERATIONS,
            enough=goal.needed(best.objective * (1 - ENOUGH / 2), price),
            box=branch.box,
        )
        self.work -= branch.at.iterations - before
        branch.bound = max(branch.bound, goal.bound(branch.at.bound, price))
        self.solve.report(
            Progress(message="relaxation", objective=best.objective, bound=branch.bound)
        )

    def _pull(self, branch: Branch) -> float:
        """Spending more than the limit makes overhead dearer, and the reverse."""
        goal, best = self.problem.goal, self.search.best
        limit = goal.limit if goal.bounded == "overhead" else best.allocation.overhead
        spent = self.relaxed.overhead(branch.at.average) / limit
        return float(min(1.2, max(1 / 1.2, spent**1.5)))

    def _disputed(self, branch: Branch) -> int | None:
        """The operator whose being an anchor is least clear, weighed by what it costs."""
        share = self.relaxed.anchors(branch.at.average)
        size = self.problem.model.size
        free = branch.box[0][:size] < branch.box[1][:size]
        unclear = np.minimum(share, 1 - share)
        # A whole answer at one price may still differ from the best plan, which meets the limit.
        unclear = np.maximum(unclear, 0.5 * ((share > 0.5) != self.search.best.anchors))
        doubt = unclear * self.problem.model.save * free
        return int(doubt.argmax()) if doubt.max() > 1e-9 * self.problem.model.save.max() else None

    def _round(self, branch: Branch) -> None:
        for point in (branch.at.average, branch.at.x):
            share = self.relaxed.anchors(point)
            for anchors in round_anchors(share, self.problem, LEVELS):
                mask = self.search.graph.mask(anchors)
                if mask in self.seen or self.solve.should_stop():
                    continue
                self.seen.add(mask)
                there, score = self.search.descend(mask, self.solve)
                if score < self.search.best_score * (1 - 1e-12):
                    self.search.offer(there)
