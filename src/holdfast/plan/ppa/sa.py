"""Structure-aware planning (Algorithms 1 to 3 of PPA), repaired.

Kept from the paper: the plan grows by sets of tasks that complete a tree, not by single tasks; in
Full sub-topologies only the weightiest free task of an operator is a candidate (Algorithm 2); in
structured ones a segment is extended through its neighbours until it reaches source and sink
(Algorithm 1); across sub-topologies the candidate with the greatest gain per cost that still fits
wins (Algorithm 3), judged by the fidelity of the whole topology, all queries together.

Repaired: candidates are compared with what is left of the budget; the first plan is a complete tree
that fits, and there is one whenever any tree fits; usage counts; growth stops when nothing fits.
Sub-topologies are not planned apart, because a candidate is completed through all of them.

Added, because growth is short-sighted (gains are supermodular, a first lane hides what the second
would bring): the same budget is also reached from above, by taking away what is missed least; the
better plan is kept, never one below `greedy`; and on up to `POLISH_TASKS` tasks, tasks are dropped
one at a time and the freed budget is grown again while that helps.

Complexity: growth O(R n (n + links)) with few candidates on Full parts; from above O(n) backward
passes of O(n), or a fixed number of them beyond `SINGLE_STEPS` tasks, so that 10,000 tasks take
about a second.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast.model.fidelity import BoolArray
from holdfast.plan.ppa.completion import Completer, cheapest_tree, completer
from holdfast.plan.ppa.greedy import greedy_set
from holdfast.plan.ppa.problem import SLACK, Choice, Problem
from holdfast.plan.protocol import Progress, Solve

POLISH_TASKS = 160
"""Above this, growth and exchange cost more time than planning may take."""
POLISH_STEPS = 800
"""Growth steps that the exchange may use in all."""
SINGLE_STEPS = 300
"""Up to this many tasks are taken away one at a time."""
STEP = 0.015
"""Beyond, this share of the tasks at once, at most `STEP_PER_OPERATOR` of any operator's."""
STEP_PER_OPERATOR = 0.05


def sa(problem: Problem, solve: Solve) -> Choice:
    """The repaired structure-aware plan."""
    plans = [greedy_set(problem)]
    is_small = problem.size <= POLISH_TASKS
    if not solve.should_stop():
        plans.append(from_above(problem, solve))
    helper = completer(problem) if is_small and not solve.should_stop() else None
    if helper is not None:
        plans.append(grow(helper, problem.base.copy(), solve)[0])
    values = [problem.model.fidelity(plan) for plan in plans]
    best = int(np.argmax(values))
    chosen, value = plans[best], values[best]
    if value <= 0:
        chosen = _first_tree(problem, solve)
    elif helper is not None:
        chosen = exchange(helper, chosen, solve)
    note = "stopped early: the plan was not polished" if solve.should_stop() else ""
    return Choice(chosen=problem.trimmed(chosen), note=note)


def _first_tree(problem: Problem, solve: Solve) -> BoolArray:
    found = cheapest_tree(problem, solve)
    return problem.base.copy() if found is None else problem.filled(found, step=STEP)


def grow(
    helper: Completer, chosen: BoolArray, solve: Solve, *, steps: int | None = None
) -> tuple[BoolArray, float, int]:
    """Add the extension with the greatest gain per cost until nothing fits; counts its steps."""
    problem, model = helper.problem, helper.problem.model
    value = model.fidelity(chosen)
    price = problem.price(chosen)
    used = 0
    while (steps is None or used < steps) and not solve.should_stop():
        used += 1
        left = problem.budget - price + SLACK
        if left < SLACK * 2:
            break
        rows, prices = [], []
        for added in helper.extensions(chosen):
            cost = sum(problem.cost[added].tolist())
            if cost <= left:
                row = chosen.copy()
                row[added] = True
                rows.append(row)
                prices.append(cost)
        if not rows:
            break
        values = model.fidelities(np.asarray(rows))
        density = (values - value) / np.asarray(prices)
        best = int(np.argmax(density))
        if density[best] <= 0:
            break
        chosen, value, price = rows[best], float(values[best]), price + prices[best]
    return chosen, value, used


def from_above(problem: Problem, solve: Solve) -> BoolArray:
    """Start with everything and take away what is missed least per cost, until it fits.

    Every state on the way is a plan whose tasks all count: what a removal leaves without a
    complete tree goes at once.
    """
    model, cost = problem.model, problem.cost
    chosen = problem.most.copy()
    operator = np.repeat(
        np.arange(len(model.spans)), [span.stop - span.start for span in model.spans]
    )
    is_fine = problem.size <= SINGLE_STEPS
    while not problem.fits(chosen):
        chosen = problem.base | (chosen & (problem.derivative(chosen) > 0))
        excess = problem.price(chosen) - problem.budget - SLACK
        if excess <= 0:
            break
        loose = np.flatnonzero(chosen & ~problem.base)
        if not len(loose) or solve.should_stop():
            return problem.base.copy()
        missed = problem.marginals(chosen)[loose] / cost[loose]
        ranked = loose[np.argsort(missed, kind="stable")]
        if is_fine:
            chosen[ranked[0]] = False
            continue
        ranked = _spread(ranked, operator, chosen)[: max(1, int(STEP * len(loose)))]
        taken = np.cumsum(cost[ranked]) - cost[ranked] < excess
        chosen[ranked[taken]] = False
    return problem.filled(chosen, step=0.0 if is_fine else STEP)


def _spread(ranked: np.ndarray, operator: np.ndarray, chosen: BoolArray) -> np.ndarray:
    """Of each operator only the first few in the ranking, so that no operator vanishes at once."""
    counts = np.bincount(operator[chosen])
    allowed = np.maximum(1, (counts * STEP_PER_OPERATOR).astype(np.int64))
    owners = operator[ranked]
    order = np.argsort(owners, kind="stable")
    sorted_owners = owners[order]
    first = np.searchsorted(sorted_owners, sorted_owners)
    rank_in_operator = np.empty(len(ranked), np.int64)
    rank_in_operator[order] = np.arange(len(ranked)) - first
    return ranked[rank_in_operator < allowed[owners]]


def exchange(helper: Completer, chosen: BoolArray, solve: Solve) -> BoolArray:
    """Drop one task with all that dies with it, grow again, keep what is better; repeat."""
    problem = helper.problem
    chosen = problem.base | (chosen & (problem.derivative(chosen) > 0))
    chosen, value, steps = grow(helper, chosen, solve)
    improved = True
    while improved and steps < POLISH_STEPS and not solve.should_stop():
        improved = False
        loose = np.flatnonzero(chosen & ~problem.base)
        missed = problem.marginals(chosen)[loose] / problem.cost[loose]
        for task in loose[np.argsort(missed, kind="stable")].tolist():
            trial = chosen.copy()
            trial[task] = False
            trial = problem.base | (trial & (problem.derivative(trial) > 0))
            trial, reached, used = grow(helper, trial, solve, steps=POLISH_STEPS - steps)
            steps += used
            if reached > value and not math.isclose(reached, value, rel_tol=1e-9):
                chosen, value, improved = trial, reached, True
                solve.report(Progress(message="exchanged tasks", objective=value))
                break
            if steps >= POLISH_STEPS or solve.should_stop():
                break
    return chosen
