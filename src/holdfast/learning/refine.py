"""A profile as it would be now: samples of a run in the place of numbers that have changed.

- **rates** of a segment's operators are scaled to the rows that it reads;
- **state** of the operator that keeps it is what it has now;
- **batches** that take longer or shorter than predicted at the rate and state that there are now
  do so by their rows where rows are most of a batch (cost per row), else by a fixed part;
- **detection** is drawn from the recoveries that were seen, and **building** of a segment differs
  from what was profiled by as much as its restores did.

Whether a number of batches has changed is decided by `drift`; recoveries are too few for that, so
at least `ENOUGH_RECOVERIES` must agree: their middle half lies on one side of what was expected.
"""

from __future__ import annotations

import math
import statistics as numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from holdfast.learning.drift import ENOUGH, changed
from holdfast.learning.samples import Learned, Recovery, Seen
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics

ENOUGH_RECOVERIES = 3
NOTICED = 0.2
"""Share by which recoveries must differ."""
LEAST_S = 0.1
"""And by how much a duration must."""
_DOUBLINGS, _HALVINGS = 8, 12
"""Steps of looking for a cost: it is found to 1/4096 of itself, up to 256 times what it was."""
OUTLIER = 3.0
"""No single batch counts for more than so many times the expected one."""

Number = Literal["rate", "cost", "batch", "state", "restore", "detection"]
_WORDS: Mapping[Number, tuple[str, str]] = {
    "rate": ("rows into {}", "/s"),
    "cost": ("cost per row of {}", "us"),
    "batch": ("batches of {}", "s"),
    "state": ("state of {}", "MB"),
    "restore": ("restores of {}", "s"),
    "detection": ("detection", "s"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One number that is no longer what it was, in the unit of its words."""

    number: Number
    segment: str
    """Empty: it concerns all of them."""
    before: float
    now: float
    samples: int

    @property
    def worse(self) -> bool:
        """All of these numbers are the worse the larger they are."""
        return self.now > self.before

    @property
    def words(self) -> str:
        """As in: rows into count: 1000 /s as profiled, 2100 /s now (40 samples)."""
        what, unit = _WORDS[self.number]
        return (
            f"{what.format(self.segment)}: {figure(self.before)} {unit} as profiled, "
            f"{figure(self.now)} {unit} now ({self.samples} samples)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a profile makes one expect of a segment that runs."""

    operators: tuple[str, ...]
    """Names, the output operator last."""
    reads: tuple[str, ...]
    """Segments that it reads."""
    rate_in: float
    """Rows per second that it reads from outside."""
    batch_s: float
    """From its input to its slice."""
    state_bytes: float
    restore_s: float
    overloaded: bool = False
    """More than the machine can do: batches take at least as long as said here."""


Expect = Callable[[Statistics], Mapping[str, Expected]]


def refined(
    statistics: Statistics, expect: Expect, learned: Learned
) -> tuple[Statistics, tuple[Drift, ...]]:
    """Statistics as they are now, and what has changed; `expect` tells what follows from some.

    Segments come upstream first. One that has made too few batches to tell, which may be because it
    gets too much to do, gets as many rows more as those that it reads.
    Batches are compared with what is expected once rates and state are as they are now, so that
    longer batches that more rows explain are not counted twice.
    """
    expected = expect(statistics)
    operators = dict(statistics.operators)
    drifts: list[Drift] = []
    factors: dict[str, float] = {}
    for name, one in expected.items():
        seen = learned.segments.get(name, ())
        drifts += _rate(name, one, seen, operators, factors)
        drifts += _state(name, one, seen, operators)
    flowing = replace(statistics, operators=dict(operators))
    again = expect(flowing) if drifts else expected

    def batch_with(name: str, other: Mapping[str, OperatorStatistics]) -> float:
        found = expect(replace(flowing, operators={**flowing.operators, **other}))[name]
        return math.inf if found.overloaded else found.batch_s

    for name, one in again.items():
        drifts += _batch(name, one, batch_with, learned.segments.get(name, ()), operators)
        drifts += _restore(name, expected[name], learned.recoveries, operators)
    machine = statistics.machine
    detected = [one.detect_s for one in learned.recoveries]
    usual = machine.detection.value
    later = agreed(detected, usual)
    if later is not None:
        drifts.append(_drift("detection", "", usual, later, len(detected)))
        machine = replace(machine, detection=_duration(detected, "recoveries of a run"))
    return replace(statistics, machine=machine, operators=operators), tuple(drifts)


def agreed(values: Sequence[float], expected: float) -> float | None:
    """The median of a few durations if they agree that it is not what was expected, else None."""
    if len(values) < ENOUGH_RECOVERIES:
        return None
    low, middle, high = numbers.quantiles(values, n=4, method="inclusive")
    apart = low > expected or high < expected
    off = abs(middle - expected)
    return middle if apart and off > max(LEAST_S, NOTICED * abs(expected)) else None


def _rate(
    name: str,
    one: Expected,
    seen: Sequence[Seen],
    operators: dict[str, OperatorStatistics],
    factors: dict[str, float],
) -> list[Drift]:
    rates = [look.rate_in for look in seen if look.rate_in is not None]
    change, drifts, samples = changed(rates, one.rate_in), [], len(rates)
    factor = 1.0
    if change is not None:
        # A mean, not a median: behind a window rows come in bursts.
        now, samples = numbers.fmean(rates[change.first :]), len(rates) - change.first
        factor = now / one.rate_in
        drifts = [_drift("rate", name, one.rate_in, now, samples)]
    elif len(rates) < ENOUGH and one.reads:
        factor = numbers.fmean(factors.get(read, 1.0) for read in one.reads)
    factors[name] = factor
    if factor == 1.0:
        return []
    for member in one.operators:
        known = operators.get(member, OperatorStatistics())
        operators[member] = replace(
            known,
            input_rate=_scaled(known.input_rate, factor, samples),
            output_rate=_scaled(known.output_rate, factor, samples),
            state_change=_scaled(known.state_change, factor, samples),
        )
    return drifts


def _state(
    name: str, one: Expected, seen: Sequence[Seen], operators: dict[str, OperatorStatistics]
) -> list[Drift]:
    kept = [look.state_bytes for look in seen if look.state_bytes]
    keepers = [
        member
        for member in one.operators
        if (known := operators.get(member)) is not None and known.state_size is not None
    ]
    if len(keepers) != 1 or changed(kept, one.state_bytes) is None:
        return []
    # State grows: what matters is what it is at the end, not in the middle.
    latest = numbers.median(kept[-ENOUGH:])
    measure = Measure(value=latest, samples=len(kept), how="state of a run")
    operators[keepers[0]] = replace(operators[keepers[0]], state_size=measure)
    return [_drift("state", name, one.state_bytes / 1e6, latest / 1e6, len(kept))]


def _batch(
    name: str,
    one: Expected,
    batch_with: Callable[[str, Mapping[str, OperatorStatistics]], float],
    seen: Sequence[Seen],
    operators: dict[str, OperatorStatistics],
) -> list[Drift]:
    """Batches that take longer or shorter than at the rates that there are now."""
    taken = [look.batch_s for look in seen if look.batch_s is not None]
    change = changed(taken, one.batch_s, least=LEAST_S, most=OUTLIER)
    if change is None or (one.overloaded and change.larger):
        return []
    now, samples = numbers.median(taken[change.first :]), len(taken) - change.first

    def batch_s(factor: float) -> float:
        return batch_with(name, _costs_times(one, operators, factor, samples))

    if _costs_times(one, operators, 0.0, samples) and batch_s(0.0) <= one.batch_s / 2:
        factor = _solved(batch_s, now)
        row = 1e6 * _row_s(one, operators)
        operators.update(_costs_times(one, operators, factor, samples))
        return [_drift("cost", name, row, row * factor, samples)]
    root = one.operators[-1]
    known = operators.get(root, OperatorStatistics())
    before = known.batch_fixed or Measure(value=0.0)
    longer = max(0.0, before.value + now - one.batch_s)
    measure = Measure(value=longer, samples=samples, how="batches of a run")
    operators[root] = replace(known, batch_fixed=measure)
    return [_drift("batch", name, one.batch_s, now, samples)]


def _solved(batch_s: Callable[[float], float], now: float) -> float:
    """By how much rows are costlier if batches take so long; more load slows everything down."""
    low, high = 0.0, 1.0
    for _ in range(_DOUBLINGS):
        if batch_s(high) >= now:
            break
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if batch_s(middle) >= now else (middle, high)
    return (low + high) / 2


def _costs_times(
    one: Expected, operators: Mapping[str, OperatorStatistics], factor: float, samples: int
) -> dict[str, OperatorStatistics]:
    """The operators of a segment that have a cost per row, with another one."""
    known = {name: operators[name] for name in one.operators if name in operators}
    return {
        name: replace(found, cost=_scaled(found.cost, factor, samples, "batches of a run"))
        for name, found in known.items()
        if found.cost is not None and found.cost.value > 0
    }


def _row_s(one: Expected, operators: Mapping[str, OperatorStatistics]) -> float:
    """What all operators of a segment take for one row that it reads."""
    found = 0.0
    for name in one.operators:
        known = operators.get(name)
        if known is not None and known.cost is not None:
            rate = known.input_rate.value if known.input_rate else one.rate_in
            found += known.cost.value * rate
    return found / max(one.rate_in, 1e-9)


def _restore(
    name: str,
    one: Expected,
    recoveries: Sequence[Recovery],
    operators: dict[str, OperatorStatistics],
) -> list[Drift]:
    taken = [item.restore_s for item in recoveries if item.segment == name]
    now = agreed(taken, one.restore_s)
    if now is None:
        return []
    root = one.operators[-1]
    known = operators.get(root, OperatorStatistics())
    before = known.build or Measure(value=0.0)
    more = [max(0.0, before.value + seconds - one.restore_s) for seconds in taken]
    operators[root] = replace(known, build=_duration(more, "restores of a run"))
    return [_drift("restore", name, one.restore_s, now, len(taken))]


def lost_together(
    recoveries: Sequence[Recovery], nodes: Sequence[Sequence[str]]
) -> tuple[Recovery, ...]:
    """Recoveries from what a plan's promise is about: the loss of all that shares one of its nodes.

    What is lost alone comes back sooner than what is lost with others, so other losses, as of a run
    on more nodes than were planned, say nothing about the promise.
    """
    wanted = [set(node) for node in nodes]
    events: dict[str, set[str]] = {}
    for one in recoveries:
        events.setdefault(one.cause, set()).add(one.segment)
    return tuple(
        one
        for one in recoveries
        if any(one.segment in node and node <= events[one.cause] for node in wanted)
    )


def figure(value: float) -> str:
    """A number as people write it: 1000, 2.1, 0.034."""
    return f"{value:,.0f}".replace(",", "") if abs(value) >= 100 else f"{value:.3g}"


def _drift(number: Number, segment: str, before: float, now: float, samples: int) -> Drift:
    return Drift(number=number, segment=segment, before=before, now=now, samples=samples)


def _scaled(
    measure: Measure | None, factor: float, samples: int, how: str = "rows of a run"
) -> Measure | None:
    if measure is None:
        return None
    return replace(
        measure,
        value=measure.value * factor,
        error=measure.error * factor,
        p95=None if measure.p95 is None else measure.p95 * factor,
        values=tuple(value * factor for value in measure.values),
        samples=samples,
        how=how,
    )


def _duration(values: Sequence[float], how: str) -> Measure:
    ordered = sorted(values)
    last = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return Measure(
        value=numbers.median(ordered),
        p95=last,
        samples=len(ordered),
        how=how,
        values=tuple(ordered),
    )
