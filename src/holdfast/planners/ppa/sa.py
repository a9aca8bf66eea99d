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

Complexity: growth takes O(R) looks of O(n + links) and as many evaluations as there are candidates;
from above O(n) backward passes of O(n). Beyond `POLISH_TASKS` and `SINGLE_STEPS` tasks both take
many tasks per look, so that the number of looks no longer grows with the topology.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from holdfast.planners.interface import Progress, Solve
from holdfast.planners.ppa.completion import Completer, cheapest_tree, completer
from holdfast.planners.ppa.fidelity import BoolArray
from holdfast.planners.ppa.fidelity_streams import IntArray
from holdfast.planners.ppa.greedy import greedy_set
from holdfast.planners.ppa.problem import SLACK, Choice, Problem

POLISH_TASKS = 160
"""Above this, growth task by task and exchange cost more time than planning may take."""
POLISH_STEPS = 800
"""Growth steps that the exchange may use in all."""
SINGLE_STEPS = 300
"""Up to this many tasks are taken away one at a time (in larger topologies fewer)."""
LOOKS_ABOVE = ((20_000, 150), (math.inf, 60))
"""Beyond, as many looks as this take a topology of so many tasks down to the budget."""
FINEST_STEP = 0.0025
"""Share of the tasks per look below which more looks bring nothing."""
STEP_PER_OPERATOR = 0.05
"""At most this share (and at least one) of an operator's tasks goes in one look."""
GROW_TASKS = 2_000
"""Up to this many tasks, small budgets are also reached by coarse growth; a look takes O(n)."""
LOOKS = 20
"""Looks of coarse growth."""
LOOK_CANDIDATES = 64
"""Extensions evaluated per coarse look: those with the most importance per cost."""
LOOK_RATIO = 0.8
"""Extensions this close to the densest are taken in the same coarse look."""
GROW_BELOW = 0.6
"""Coarse growth is of use while the budget is at most this share of all tasks' cost."""
TAKE_ABOVE = 0.3
"""Where coarse growth is possible, coming from above is not worth its looks below this share."""


def sa(problem: Problem, solve: Solve) -> Choice:
    """The repaired structure-aware plan."""
    is_small = problem.size <= POLISH_TASKS
    share = _share(problem)
    plans = [greedy_set(problem)]
    helper: Completer | None = None
    can_grow = is_small or (problem.size <= GROW_TASKS and share < GROW_BELOW)
    if (is_small or not can_grow or share > TAKE_ABOVE) and not solve.should_stop():
        plans.append(from_above(problem, solve))
    if can_grow and not solve.should_stop():
        helper = completer(problem)
        if is_small:
            plans.append(grow(helper, problem.base.copy(), solve)[0])
        else:
            plans.append(_grow_coarsely(helper, solve))
    values = [problem.model.fidelity(plan) for plan in plans]
    chosen, value = plans[int(np.argmax(values))], max(values)
    if value <= 0:
        chosen = _first_tree(problem, solve)
    elif helper is not None and is_small:
        chosen = exchange(helper, chosen, solve)
    note = "stopped early: the plan was not polished" if solve.should_stop() else ""
    return Choice(chosen=problem.trimmed(chosen), note=note)


def _share(problem: Problem) -> float:
    """The budget left, as a share of what all open tasks cost."""
    total = float(problem.cost[problem.open].sum())
    return problem.left / total if total > 0 else 1.0


def _step(problem: Problem, share: float) -> float:
    """Share of the tasks per look on the way down to `share` of them; 0: one at a time."""
    count = int(problem.open.sum())
    if count * problem.size <= SINGLE_STEPS**2:
        return 0.0
    looks = next(looks for limit, looks in LOOKS_ABOVE if problem.size <= limit)
    least = max(share, 1 / count)
    return max(FINEST_STEP, -math.log(least) / looks if least < 1 else 0.0)


def _first_tree(problem: Problem, solve: Solve) -> BoolArray:
    """The cheapest complete tree if it fits, extended; found by completion where that is exact."""
    base = problem.base
    trees = list(completer(problem).extensions(base))
    cheapest = min(trees, key=lambda tree: float(problem.cost[tree].sum()), default=[])
    first = base.copy()
    first[cheapest] = True
    if not cheapest or not problem.fits(first):
        found = None if problem.model.is_linear else cheapest_tree(problem, solve)
        if found is None:
            return base.copy()
        first = found
    return problem.filled(first, step=_step(problem, _share(problem)))


# -- growing ---------------------------------------------------------------------------------------


def grow(
    helper: Completer, chosen: BoolArray, solve: Solve, *, steps: int | None = None
) -> tuple[BoolArray, float, int]:
    """Add the extension with the greatest gain per cost until nothing fits; counts its steps."""
    value = helper.problem.model.fidelity(chosen)
    used = 0
    while (steps is None or used < steps) and not solve.should_stop():
        used += 1
        found = _best_extensions(helper, chosen, value)
        if not found:
            break
        value, _, chosen = found[0]
    return chosen, value, used


