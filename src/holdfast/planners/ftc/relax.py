"""The linear relaxation over all windows, by cut generation.

Solve the master, find windows that its fractional plan covers too little, add them, repeat. The
value at any time is a proved lower bound. Two measures keep the number of rounds down: windows are
first sought halfway between the fractional plan and a plan known to cover everything (in-out
separation), where they cut deeper; and windows that have not been tight for a while are dropped.
Where few new windows are left, odd cycles of windows cut further (see `odd_cycles`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.planners.ftc.chains import chain_cover, chain_windows
from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.heuristics import rounded
from holdfast.planners.ftc.master import Master
from holdfast.planners.ftc.odd_cycles import Cut, WindowGraph
from holdfast.planners.ftc.windows import Window, fractional, pairs, violated
from holdfast.planners.interface import Progress, Solve

_STALL = 6
"""Rounds over which the bound has to gain `_GAIN` of itself, or the loop ends."""
_GAIN = 1e-3
_SMALL = 500
"""Above so many nodes a round is dear: plans are rounded less often, and windows bought in bulk."""
_COVERS = 3
"""Further chain covers that a large core takes windows from, one a round: at once they would make
the first solve long."""

_EASY = 150
"""Cores of so few choices are branched through in less time than cycles take to find."""
_SHORT = 1e-4
"""Windows that miss less than this count as covered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxed:
    """Where the relaxation ended."""

    weight: list[float]
    bound: float
    plan: bytearray
    """The best plan, given or rounded on the way."""


def relax(
    master: Master,
    plan: bytearray,
    solve: Solve,
    *,
    rounds: int,
    patient: bool,
    cycles: bool = True,
    below: float = math.inf,
    seconds: float | None = None,
) -> Relaxed:
    """Raise the bound for at most `rounds` rounds; `patient` goes on with windows when it is slow.

    Without `cycles`, windows alone. It also ends once no plan cheaper than `below` can exist.
    """
    core = master.core
    inside = [float(b) for b in plan]
    best, value = plan, core.cost(plan)
    bound, weight = 0.0, inside
    history: list[float] = []
    seek = cycles and len(master.free) > _EASY
    few = max(8, len(master.free) // (4 if seek else 10))
    first = violated(core, bytearray(core.size))[0] + chain_windows(core, chain_cover(core))
    master.add(first)
    graph = WindowGraph()
    if seek:
        graph.add([*pairs(core), *first])
    begin = solve.seconds_left()
    for turn in range(rounds):
        if solve.should_stop() or spent(solve, begin, seconds):
            break
        answer = master.relax()
        if answer is None:
            break
        weight, bound = master.weights(answer.x), max(bound, answer.value)
        history.append(bound)
        if core.size <= _SMALL or turn % 2 == 0:
            candidate = rounded(core, weight, 0.5)
            if core.cost(candidate) < value:
                best, value = candidate, core.cost(candidate)
        solve.report(Progress(message="relaxation", objective=value, bound=bound))
        slow = len(history) > _STALL and bound < history[-_STALL] * (1.0 + _GAIN)
        if master.closes(bound, min(value, below)) or (slow and not patient):
            break
        fresh, inside = _separate(core, master, inside, weight, few)
        cuts: list[Cut] = []
        if seek:
            graph.add(fresh)
            if len(fresh) < few and not slow:
                cuts = _cycles(graph, fresh, weight, solve.rng)
        if not fresh and not cuts:
            break
        master.purge(age=2)
        master.add(fresh)
        master.add_cuts(cuts)
        if core.size > _SMALL and turn < _COVERS:
            more = chain_windows(core, chain_cover(core, solve.rng.permutation(core.size)))
            master.add(more)
            if seek:
                graph.add(more)
    return Relaxed(weight=weight, bound=bound, plan=best)


def _cycles(
    graph: WindowGraph, fresh: list[Window], weight: Sequence[float], rng: np.random.Generator
) -> list[Cut]:
    """Odd cycles; windows that were dropped and are missed again go to `fresh`."""
    x = np.asarray(weight)
    slack = graph.slacks(x)
    fresh.extend(graph.windows[k] for k in np.flatnonzero(slack < -_SHORT).tolist())
    return graph.cycles(x, slack, rng)


def spent(solve: Solve, begin: float | None, seconds: float | None) -> bool:
    """Whether a share of the time limit has been used up; never, without a limit."""
    left = solve.seconds_left()
    return begin is not None and left is not None and seconds is not None and begin - left > seconds


def _separate(
    core: Core, master: Master, inside: list[float], weight: Sequence[float], few: int
) -> tuple[list[Window], list[float]]:
    """New windows, from points that move from halfway inside to the fractional plan itself."""
    known = {cut.nodes for cut in master.rows}
    fresh: dict[Window, None] = {}
    share = 0.5
    while True:
        point = [share * a + (1.0 - share) * b for a, b in zip(inside, weight, strict=True)]
        windows = fractional(core, point)
        if not windows and share:
            inside = point
        fresh.update((window, None) for window in windows if window not in known)
        if len(fresh) >= few or not share:
            return list(fresh), inside
        share = share * 0.4 if share > 0.1 else 0.0
