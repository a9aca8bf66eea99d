"""`dag`: any topology, joins included, with a proved bound.

Problem: as stated for chains, with the reading of `holdfast.model.checkpointing` for joins: an
anchor saves all its inputs, operators joined by unsaved edges form one segment (with one frequency
and possibly several heads), and a recovery involves every ancestor in the segment once.

Three parts take turns. A local search over anchors finds plans. A linear relaxation at the price
of the best plan bounds all plans; its fractional anchors, rounded at several levels, are new
starting points for the search. A better plan or a wrong slope moves the price. Small graphs are
enumerated in the end, which proves the optimum; graphs without joins are left to the exact
algorithms.

Work is limited by counts, not by time, so that the same request gives the same plan.
"""

from __future__ import annotations

import math


from holdfast.plan.fastrecover.chain_exact import exact_chain
from holdfast.plan.fastrecover.dag_relaxation import (
    Relaxation,
    make_classes,
    make_pairs,
    round_anchors,
)
from holdfast.plan.fastrecover.dag_search import LocalSearch, MaskedGraph
from holdfast.plan.fastrecover.first_order import FirstOrder, Iterate
from holdfast.plan.fastrecover.problem import GAP, Outcome, Problem, first_price
from holdfast.plan.fastrecover.tree_exact import exact_tree
from holdfast.plan.protocol import Progress, Solve

ENUMERATE = 11
"""Most free operators of a graph that is enumerated (2048 sets of anchors)."""
CELLS = 26_000
"""Most pairs times classes of the relaxation."""
ENOUGH = 2e-3
"""Relative gap at which more bounding is not worth its time."""
ROUNDS = 5
ITERATIONS = 500
"""Of the first-order method, per round."""
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
    if len(search.free) <= ENUMERATE and not problem.rule.powers_of_two:
        return _enumerate(search, solve)
    search.run(solve, kicks=0)
    if solve.should_stop():
        return Outcome(solution=search.best, note="stopped early: no bound was computed")
    bound = Bounding(problem, search, solve).run()
    best = search.best
    return Outcome(
        solution=best,
        bound=min(bound, best.objective),
        optimal=bound >= best.objective * (1 - GAP) and not problem.rule.powers_of_two,
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


class Bounding:
    """Relaxation, rounding and search in turns."""

    def __init__(self, problem: Problem, search: LocalSearch, solve: Solve) -> None:
        self.problem, self.search, self.solve = problem, search, solve
        self.bound = -math.inf

    def run(self) -> float:
        """Rounds until the gap is small or the work is used up."""
        price = first_price(self.search.best)
        factor, before = 1.2, 0
        for turn in range(ROUNDS):
            plan = self.search.best
            overhead = self._bound_at(price)
            if self._close_enough() or self.solve.should_stop():
                break
            if self.search.best.objective < plan.objective * (1 - 1e-4):
                price, factor, before = first_price(self.search.best), 1.2, 0
                continue
            side = self._side(overhead)
            if before and side != before:
                factor = math.sqrt(factor)
            before = side
            price *= factor**side
            if turn % 2:
                self.search.run(self.solve, kicks=12)
        return self.bound

    def _close_enough(self) -> bool:
        return self.bound >= self.search.best.objective * (1 - ENOUGH)

    def _side(self, overhead: float) -> int:
        """Up when the relaxed plan spends too much at this price."""
        goal, best = self.problem.goal, self.search.best
        limit = goal.limit if goal.bounded == "overhead" else best.allocation.overhead
        return 1 if overhead > limit else -1

    def _bound_at(self, price: float) -> float:
        """One price: bound, then round; returns the relaxed plan's overhead."""
        best = self.search.best
        ratio = price / first_price(best)
        classes = make_classes(self.problem, best.frequency, ratio)
        pairs = make_pairs(self.problem, max(self.problem.model.size, CELLS // classes.size))
        relaxed = Relaxation(self.problem, pairs, classes)
        method = FirstOrder(relaxed.program)
        at = method.begin()
        cost = relaxed.cost(price, classes)
        enough = self.problem.goal.needed(best.objective * (1 - ENOUGH / 2), price)
        at = method.run(cost, at, self.solve, iterations=ITERATIONS, enough=enough)
        self.bound = max(self.bound, self.problem.goal.bound(at.bound, price))
        self.solve.report(
            Progress(message="relaxation", objective=best.objective, bound=self.bound)
        )
        self._round(relaxed, at)
        return relaxed.overhead(at.average, classes)

    def _round(self, relaxed: Relaxation, at: Iterate) -> None:
        seen: set[int] = set()
        for point in (at.average, at.x):
            for anchors in round_anchors(relaxed.anchors(point), self.problem, LEVELS):
                mask = self.search.graph.mask(anchors)
                if mask in seen or self.solve.should_stop():
                    continue
                seen.add(mask)
                there, score = self.search.descend(mask, self.solve)
                if score < self.search.best_score * (1 - 1e-12):
                    self.search.offer(there)


