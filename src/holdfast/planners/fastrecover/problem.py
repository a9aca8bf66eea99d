"""What FastRecover is asked, in the form its algorithms share.

All algorithms choose a set of anchors; `Problem.solve` gives the best frequencies for it. A
Lagrangian price on overhead turns the bounded problem into an additive one, which chains and
trees solve by dynamic programming; `search_price` looks for the price with the best bound and
collects plans on the way.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from holdfast.planners.fastrecover.checkpointing import (
    BoolArray,
    CheckpointModel,
    Configuration,
    FloatArray,
    Partition,
    partition,
)
from holdfast.planners.fastrecover.frequencies import (
    Allocation,
    Goal,
    Rule,
    allocate,
    measures,
    natural,
)
from holdfast.planners.interface import Solve

CLIMB = 2.0
"""First steps of `climb_price`, as a natural logarithm."""
GAP = 1e-9
"""Relative gap between plan and bound that counts as proved."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """One plan: anchors, and frequencies per segment or per operator."""

    partition: Partition
    allocation: Allocation
    objective: float
    frequency: FloatArray
    """Per operator."""

    @property
    def anchors(self) -> BoolArray:
        return self.partition.anchors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What an algorithm found and what it proved."""

    solution: Solution | None
    bound: float | None = None
    optimal: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Model, goal, and what restricts the choice."""

    model: CheckpointModel
    goal: Goal
    rule: Rule = field(default_factory=Rule)
    required: BoolArray
    """Operators that must be anchors; sources always are."""
    forbidden: BoolArray
    """Operators that must not be."""
    _seen: dict[bytes, Solution | None] = field(default_factory=dict)

    def solve(self, anchors: BoolArray) -> Solution | None:
        """The best frequencies for a set of anchors; None when the goal is out of its reach."""
        key = anchors.tobytes()
        if key not in self._seen:
            if len(self._seen) * self.model.size > 50_000_000:
                self._seen.clear()
            self._seen[key] = self._solve(anchors.copy())
        return self._seen[key]

    def _solve(self, anchors: BoolArray) -> Solution | None:
        parts = partition(self.model, anchors)
        found = allocate(parts, self.goal, self.rule)
        if found is None:
            return None
        return Solution(
            partition=parts,
            allocation=found,
            objective=found.objective(self.goal),
            frequency=found.frequency[parts.label],
        )

    def safest(self) -> BoolArray:
        """The anchors that meet the goal if any do.

        Overhead is least with as few anchors as possible, recovery with as many.
        """
        return self.fewest() if self.goal.bounded == "overhead" else self.most()

    def fewest(self) -> BoolArray:
        return self.required.copy()

    def most(self) -> BoolArray:
        return ~self.forbidden | self.required

    def better(self, one: Solution | None, other: Solution | None) -> Solution | None:
        if one is None or other is None:
            return one or other
        return one if one.objective <= other.objective else other


@dataclass(slots=True, kw_only=True)
class PriceSearch:
    """Where a search for the best price stands."""

    best: Solution | None
    bound: float
    price: float
    """The price with the best bound so far."""
    plans: list[BoolArray] = field(default_factory=list)
    """Anchors the oracle answered with, in order."""

    def closed(self, tolerance: float = GAP) -> bool:
        return self.best is not None and self.bound >= self.best.objective * (1 - tolerance)


Oracle = Callable[[float], tuple[float, BoolArray]]
"""Price to (lower bound on the least recovery + price * overhead, anchors that about reach it)."""


def first_price(solution: Solution) -> float:
    """The price at which a plan's frequencies are its best."""
    level = solution.allocation.level
    if math.isinf(level) or level <= 0:
        parts = solution.partition
        active = (parts.replay > 0) & (parts.write > 0)
        if not active.any():
            return 1.0
        reach = np.minimum(solution.allocation.frequency[active], 1e6)
        return float(np.median(parts.replay[active] / parts.write[active] / reach**2))
    return 1.0 / level**2


