"""`chain`: Algorithm 1 of the thesis, overhead cut into Z equal steps.

DP(c, i) is the least expected recovery time of operators 1..i within c steps: over every head k of
the last segment and every share c' of the overhead, DP(c - c', k - 1) + CtoR(k, i, c'). Corrected:
c' may be all of c (as printed, a chain could never be a single segment), and DP(c, 0) = 0 for
c = 0 too. Kept as a baseline: a segment can only spend whole steps, which costs 9% at the thesis'
defaults, 41% at n = 35, and finds nothing where inputs are dear.

Complexity: O(n^2 Z^2) time, O(n Z) space.
"""

from __future__ import annotations

import numpy as np

from holdfast.planners.fastrecover.chain_tables import ChainTables, chain_tables
from holdfast.planners.fastrecover.checkpointing import FloatArray
from holdfast.planners.fastrecover.problem import Outcome, Problem, with_frequencies
from holdfast.planners.interface import Solve

DEFAULT_STEPS = 60
"""Z of the thesis' chain experiments."""


def chain_on_grid(problem: Problem, solve: Solve, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Algorithm 1, corrected; infeasible when the grid is too coarse, plan or no plan."""
    tables = chain_tables(problem.model, problem.required, problem.forbidden)
    size, width = tables.size, problem.goal.limit / steps
    share = np.arange(steps + 1, dtype=np.float64) * width
    best = np.full((size + 1, steps + 1), np.inf)
    best[0] = 0.0
    choice = np.zeros((size + 1, steps + 1, 2), np.int64)
    left = np.arange(steps + 1)[:, None] - np.arange(steps + 1)[None, :]
    for i in range(size):
        if solve.should_stop():
            return Outcome(
                solution=problem.solve(problem.safest()),
                note="stopped early: one segment stands in for the grid's plan",
            )
        heads = np.arange(i + 1)
        spent = recovery_by_share(problem, tables, heads, i, share)
        before = np.where(left >= 0, best[: i + 1][:, left], np.inf)
        total = (before + spent[:, None, :]).transpose(1, 0, 2).reshape(steps + 1, -1)
        at = total.argmin(axis=1)
        best[i + 1] = total[np.arange(steps + 1), at]
        choice[i + 1, :, 0], choice[i + 1, :, 1] = at // (steps + 1), at % (steps + 1)
    if not np.isfinite(best[size, steps]):
        return Outcome(solution=None, note=f"no plan on a grid of {steps} steps of overhead")
    anchors = np.zeros(problem.model.size, bool)
    frequency = np.zeros(problem.model.size)
    i, c = size, steps
    while i > 0:
        head, used = (int(x) for x in choice[i, c])
        eta = frequency_by_share(problem, tables, np.array([head]), i - 1, share[[used]])[0, 0]
        anchors[tables.order[head]] = True
        frequency[tables.order[head:i]] = eta
        i, c = head, c - used
    return Outcome(solution=with_frequencies(problem, anchors, frequency))


def frequency_by_share(
    problem: Problem, tables: ChainTables, heads: np.ndarray, end: int, share: FloatArray
) -> FloatArray:
    """Cto-eta: per head and share of overhead the frequency it buys; 0 where it buys none."""
    length = end - heads
    write = tables.write[heads, length][:, None]
    cap = tables.max_frequency[heads, length][:, None]
    room = share[None, :] - tables.save[heads][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        bought = np.where(write > 0, room / write, np.where(room >= 0, np.inf, 0.0))
    eta: FloatArray = np.minimum(np.maximum(bought, 0.0), cap)
    if problem.rule.choices:
        table = np.concatenate([[0.0], problem.rule.choices])
        eta = table[np.searchsorted(table, eta * (1 + 1e-12), side="right") - 1]
    eta[~tables.allowed[heads, length]] = 0.0
    return eta


def recovery_by_share(
    problem: Problem, tables: ChainTables, heads: np.ndarray, end: int, share: FloatArray
) -> FloatArray:
    """CtoR: the expected recovery time that goes with `frequency_by_share`."""
    eta = frequency_by_share(problem, tables, heads, end, share)
    length = end - heads
    replay = tables.replay[heads, length][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        again = np.where(np.isinf(eta), 0.0, replay / eta)
    value = tables.fixed[heads, length][:, None] + again
    return np.where(eta > 0, value, np.inf)
