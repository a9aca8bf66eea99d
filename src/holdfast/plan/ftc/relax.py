"""The linear relaxation over all windows, by cut generation.

Solve the master, find windows that its fractional plan covers too little, add them, repeat. The
value at any time is a proved lower bound. Two measures keep the number of rounds down: windows are
first sought halfway between the fractional plan and a plan known to cover everything (in-out
separation), where they cut deeper; and windows that have not been tight for a while are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.plan.ftc.core import Core
from holdfast.plan.ftc.heuristics import rounded
from holdfast.plan.ftc.master import Master
from holdfast.plan.ftc.windows import Window, fractional, violated
from holdfast.plan.protocol import Progress, Solve

_STALL = 6
"""Rounds over which the bound has to gain `_GAIN` of itself, or the loop ends."""
_GAIN = 5e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxed:
    """Where the relaxation ended."""

    weight: list[float]
    bound: float
    plan: bytearray
    """The best plan, given or rounded on the way."""
    exact: bool
    """Every window is covered: `bound` is the value of the whole relaxation."""


def relax(master: Master, plan: bytearray, solve: Solve, *, rounds: int, patient: bool) -> Relaxed:
    """Raise the bound for at most `rounds` rounds; `patient` ignores slow progress."""
    core = master.core
    inside = [float(b) for b in plan]
    best, value = plan, core.cost(plan)
    bound, weight, exact = 0.0, inside, False
    history: list[float] = []
    few = max(8, len(master.free) // 10)
    master.add(violated(core, bytearray(core.size))[0])
    for _ in range(rounds):
        if solve.should_stop():
            break
        answer = master.relax()
        if answer.weight is None:
            break
        weight, bound = answer.weight, max(bound, answer.bound)
        history.append(bound)
        for threshold in (0.5, 0.9):
            candidate = rounded(core, weight, threshold)
            if core.cost(candidate) < value:
                best, value = candidate, core.cost(candidate)
        solve.report(Progress(message="relaxation", objective=value, bound=bound))
        if master.round_up(bound) >= value:
            break
        if not patient and len(history) > _STALL and bound < history[-_STALL] * (1.0 + _GAIN):
            break
        fresh, inside = _separate(core, master, inside, weight, few)
        if not fresh:
            exact = True
            break
        master.purge()
        master.add(fresh)
    return Relaxed(weight=weight, bound=bound, plan=best, exact=exact)


def _separate(
    core: Core, master: Master, inside: list[float], weight: Sequence[float], few: int
) -> tuple[list[Window], list[float]]:
    """New windows, from points that move from halfway inside to the fractional plan itself."""
    fresh: dict[Window, None] = {}
    share = 0.5
    while True:
        point = [share * a + (1.0 - share) * b for a, b in zip(inside, weight, strict=True)]
        windows = fractional(core, point)
        if not windows and share:
            inside = point
        fresh.update((window, None) for window in windows if window not in master.windows)
        if len(fresh) >= few or not share:
            return list(fresh), inside
        share = share * 0.4 if share > 0.1 else 0.0
