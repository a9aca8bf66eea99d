"""What ordinary runs teach: samples of batches and recoveries, kept bounded, that refine a profile.

While a pipeline runs, every segment tells how many rows it reads a second, how long its batches
take and how much state it keeps, and every recovery how long its phases took. `Learned` keeps the
latest of them; `refined` puts them in the place of what a profile said:

- **rates** of a segment's operators are scaled to the rows that it reads;
- **state** of the operator that keeps it is what it has now;
- **batches** that take longer or shorter than predicted at that rate do so by a fixed part;
- **detection** is drawn from the recoveries that were seen, and **building** of a segment differs
  from what was profiled by as much as its restores did.

A number changes only if at least `ENOUGH` samples agree that it has: their middle half lies on one
side of it, and the median is off by more than `NOTICED`. So one busy minute changes nothing.
"""

from __future__ import annotations

import statistics as numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from holdfast.predict.segments import SegmentPlan
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics

FORMAT = "holdfast-learned/1"
KEPT = 120
"""Samples of each number that are kept, the latest ones."""
ENOUGH = 8
"""Samples of batches below which nothing is concluded."""
ENOUGH_RECOVERIES = 3
NOTICED = 0.2
"""Share by which a number must differ to count as another one."""
LEAST_S = 0.1
"""And by how much a duration must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look at a segment that runs, all its shards together."""

    rate_in: float | None = None
    """Rows per second."""
    batch_s: float | None = None
    """From its input to its slice, of the slowest shard."""
    state_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One recovery, as the coordinator saw it."""

    id: int
    segment: str
    detect_s: float
    restore_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The latest samples of a run."""

    segments: Mapping[str, tuple[Seen, ...]] = field(default_factory=dict)
    recoveries: tuple[Recovery, ...] = ()

    def add(self, seen: Mapping[str, Seen], recoveries: Iterable[Recovery] = ()) -> Learned:
        """With one more look at every segment, and recoveries that are not known yet."""
        segments = dict(self.segments)
        for name, one in seen.items():
            segments[name] = (*segments.get(name, ())[1 - KEPT :], one)
        known = {one.id for one in self.recoveries}
        new = [one for one in recoveries if one.id not in known]
        return Learned(segments=segments, recoveries=(*self.recoveries, *new)[-KEPT:])

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "segments": {
                name: [[one.rate_in, one.batch_s, one.state_bytes] for one in seen]
                for name, seen in self.segments.items()
            },
            "recoveries": [
                [one.id, one.segment, one.detect_s, one.restore_s] for one in self.recoveries
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` gave; nothing learned if it is of another format."""
        if data.get("format") != FORMAT:
            return cls()
        return cls(
            segments={
                name: tuple(Seen(rate_in=a, batch_s=b, state_bytes=c) for a, b, c in seen)
                for name, seen in data["segments"].items()
            },
            recoveries=tuple(
                Recovery(id=a, segment=b, detect_s=c, restore_s=d)
                for a, b, c, d in data["recoveries"]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One number that is no longer what it was."""

    what: str
    before: float
    now: float
    unit: str
    samples: int

    @property
    def words(self) -> str:
        """As in: rows/s into count: 1000 when profiled, 2100 now (40 samples)."""
        return (
            f"{self.what}: {self.before:.3g} {self.unit} as profiled, {self.now:.3g} {self.unit} "
            f"now ({self.samples} samples)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a profile makes one expect of a segment that runs, seconds and rows."""

    plan: SegmentPlan
    operators: tuple[str, ...]
    """Names, the output operator last."""
    rate_in: float
    """Rows per second that it reads from outside."""
    batch_s: float
    """From its input to its slice."""
    state_bytes: float
    restore_s: float


def changed(
    values: Sequence[float], expected: float, *, enough: int = ENOUGH, least: float = 0.0
) -> float | None:
    """The median of samples if they agree that it is not what was expected, else None.

    It must be off by a share of what was expected, and by `least` at least.
    """
    if len(values) < enough:
        return None
    low, middle, high = numbers.quantiles(values, n=4, method="inclusive")
    apart = low > expected or high < expected
    off = abs(middle - expected)
    return middle if apart and off > max(least, NOTICED * abs(expected)) else None


def refined(
    statistics: Statistics, expected: Mapping[str, Expected], learned: Learned
) -> tuple[Statistics, tuple[Drift, ...]]:
    """Statistics as they are now, and what has changed.

    `expected` is by segment. Batches are compared at the rate they were profiled for: where the
    rate has changed, longer batches are its doing and are left to it.
    """
    operators = dict(statistics.operators)
    drifts: list[Drift] = []
    for name, one in expected.items():
        seen = learned.segments.get(name, ())
        drifts += _rate(name, one, seen, operators)
        if not any(drift.what == _RATE.format(name) for drift in drifts):
            drifts += _batch(name, one, seen, operators)
        drifts += _state(name, one, seen, operators)
        drifts += _restore(name, one, learned.recoveries, operators)
    machine = statistics.machine
    detected = [one.detect_s for one in learned.recoveries]
    usual = machine.detection.value
    later = changed(detected, usual, enough=ENOUGH_RECOVERIES, least=LEAST_S)
    if later is not None:
        drifts.append(_drift("detection", usual, later, "s", len(detected)))
        machine = replace(machine, detection=_duration(detected, "recoveries of a run"))
    return replace(statistics, machine=machine, operators=operators), tuple(drifts)


_RATE = "rows into {}"


def _rate(
    name: str, one: Expected, seen: Sequence[Seen], operators: dict[str, OperatorStatistics]
) -> list[Drift]:
    rates = [look.rate_in for look in seen if look.rate_in is not None]
    now = changed(rates, one.rate_in)
    if now is None or one.rate_in <= 0:
        return []
    factor = now / one.rate_in
    for member in one.operators:
        known = operators.get(member, OperatorStatistics())
        operators[member] = replace(
            known,
            input_rate=_scaled(known.input_rate, factor, len(rates)),
            output_rate=_scaled(known.output_rate, factor, len(rates)),
            state_change=_scaled(known.state_change, factor, len(rates)),
        )
    return [_drift(_RATE.format(name), one.rate_in, now, "/s", len(rates))]


def _batch(
    name: str, one: Expected, seen: Sequence[Seen], operators: dict[str, OperatorStatistics]
) -> list[Drift]:
    taken = [look.batch_s for look in seen if look.batch_s is not None]
    now = changed(taken, one.batch_s, least=LEAST_S)
    if now is None:
        return []
    root = one.operators[-1]
    known = operators.get(root, OperatorStatistics())
    before = known.batch_fixed or Measure(value=0.0)
    longer = max(0.0, before.value + now - one.batch_s)
    measure = Measure(value=longer, samples=len(taken), how="batches of a run")
    operators[root] = replace(known, batch_fixed=measure)
    return [_drift(f"batches of {name}", one.batch_s, now, "s", len(taken))]


def _state(
    name: str, one: Expected, seen: Sequence[Seen], operators: dict[str, OperatorStatistics]
) -> list[Drift]:
    kept = [look.state_bytes for look in seen if look.state_bytes]
    now = changed(kept, one.state_bytes)
    keepers = [
        member
        for member in one.operators
        if (known := operators.get(member)) is not None and known.state_size is not None
    ]
    if now is None or len(keepers) != 1:
        return []
    # State grows: what matters is what it is at the end, not in the middle.
    latest = numbers.median(kept[-ENOUGH:])
    measure = Measure(value=latest, samples=len(kept), how="state of a run")
    operators[keepers[0]] = replace(operators[keepers[0]], state_size=measure)
    return [_drift(f"state of {name}", one.state_bytes / 1e6, latest / 1e6, "MB", len(kept))]


def _restore(
    name: str,
    one: Expected,
    recoveries: Sequence[Recovery],
    operators: dict[str, OperatorStatistics],
) -> list[Drift]:
    taken = [item.restore_s for item in recoveries if item.segment == name]
    now = changed(taken, one.restore_s, enough=ENOUGH_RECOVERIES, least=LEAST_S)
    if now is None:
        return []
    root = one.operators[-1]
    known = operators.get(root, OperatorStatistics())
    before = known.build or Measure(value=0.0)
    more = [max(0.0, before.value + seconds - one.restore_s) for seconds in taken]
    operators[root] = replace(known, build=_duration(more, "restores of a run"))
    return [_drift(f"restores of {name}", one.restore_s, now, "s", len(taken))]


def _drift(what: str, before: float, now: float, unit: str, samples: int) -> Drift:
    return Drift(what=what, before=before, now=now, unit=unit, samples=samples)


def _scaled(measure: Measure | None, factor: float, samples: int) -> Measure | None:
    if measure is None:
        return None
    return replace(
        measure,
        value=measure.value * factor,
        error=measure.error * factor,
        p95=None if measure.p95 is None else measure.p95 * factor,
        samples=samples,
        how="rows of a run",
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
