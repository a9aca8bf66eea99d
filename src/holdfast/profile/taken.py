"""From takeovers that were watched to what each operator adds to one; pure.

A takeover is split in two: until the query runs, and until its first slice is there. What any query
takes on this machine is left out of both, and so is what the first batch did beside starting: the
rows that it read. Time on the wall is the neighbours' time on a busy machine; a takeover that got
less of the cores than one of its kind keeps busy is counted by its CPU time instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.predict.statistics import (
    MachineStatistics,
    Measure,
    OperatorStatistics,
    Statistics,
)

MOST_CORES = 2.0
"""Cores that one takeover is taken to keep busy at most: compilers run beside it."""
LEAST_CORES = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One takeover of one operator's query, seconds."""

    operator: str
    build_s: float
    """Until it ran."""
    build_cpu_s: float
    first_s: float
    """From then until its first slice."""
    first_cpu_s: float
    input_s: float
    """How many seconds of input that slice was made of."""


def with_takeovers(found: Statistics, takeovers: Sequence[Takeover]) -> Statistics:
    """Statistics in which takeovers are those that were watched."""
    operators = dict(found.operators)
    for one in takeovers:
        if one.operator in operators:
            known = operators[one.operator]
            operators[one.operator] = _with(known, one, found.machine)
    return replace(found, operators=operators)


def _with(
    known: OperatorStatistics, one: Takeover, machine: MachineStatistics
) -> OperatorStatistics:
    wall, cpu = one.build_s + one.first_s, one.build_cpu_s + one.first_cpu_s
    usual = machine.takeover_cpu.value
    busy = cpu / wall if wall > 0 else usual
    disturbed = busy < usual
    told = "the machine was busy, so by its CPU time" if disturbed else "by the clock"
    build = min(one.build_s, one.build_cpu_s / usual) if disturbed else one.build_s
    first = min(one.first_s, one.first_cpu_s / usual) if disturbed else one.first_s
    start = max(0.0, machine.restore_warm.value - machine.first_batch.value)
    usual_batch = (
        machine.batch_floor.value
        + machine.slice_read.fixed.value
        + machine.slice_write.fixed.value
        + (known.batch_fixed.value if known.batch_fixed else 0.0)
    )
    rate = known.input_rate.value if known.input_rate else 0.0
    work = rate * one.input_s * (known.cost.value if known.cost else 0.0)
    how = f"takeover on a spare that had only rehearsed, {told}"
    spread = machine.restore_warm.high / max(machine.restore_warm.value, 1e-9)

    def more(value: float, what: str) -> Measure:
        least = max(0.0, value)
        return Measure(value=least, p95=least * max(1.0, spread), samples=1, how=f"{how}, {what}")

    return replace(
        known,
        build=more(build - start, "until it ran, beyond what any query takes"),
        first_fixed=more(
            first - machine.first_batch.value - usual_batch - work,
            "its first batch, beyond a usual one and what any query takes",
        ),
        takeover_cpu=Measure(
            value=min(MOST_CORES, max(LEAST_CORES, usual if disturbed else busy)),
            samples=1,
            how=f"{how}, CPU time over time",
        ),
    )