def _best_extensions(
    helper: Completer, chosen: BoolArray, value: float, *, most: int | None = None
) -> list[tuple[float, float, BoolArray]]:
    """(fidelity, gain per cost, plan) of the extensions that fit and help, densest first."""
    problem = helper.problem
    left = problem.budget - problem.price(chosen) + SLACK
    if left < 2 * SLACK:
        return []
    rows: list[BoolArray] = []
    prices: list[float] = []
    for added in helper.extensions(chosen, most=most):
        cost = sum(problem.cost[added].tolist())
        if cost <= left:
            row = chosen.copy()
            row[added] = True
            rows.append(row)
            prices.append(cost)
    if not rows:
        return []
    values = problem.model.fidelities(np.asarray(rows))
    density = (values - value) / np.asarray(prices)
    ranked = np.argsort(-density, kind="stable")
    return [(float(values[k]), float(density[k]), rows[k]) for k in ranked if density[k] > 0]


def _grow_coarsely(helper: Completer, solve: Solve) -> BoolArray:
    """Growth for large topologies: the densest extensions of a look, then all tasks as dense."""
    problem = helper.problem
    chosen = problem.base.copy()
    step = _step(problem, _share(problem))
    for _ in range(LOOKS):
        if solve.should_stop():
            break
        value, price = problem.model.fidelity(chosen), problem.price(chosen)
        found = _best_extensions(helper, chosen, value, most=LOOK_CANDIDATES)
        if not found:
            break
        _, best, chosen = found[0]
        for _, density, plan in found[1:]:
            if density < best * LOOK_RATIO or problem.price(chosen) - price > problem.left / LOOKS:
                break
            if problem.fits(chosen | plan):
                chosen = chosen | plan
        chosen = problem.filled(chosen, step=step, at_least=best)
    return problem.filled(chosen, step=step)


# -- from above ------------------------------------------------------------------------------------


def from_above(problem: Problem, solve: Solve) -> BoolArray:
    """Start with everything and take away what is missed least per cost, until it fits.

    Every state on the way is a plan whose tasks all count: what a removal leaves without a
    complete tree goes at once.
    """
    step = _step(problem, _share(problem))
    chosen = problem.most.copy()
    for removed in _removals(problem, chosen, problem.budget, step, solve):
        chosen[removed] = False
    if not problem.fits(chosen):
        return problem.base.copy()
    return problem.filled(chosen, step=step)


def removal_order(problem: Problem, solve: Solve) -> list[int]:
    """All open tasks, what is missed least first."""
    chosen = problem.most.copy()
    order: list[int] = []
    floor, step = problem.price(problem.base), _step(problem, 0.0)
    for removed in _removals(problem, chosen, floor, step, solve):
        chosen[removed] = False
        order.extend(removed.tolist())
    return order


def _removals(
    problem: Problem, chosen: BoolArray, budget: float, step: float, solve: Solve
) -> Iterator[IntArray]:
    """What to take away next from `chosen`, which the caller updates, until it costs `budget`."""
    model, cost = problem.model, problem.cost
    lengths = [span.stop - span.start for span in model.spans]
    operator = np.repeat(np.arange(len(lengths)), lengths)
    while problem.price(chosen) > budget + SLACK and not solve.should_stop():
        missed = problem.derivative(chosen)
        loose = np.flatnonzero(chosen & ~problem.base)
        is_dead = missed[loose] <= 0
        if is_dead.any():
            # They carry nothing, so without them the others are missed as before.
            yield loose[is_dead]
            loose = loose[~is_dead]
            if problem.price(chosen) <= budget + SLACK:
                return
        if not model.is_linear:
            missed = problem.marginals(chosen)
        ranked = loose[np.argsort(missed[loose] / cost[loose], kind="stable")]
        if step == 0:
            yield ranked[:1]
            continue
        ranked = _spread(ranked, operator, chosen)[: max(1, int(step * len(loose)))]
        excess = problem.price(chosen) - budget - SLACK
        yield ranked[np.cumsum(cost[ranked]) - cost[ranked] < excess]


def _spread(ranked: IntArray, operator: IntArray, chosen: BoolArray) -> IntArray:
    """Of each operator only the first few in the ranking, so that none vanishes at once."""
    allowed = np.maximum(1, (np.bincount(operator[chosen]) * STEP_PER_OPERATOR).astype(np.int64))
    owners = operator[ranked]
    order = np.argsort(owners, kind="stable")
    place = np.empty(len(ranked), np.int64)
    place[order] = np.arange(len(ranked)) - np.searchsorted(owners[order], owners[order])
    return ranked[place < allowed[owners]]


# -- exchange --------------------------------------------------------------------------------------


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
