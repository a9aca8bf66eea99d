"""The best checkpoint frequencies once the segments are fixed.

Minimise sum a_s / eta_s subject to sum b_s * eta_s <= C - D and eta_s <= cap_s (or the other way
round). Every optimum has the form eta_s = min(cap_s, sqrt(a_s / b_s) * level) with one level for
all segments, found by sorting the levels at which caps begin to bind: O(m log m). Without caps
this is the closed form RT = K + S^2 / (C - D) with S = sum sqrt(a_s b_s).

Frequencies from a list make it a multiple-choice knapsack: Pareto labels, cut by the linear
relaxation, exact until there are too many labels. Powers of two of one free base are solved
exactly without caps: for any base, each segment rounds its own optimum to the nearest power on the
logarithmic scale, so only as many bases matter as there are segments. At most 4.1% is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from holdfast.planners.fastrecover.checkpointing import FloatArray

LABEL_LIMIT = 20_000
"""Most Pareto labels kept for a list of frequencies; beyond it the answer is a good one, not a
proved one."""
PHASES = 24
"""How many bases are tried when powers of two meet caps."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Which of the two measures is bounded; the other is minimised."""

    bounded: Literal["overhead", "recovery"]
    limit: float

    def bound(self, least: float, price: float) -> float:
        """Lower bound on the objective from `least`, the minimum of recovery + price * overhead."""
        if self.bounded == "overhead":
            return least - price * self.limit
        return (least - self.limit) / price if price > 0 else -math.inf

    def needed(self, objective: float, price: float) -> float:
        """The value of recovery + price * overhead that corresponds to an objective."""
        if self.bounded == "overhead":
            return objective + price * self.limit
        return objective * price + self.limit


@dataclass(frozen=True, slots=True)
class Rule:
    """Which frequencies may be chosen."""

    choices: tuple[float, ...] = ()
    """Ascending; empty: any."""
    powers_of_two: bool = False


class Costs(Protocol):
    """Per segment, the numbers of a `Partition`."""

    @property
    def fixed(self) -> FloatArray: ...
    @property
    def replay(self) -> FloatArray: ...
    @property
    def write(self) -> FloatArray: ...
    @property
    def save(self) -> FloatArray: ...
    @property
    def max_frequency(self) -> FloatArray: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """Frequencies per segment and what they amount to."""

    frequency: FloatArray
    recovery: float
    overhead: float
    level: float
    """What frequencies are proportional to; 1 / level^2 is the price of overhead."""
    exact: bool = True
    """Whether these frequencies are proved best for the segments."""

    def objective(self, goal: Goal) -> float:
        return self.recovery if goal.bounded == "overhead" else self.overhead


