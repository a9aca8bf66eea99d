"""`rsrfs`: the thesis' section 3.3, frequencies that differ within a segment of a chain.

If operators keep several checkpoints, one may checkpoint more often than its successor as long as
its frequency is a multiple of the successor's (relaxed synchronisation). Starting from Algorithm 1,
take overhead from one operator (halve its frequency, and that of every successor that has to
follow) and give it to another (double, with every predecessor that has to follow) while the
expected recovery time falls.

Corrected: the condition on overhead is CH - CH_dec(i) + CH_inc(j) <= CH_max, and a predecessor must
follow a doubling unless it already has at least twice the frequency (printed the other way round).

Complexity: O(n^2) per exchange, array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planners.fastrecover.chain_grid import DEFAULT_STEPS, chain_on_grid
from holdfast.planners.fastrecover.checkpointing import BoolArray, FloatArray, IntArray
from holdfast.planners.fastrecover.problem import Outcome, Problem, with_frequencies
from holdfast.planners.interface import Solve

ROUNDS = 10_000
"""Most exchanges; each lowers the recovery time, so this only guards against rounding."""


def rsrfs(problem: Problem, solve: Solve, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Algorithm 1, then exchanges while they help."""
    start = chain_on_grid(problem, solve, steps=steps)
    if start.solution is None:
        return start
    order = np.asarray(problem.model.topology.order)
    parts = start.solution.partition
    head = parts.anchors[order]
    replay = (problem.model.failure * parts.exposure.rework)[order]
    write = (problem.model.state + np.where(parts.anchors, problem.model.access, 0.0))[order]
    cap = problem.model.max_frequency[order]
    eta = start.solution.frequency[order].copy()
    room = problem.goal.limit - start.solution.allocation.overhead
    for _ in range(ROUNDS):
        if solve.should_stop():
            break
        swap = best_exchange(exchanges(eta, head, replay, write, cap), room)
        if swap is None:
            break
        eta[swap.halved] /= 2
        eta[swap.doubled] *= 2
        room -= swap.overhead
    frequency = np.zeros(len(eta))
    frequency[order] = eta
    found = with_frequencies(problem, parts.anchors, frequency)
    return Outcome(solution=found, note=start.note)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchanges:
    """Effect of halving or doubling each operator, followers included."""

    recovery_if_halved: FloatArray
    """RT_inc: how much expected recovery time grows."""
    overhead_if_halved: FloatArray
    """CH_dec: how much overhead shrinks."""
    last_halved: IntArray
    """Operators i..last follow."""
    recovery_if_doubled: FloatArray
    """RT_dec: how much expected recovery time shrinks."""
    overhead_if_doubled: FloatArray
    """CH_inc: how much overhead grows."""
    first_doubled: IntArray
    """Operators first..i follow."""
    segment: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """One exchange: which operators halve, which double, what it adds to the overhead."""

    halved: slice
    doubled: slice
    overhead: float


def exchanges(
    eta: FloatArray, head: BoolArray, replay: FloatArray, write: FloatArray, cap: FloatArray
) -> Exchanges:
    """All halvings and doublings of a chain with weights `replay` (rho * A) and `write` (b)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.where(replay > 0, replay / eta, 0.0)
        cheaper = np.where(write > 0, write * eta / 2, 0.0)
    faster = np.where(2 * eta <= cap, slower / 2, -np.inf)
    return accumulate(eta, head, slower, cheaper, faster, 2 * cheaper)


def accumulate(
    eta: FloatArray,
    head: BoolArray,
    slower: FloatArray,
    cheaper: FloatArray,
    faster: FloatArray,
    dearer: FloatArray,
) -> Exchanges:
    """Add to each operator's own change the changes of those that have to follow."""
    size = len(eta)
    up, down, last = slower.copy(), cheaper.copy(), np.arange(size)
    for i in reversed(range(size - 1)):
        if not head[i + 1] and eta[i] < 2 * eta[i + 1]:
            up[i] += up[i + 1]
            down[i] += down[i + 1]
            last[i] = last[i + 1]
    gain, cost, first = faster.copy(), dearer.copy(), np.arange(size)
    for i in range(1, size):
        if not head[i] and eta[i - 1] < 2 * eta[i]:
            gain[i] += gain[i - 1]
            cost[i] += cost[i - 1]
            first[i] = first[i - 1]
    return Exchanges(
        recovery_if_halved=up,
        overhead_if_halved=down,
        last_halved=last,
        recovery_if_doubled=gain,
        overhead_if_doubled=cost,
        first_doubled=first,
        segment=np.cumsum(head),
    )


def best_exchange(table: Exchanges, room: float) -> Exchange | None:
    """The pair that lowers expected recovery time most within the overhead left; None: none."""
    net = table.recovery_if_halved[:, None] - table.recovery_if_doubled[None, :]
    more = table.overhead_if_doubled[None, :] - table.overhead_if_halved[:, None]
    position = np.arange(len(table.segment))
    same = table.segment[:, None] == table.segment[None, :]
    precedes = same & (position[:, None] <= position[None, :])
    allowed = (more <= room) & ~precedes
    net = np.where(allowed, net, np.inf)
    i, j = np.unravel_index(int(net.argmin()), net.shape)
    if not net[i, j] < -1e-12 * table.recovery_if_halved.sum():
        return None
    return Exchange(
        halved=slice(int(i), int(table.last_halved[i]) + 1),
        doubled=slice(int(table.first_doubled[j]), int(j) + 1),
        overhead=float(more[i, j]),
    )
