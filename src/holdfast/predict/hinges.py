"""Which numbers a promise hangs on, and how sure each of them is; pure.

A recovery is predicted from dozens of measured numbers, and most of them hardly matter. Each is
taken somewhat larger in turn (`STEP`, the same share for all), and the 95th percentile of the time
until all results are there is predicted again: how much it moves for each percent is the number's
weight. Its doubt is how far off the number itself may be, as a share. What a promise hangs on is
where the product of both is large; such a number is worth measuring again.

One prediction a number: O(numbers * failures * units).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from holdfast.predict.recovery import RecoveryModel
from holdfast.predict.segments import SegmentPlan, segments_of
from holdfast.predict.statistics import Affine, Measure, Statistics
from holdfast.topology.graph import Topology

STEP = 0.25
"""By how much each number is taken larger."""
SNAPSHOTS = 10
"""Batches per snapshot of the plan that is looked at."""
LEAST_WEIGHT = 0.01
"""Numbers that move the promise by less, per their own share, are left out."""
NEVER_MEASURED = 0.5
"""Doubt of a number that was not measured here at all."""
HOPELESS_S = 60.0
"""A pipeline that takes longer to catch up hangs on its load, and on nothing else."""
_COUNTS = ("cores", "spare_cost", "refill", "restore_cold")
"""Numbers of a machine that a recovery on a warm spare does not rest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hinge:
    """One number that a promise rests on."""

    name: str
    """Of an operator's numbers `OPERATOR: NUMBER`, of the machine's the number alone."""
    measure: Measure
    weight: float
    """By how many percent the promise moves when the number moves by one."""
    doubt: float
    """How far off the number may be, as a share of it."""

    @property
    def at_stake(self) -> float:
        """By what share the promise is off if the number is off as far as it may be."""
        return self.weight * self.doubt


def hinges(topology: Topology, statistics: Statistics, *, most: int = 8) -> tuple[Hinge, ...]:
    """What the promise of the uncut pipeline on one node hangs on, most at stake first."""
    base = _promise(topology, statistics)
    if not 0 < base < HOPELESS_S:
        return ()
    found = []
    for name, measure, larger in _each_larger(statistics):
        moved = _promise(topology, larger)
        weight = (moved / base - 1.0) / STEP if moved < float("inf") else 1.0
        if weight >= LEAST_WEIGHT:
            found.append(Hinge(name=name, measure=measure, weight=weight, doubt=doubt_of(measure)))
    return tuple(sorted(found, key=lambda one: (-one.at_stake, one.name))[:most])


def doubt_of(measure: Measure) -> float:
    """How far off a number may be, as a share of it."""
    if measure.samples == 0 or measure.value <= 0:
        return NEVER_MEASURED
    if measure.error > 0:
        return min(1.0, measure.error / measure.value)
    # Of durations the spread is known: a median of n of them is off by about that over sqrt(n).
    spread = max(0.0, measure.high / measure.value - 1.0)
    return float(min(1.0, spread / max(1.0, measure.samples) ** 0.5))


def _promise(topology: Topology, statistics: Statistics) -> float:
    """95th percentile of the time until all results are there, cut only where it must be."""
    model = RecoveryModel(topology, statistics)
    interval = 2.0 * statistics.epoch_s
    segments = [
        SegmentPlan(operators=part, interval_s=interval, snapshot_batches=SNAPSHOTS)
        for part in segments_of(topology, set(model.forced))
    ]
    uncut = model.uncut_cpu(interval, SNAPSHOTS)
    return model.predict(segments, 1, uncut_cpu=uncut).results[1]


def _each_larger(statistics: Statistics) -> Iterator[tuple[str, Measure, Statistics]]:
    """Every number with statistics in which it alone is larger."""
    machine = statistics.machine
    for item in fields(machine):
        value = getattr(machine, item.name)
        if item.name in _COUNTS:
            continue
        words = item.name.replace("_", " ")
        if isinstance(value, Measure):
            yield words, value, _with_machine(statistics, item.name, _larger(value))
        elif isinstance(value, Affine):
            for part in ("fixed", "per_byte"):
                told = getattr(value, part)
                changed = replace(value, **{part: _larger(told)})
                title = f"{words}, {part.replace('_', ' ')}"
                yield title, told, _with_machine(statistics, item.name, changed)
    for name, one in statistics.operators.items():
        for item in fields(one):
            value = getattr(one, item.name)
            if isinstance(value, Measure):
                changes: dict[str, Any] = {item.name: _larger(value)}
                others = {**statistics.operators, name: replace(one, **changes)}
                title = f"{name}: {item.name.replace('_', ' ')}"
                yield title, value, replace(statistics, operators=others)


def _with_machine(statistics: Statistics, name: str, value: Any) -> Statistics:
    return replace(statistics, machine=replace(statistics.machine, **{name: value}))


def _larger(measure: Measure) -> Measure:
    scale = 1.0 + STEP
    return replace(
        measure,
        value=measure.value * scale,
        p95=None if measure.p95 is None else measure.p95 * scale,
        values=tuple(value * scale for value in measure.values),
    )