def search_price(
    problem: Problem,
    oracle: Oracle,
    start: Solution,
    solve: Solve,
    *,
    rounds: int = 30,
    tolerance: float = GAP,
    price: float | None = None,
    precision: float = 1e-7,
) -> PriceSearch:
    """Maximise the bound over prices: the last plan's own price, or bisection of the bracket.

    Ends when the bracket is within `precision`, relative.
    """
    goal = problem.goal
    price = first_price(start) if price is None else price
    state = PriceSearch(best=start, bound=-math.inf, price=price)
    low, high = 0.0, math.inf
    for turn in range(rounds):
        least, anchors = oracle(price)
        bound = goal.bound(least, price)
        if bound > state.bound:
            state.bound, state.price = bound, price
        state.plans.append(anchors)
        found = problem.solve(anchors)
        state.best = problem.better(state.best, found)
        if state.closed(tolerance) or solve.should_stop():
            break
        parts = found.partition if found is not None else partition(problem.model, anchors)
        recovery, overhead = measures(parts, natural(parts, price, problem.rule))
        dear = overhead > goal.limit if goal.bounded == "overhead" else recovery < goal.limit
        low, high = (max(low, price), high) if dear else (low, min(high, price))
        if high < low * (1 + precision):
            break
        # A plan's own price often is the answer, but alone it may creep: every third step halves.
        own = None if found is None or turn % 3 == 2 else first_price(found)
        price = _next_price(low, high, own)
    return state


def _next_price(low: float, high: float, own: float | None) -> float:
    if own is not None and low * (1 + 1e-6) < own < high * (1 - 1e-6):
        return own
    if math.isinf(high):
        return low * 8.0
    if low == 0.0:
        return high / 8.0
    return math.sqrt(low * high)


def climb_price(
    problem: Problem,
    oracle: Oracle,
    start: Solution,
    solve: Solve,
    *,
    rounds: int,
    tolerance: float,
    usable: Callable[[BoolArray], bool] = lambda _anchors: True,
) -> PriceSearch:
    """Maximise the bound where the oracle is a relaxation, so that only its values can be trusted.

    The bound is concave in the price: steps on the logarithmic scale until it falls on both sides,
    then the wider gap around the best is halved. `usable` says which plans are worth evaluating.
    """
    state = PriceSearch(best=start, bound=-math.inf, price=first_price(start))
    seen: list[tuple[float, float]] = []
    at = math.log(state.price)
    tried: set[float] = set()
    for _ in range(rounds):
        price = math.exp(at)
        least, anchors = oracle(price)
        bound = problem.goal.bound(least, price)
        insort(seen, (at, bound))
        if bound > state.bound:
            state.bound, state.price = bound, price
        if usable(anchors):
            state.best = problem.better(state.best, problem.solve(anchors))
        if state.closed(tolerance) or solve.should_stop():
            break
        place = max(range(len(seen)), key=lambda k: seen[k][1])
        own = math.log(first_price(state.best)) if state.best is not None else at
        if place == 0:
            at = min(seen[0][0] - CLIMB, own)
        elif place == len(seen) - 1:
            at = max(seen[-1][0] + CLIMB, own)
        else:
            low, best, high = (seen[place + k][0] for k in (-1, 0, 1))
            if high - low < 0.02:
                break
            at = (low + best) / 2 if best - low > high - best else (best + high) / 2
            if low < own < high and own not in tried:
                at = own
        tried.add(own)
    return state


def with_frequencies(problem: Problem, anchors: BoolArray, frequency: FloatArray) -> Solution:
    """A plan with the frequencies an algorithm chose itself, per operator."""
    parts = partition(problem.model, anchors)
    shape = Configuration(partition=parts, frequency=frequency)
    if problem.goal.bounded == "overhead":
        for step in range(8):
            excess = shape.overhead / problem.goal.limit - 1
            if not 0 < excess < 1e-12:
                break
            # Rounding alone must not carry a plan above its bound.
            frequency = frequency * (1 - 1e-15 * 4**step)
            shape = Configuration(partition=parts, frequency=frequency)
    by_segment = np.zeros(parts.size)
    by_segment[parts.label] = frequency
    found = Allocation(
        frequency=by_segment,
        recovery=shape.expected_recovery_time,
        overhead=shape.overhead,
        level=math.inf,
        exact=False,
    )
    return Solution(
        partition=parts,
        allocation=found,
        objective=found.objective(problem.goal),
        frequency=frequency,
    )