def allocate(costs: Costs, goal: Goal, rule: Rule) -> Allocation | None:
    """The best frequencies for the segments, or None when no frequencies meet the goal."""
    if rule.choices:
        return _from_list(costs, goal, rule.choices)
    found = _any_frequency(costs, goal)
    if found is not None and rule.powers_of_two:
        return _powers_of_two(costs, goal, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class CostArrays:
    """Costs as plain arrays."""

    fixed: FloatArray
    replay: FloatArray
    write: FloatArray
    save: FloatArray
    max_frequency: FloatArray


def score(costs: Costs, goal: Goal, rule: Rule) -> float:
    """About the objective that `allocate` would reach, quickly; infinite when infeasible."""
    if rule.choices:
        found = _from_list(costs, goal, rule.choices, thorough=False)
    else:
        found = _any_frequency(costs, goal)
    return math.inf if found is None else found.objective(goal)


def charge(
    replay: FloatArray, write: FloatArray, cap: FloatArray, price: float, rule: Rule
) -> FloatArray:
    """Minimum over eta of replay / eta + price * write * eta, element by element.

    With powers of two this is the value for any frequency, a lower bound.
    """
    if rule.choices:
        best = np.full(np.shape(replay), np.inf)
        for choice in rule.choices:
            value = replay / choice + (price * choice) * write
            np.minimum(best, np.where(choice <= cap, value, np.inf), out=best)
        return best
    free = 2.0 * np.sqrt(price * replay * write)
    if np.all(np.isinf(cap)):
        return free
    with np.errstate(divide="ignore", invalid="ignore"):
        binds = replay > price * write * cap * cap
        held = replay / cap + price * write * cap
    return np.where(binds & np.isfinite(cap), held, free)


def natural(costs: Costs, price: float, rule: Rule) -> FloatArray:
    """The frequencies that `charge` takes its minimum at."""
    if rule.choices:
        table: FloatArray = np.asarray(rule.choices)[:, None]
        value = costs.replay / table + price * costs.write * table
        value = np.where(table <= costs.max_frequency, value, np.inf)
        return np.asarray(table[np.argmin(value, axis=0), 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        ideal = np.sqrt(costs.replay / (price * costs.write))
    ideal = np.where(costs.write * price == 0, np.inf, ideal)
    ideal = np.where(costs.replay == 0, np.where(costs.write == 0, np.inf, 0.0), ideal)
    return np.minimum(ideal, costs.max_frequency)


def measures(costs: Costs, frequency: FloatArray) -> tuple[float, float]:
    """Expected recovery time and overhead of given frequencies."""
    replayed = costs.replay > 0
    with np.errstate(divide="ignore"):
        spent = costs.replay[replayed] / frequency[replayed]
    written = costs.write > 0
    recovery = costs.fixed.sum() + spent.sum()
    overhead = costs.save.sum() + (costs.write[written] * frequency[written]).sum()
    return float(recovery), float(overhead)


def _finish(
    costs: Costs, goal: Goal, frequency: FloatArray, level: float, *, exact: bool = True
) -> Allocation:
    """Measure; rounding must not carry the bounded measure above its limit."""
    sign = -1.0 if goal.bounded == "overhead" else 1.0
    # Others may add up in another order: leave room for the rounding of as many terms.
    limit = goal.limit * (1.0 - 1e-15 - 1e-17 * len(frequency))
    for step in range(12):
        recovery, overhead = measures(costs, frequency)
        if (overhead if goal.bounded == "overhead" else recovery) <= limit:
            break
        frequency = np.minimum(frequency * (1.0 + sign * 4e-16 * 4**step), costs.max_frequency)
    return Allocation(
        frequency=frequency, recovery=recovery, overhead=overhead, level=level, exact=exact
    )


# -- any frequency -------------------------------------------------------------------------------


def _any_frequency(costs: Costs, goal: Goal) -> Allocation | None:
    replay, write, cap = costs.replay, costs.write, costs.max_frequency
    active = (replay > 0) & (write > 0)
    frequency = np.where(write == 0, cap, 0.0)
    frequency[(write == 0) & (replay == 0) & np.isinf(cap)] = np.inf
    a, b, top = replay[active], write[active], cap[active]
    with np.errstate(invalid="ignore", over="ignore"):
        binding = top * np.sqrt(b / a)
    if goal.bounded == "overhead":
        room = goal.limit - float(costs.save.sum())
        level = _level_for_overhead(a, b, top, binding, room)
    else:
        idle = (write == 0) & (replay > 0)
        room = goal.limit - float(costs.fixed.sum())
        room -= float((replay[idle] / cap[idle]).sum())
        level = _level_for_recovery(a, b, top, binding, room)
    if level is None:
        return None
    frequency[active] = np.where(binding <= level, top, np.sqrt(a / b) * level)
    if goal.bounded == "overhead":
        _spend_rest(costs, goal, frequency)
    return _finish(costs, goal, frequency, level)


def _level_for_overhead(
    a: FloatArray, b: FloatArray, top: FloatArray, binding: FloatArray, room: float
) -> float | None:
    if room < 0:
        return None
    if not len(a):
        return math.inf
    if room == 0:
        return None
    s = np.sqrt(a * b)
    order = np.argsort(binding)
    binding = binding[order]
    with np.errstate(invalid="ignore"):
        held = np.concatenate([[0.0], np.cumsum((b * top)[order])])
    free = np.concatenate([np.cumsum(s[order][::-1])[::-1], [0.0]])
    for k in range(len(a)):
        level = (room - held[k]) / free[k]
        if level <= binding[k]:
            return float(level)
    return math.inf


def _level_for_recovery(
    a: FloatArray, b: FloatArray, top: FloatArray, binding: FloatArray, room: float
) -> float | None:
    if not len(a):
        return math.inf if room >= 0 else None
    s = np.sqrt(a * b)
    order = np.argsort(binding)
    binding = binding[order]
    held = np.concatenate([[0.0], np.cumsum((a / top)[order])])
    free = np.concatenate([np.cumsum(s[order][::-1])[::-1], [0.0]])
    for k in range(len(a)):
        left = room - held[k]
        if left <= 0:
            return None
        level = free[k] / left
        if level <= binding[k]:
            return float(level)
    return math.inf if room >= held[len(a)] else None


def _spend_rest(costs: Costs, goal: Goal, frequency: FloatArray) -> None:
    """Overhead nobody needs goes, evenly, to segments whose replay costs nothing."""
    idle = (costs.replay == 0) & (costs.write > 0)
    if not idle.any():
        return
    _, used = measures(costs, frequency)
    left = goal.limit - used
    if left > 1e-12 * goal.limit:
        even = left / float(costs.write[idle].sum())
        frequency[idle] = np.minimum(even, costs.max_frequency[idle])


# -- powers of two -------------------------------------------------------------------------------


def _powers_of_two(costs: Costs, goal: Goal, free: Allocation) -> Allocation | None:
    active = (costs.replay > 0) & (costs.write > 0)
    if not active.any():
        return free
    if np.isfinite(costs.max_frequency[active]).any():
        return _capped_powers(costs, goal, free, active)
    a, b = costs.replay[active], costs.write[active]
    _, exponent = best_powers(a, b)
    scale = np.exp2(exponent)
    if goal.bounded == "overhead":
        base = (goal.limit - float(costs.save.sum())) / float(b @ scale)
    else:
        base = float(a @ (1.0 / scale)) / (goal.limit - float(costs.fixed.sum()))
    frequency = free.frequency.copy()
    frequency[active] = base * scale
    return _finish(costs, goal, frequency, free.level)


def best_powers(a: FloatArray, b: FloatArray) -> tuple[float, FloatArray]:
    """Minimum over whole k of sqrt(sum(a 2^-k) * sum(b 2^k)), and the k that reach it.

    For every base the nearest power on the logarithmic scale is best, so the k change only where
    some log2 sqrt(a / b) crosses a half: as many candidates as segments.
    """
    ideal = 0.5 * np.log2(a / b)
    best, chosen = math.inf, np.zeros(len(a))
    for shift in np.unique(ideal - np.floor(ideal)):
        exponent = np.floor(ideal - shift + 1e-12)
        value = float((a @ np.exp2(-exponent)) * (b @ np.exp2(exponent)))
        if value < best:
            best, chosen = value, exponent
    return math.sqrt(best), chosen


def _capped_powers(
    costs: Costs, goal: Goal, free: Allocation, active: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Allocation | None:
    """Try bases spread over one octave; for each, powers of it are a list to choose from."""
    top = float(free.frequency[active].max())
    low = float(free.frequency[active].min())
    best: Allocation | None = None
    for phase in range(PHASES):
        base = top * 2.0 ** (phase / PHASES)
        count = math.ceil(math.log2(top / low)) + 6
        choices = tuple(base * 2.0 ** (-k) for k in reversed(range(count)))
        found = _from_list(costs, goal, choices, thorough=False)
        if found is None:
            continue
        found = _scale_up(costs, goal, found)
        if best is None or found.objective(goal) < best.objective(goal):
            best = found
    return best


def _scale_up(costs: Costs, goal: Goal, found: Allocation) -> Allocation:
    """Moving the base itself uses up what rounding left over."""
    written = costs.write > 0
    eta = found.frequency
    if goal.bounded == "overhead":
        spent = float(costs.write[written] @ eta[written])
        factor = (goal.limit - float(costs.save.sum())) / spent if spent else 1.0
        factor = min(factor, float(np.min(costs.max_frequency[written] / eta[written])))
    else:
        replayed = costs.replay > 0
        needed = float((costs.replay[replayed] / eta[replayed]).sum())
        factor = needed / (goal.limit - float(costs.fixed.sum()))
    eta = np.where(written, eta * factor, eta)
    return _finish(costs, goal, np.minimum(eta, costs.max_frequency), found.level, exact=False)


# -- a list of frequencies -----------------------------------------------------------------------


def _from_list(
    costs: Costs, goal: Goal, choices: tuple[float, ...], *, thorough: bool = True
) -> Allocation | None:
    table = np.asarray(choices)
    allowed = np.searchsorted(table, costs.max_frequency, side="right") - 1
    if (allowed < 0).any():
        return None
    pick = _by_ratio(costs, goal, table, allowed)
    if pick is None:
        return None
    exact = False
    if thorough:
        pick, exact = _by_labels(costs, goal, table, allowed, pick)
    frequency = table[pick]
    recovery, overhead = measures(costs, frequency)
    price = _ratio_at(costs, table, pick)
    return Allocation(
        frequency=frequency,
        recovery=recovery,
        overhead=overhead,
        level=1.0 / math.sqrt(price) if price > 0 else math.inf,
        exact=exact,
    )


def _ratio_at(
    costs: Costs, table: FloatArray, pick: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> float:
    """About what one more unit of overhead would save."""
    active = (costs.replay > 0) & (costs.write > 0)
    if not active.any():
        return 0.0
    rate = costs.replay[active] / costs.write[active] / table[pick[active]] ** 2
    return float(np.median(rate))


IntVector = np.ndarray[tuple[int], np.dtype[np.int64]]


def _by_ratio(costs: Costs, goal: Goal, table: FloatArray, allowed: IntVector) -> IntVector | None:
    """Raise frequencies one step at a time, the step that saves most per overhead first."""
    pick = np.where(costs.write == 0, allowed, 0)
    recovery, overhead = measures(costs, table[pick])
    steps: list[tuple[float, int, int]] = []
    for s in np.flatnonzero((costs.write > 0) & (costs.replay > 0)):
        ratio = costs.replay[s] / costs.write[s] / (table[1:] * table[:-1])
        steps += [(float(ratio[k]), int(s), k) for k in range(int(allowed[s]))]
    steps.sort(key=lambda step: (-step[0], step[2]))
    by_overhead = goal.bounded == "overhead"
    if by_overhead and overhead > goal.limit:
        return None
    for _, segment, k in steps:
        s = np.int64(segment)
        if not by_overhead and recovery <= goal.limit:
            break
        more = float(costs.write[s] * (table[k + 1] - table[k]))
        if pick[s] != k or (by_overhead and overhead + more > goal.limit):
            continue
        pick[s] = k + 1
        overhead += more
        recovery -= float(costs.replay[s] * (1.0 / table[k] - 1.0 / table[k + 1]))
    if by_overhead:
        return pick
    recovery, _ = measures(costs, table[pick])
    return pick if recovery <= goal.limit else None


def _by_labels(
    costs: Costs, goal: Goal, table: FloatArray, allowed: IntVector, start: IntVector
) -> tuple[IntVector, bool]:
    """Segment by segment, all choices that may still beat `start`; exact unless cut short."""
    by_overhead = goal.bounded == "overhead"
    recovery, overhead = measures(costs, table[start])
    incumbent = recovery if by_overhead else overhead
    price = _best_price(costs, goal, table, allowed)
    options = []
    for s in range(len(costs.fixed)):
        choices = table[: int(allowed[s]) + 1]
        options.append((costs.replay[s] / choices, costs.write[s] * choices))
    least = [float(np.min(t + price * o)) for t, o in options]
    rest = np.concatenate([np.cumsum(least[::-1])[::-1], [0.0]])
    times = np.array([float(costs.fixed.sum())])
    loads = np.array([float(costs.save.sum())])
    trail: list[tuple[IntVector, IntVector]] = []
    exact = True
    for s, (t, o) in enumerate(options):
        times = (times[:, None] + t[None, :]).ravel()
        loads = (loads[:, None] + o[None, :]).ravel()
        hope = times + price * loads + rest[s + 1]
        keep = hope < goal.needed(incumbent, price) * (1 - 1e-12)
        keep &= (loads if by_overhead else times) <= goal.limit
        index = np.flatnonzero(keep)
        index = index[np.lexsort((times[index], loads[index]))]
        if len(index):
            best = np.minimum.accumulate(times[index])
            index = index[np.concatenate([[True], times[index][1:] < best[:-1]])]
        if len(index) > LABEL_LIMIT:
            exact = False
            index = index[np.argsort(hope[index])[:LABEL_LIMIT]]
        trail.append((index // len(t), index % len(t)))
        times, loads = times[index], loads[index]
        if not len(index):
            return start, exact
    at = int(np.argmin(times if by_overhead else loads))
    pick = np.zeros(len(options), np.int64)
    for s in reversed(range(len(options))):
        before, choice = trail[s]
        pick[s] = choice[at]
        at = int(before[at])
    return pick, exact


def _best_price(costs: Costs, goal: Goal, table: FloatArray, allowed: IntVector) -> float:
    """The price with the best bound, by bisection on the logarithmic scale."""
    caps = table[allowed]
    active = (costs.replay > 0) & (costs.write > 0)
    if not active.any():
        return 0.0
    ratio = costs.replay[active] / costs.write[active]
    low = float(ratio.min()) / float(table[-1]) ** 2 * 0.5
    high = float(ratio.max()) / float(table[0]) ** 2 * 2.0

    held = CostArrays(costs.fixed, costs.replay, costs.write, costs.save, caps)
    rule = Rule(choices=tuple(table.tolist()))
    for _ in range(40):
        price = math.sqrt(low * high)
        recovery, overhead = measures(costs, natural(held, price, rule))
        dear = overhead > goal.limit if goal.bounded == "overhead" else recovery < goal.limit
        low, high = (price, high) if dear else (low, price)
    return math.sqrt(low * high)
