"""FastRecover's answer, as `holdfast plan --json` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from holdfast.planners.fastrecover.checkpointing import Configuration
from holdfast.planners.fastrecover.machine_failures import machine_failures
from holdfast.planners.fastrecover.problem import Outcome, Problem, Solution
from holdfast.planners.interface import PlanResult, Solve

LARGE = 5000
"""From this many operators on fewer machine losses are simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment:
    """Operators that checkpoint together."""

    head: str
    """The first of `heads` in the file's order."""
    heads: tuple[str, ...]
    """The anchors inside it; where unsaved streams join there may be several."""
    operators: tuple[str, ...]
    frequency: float
    """Checkpoints per time unit of the file; infinite (null in JSON): nothing to write, so any."""
    frequencies: Mapping[str, float] = field(default_factory=dict)
    """Per operator, when they differ inside the segment (RSRFS); `frequency` is then the head's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastRecoverPlan(PlanResult):
    """Anchors, segments and frequencies with what they cost."""

    method: ClassVar[str] = "fastrecover"

    anchors: tuple[str, ...] = ()
    """Operators that save their input, sources included."""
    segments: tuple[PlannedSegment, ...] = ()
    expected_recovery_time: float | None = None
    """Sum over operators of failure rate times recovery time, per time unit."""
    checkpoint_overhead: float | None = None
    """Sum over operators of the share of time spent on saving and checkpoints; may exceed 1."""
    worst_case: Mapping[str, float] = field(default_factory=dict)
    """Per operator, a bound on its recovery whenever it fails."""
    computational_recovery_time: float | None = None
    """Mean total work after the loss of a machine with five operators (simulated)."""
    mean_recovery_latency: float | None = None
    """Mean time until all of them are back."""


def to_plan(problem: Problem, outcome: Outcome, algorithm: str, solve: Solve) -> FastRecoverPlan:
    """Spell an outcome out in the file's names."""
    found = outcome.solution
    if found is None:
        return FastRecoverPlan(algorithm=algorithm, feasible=False, note=outcome.note)
    shape = Configuration(partition=found.cut, frequency=found.frequency)
    names = [operator.name for operator in problem.model.topology.operators]
    few = problem.model.size >= LARGE
    lost = machine_failures(shape, solve.rng, samples=100 if few else 1000)
    return FastRecoverPlan(
        algorithm=algorithm,
        feasible=True,
        optimal=outcome.optimal,
        objective=found.objective,
        bound=outcome.bound,
        note=outcome.note,
        anchors=tuple(names[i] for i in np.flatnonzero(found.anchors)),
        segments=_segments(found, names),
        expected_recovery_time=shape.expected_recovery_time,
        checkpoint_overhead=found.allocation.overhead,
        worst_case=dict(zip(names, shape.worst_case.tolist(), strict=True)),
        computational_recovery_time=lost.computational_recovery_time,
        mean_recovery_latency=lost.recovery_latency,
    )


def _segments(found: Solution, names: list[str]) -> tuple[PlannedSegment, ...]:
    label, anchors = found.cut.label.tolist(), found.anchors.tolist()
    members: dict[int, list[int]] = {}
    heads: dict[int, list[int]] = {}
    for i, number in enumerate(label):
        members.setdefault(number, []).append(i)
        if anchors[i]:
            heads.setdefault(number, []).append(i)
    frequency = found.frequency.tolist()
    planned = []
    for number in sorted(members, key=lambda n: heads[n][0]):
        inside, first = members[number], heads[number][0]
        differ = any(frequency[i] != frequency[first] for i in inside)
        planned.append(
            PlannedSegment(
                head=names[first],
                heads=tuple(names[i] for i in heads[number]),
                operators=tuple(names[i] for i in inside),
                frequency=frequency[first],
                frequencies={names[i]: frequency[i] for i in inside} if differ else {},
            )
        )
    return tuple(planned)
