"""How a solution is spelled out as a plan."""

from __future__ import annotations

import math

import numpy as np

from holdfast.plan import CheckpointedSegment, FastRecoverPlan
from holdfast.planners.fastrecover.checkpointing import Configuration
from holdfast.planners.fastrecover.machine_failures import machine_failures
from holdfast.planners.fastrecover.problem import Outcome, Problem, Solution
from holdfast.planners.interface import Solve

LARGE = 5000
"""From this many operators on fewer machine losses are simulated."""


def to_plan(problem: Problem, outcome: Outcome, algorithm: str, solve: Solve) -> FastRecoverPlan:
    """Spell an outcome out in the file's names."""
    found = outcome.solution
    if found is None:
        return FastRecoverPlan(algorithm=algorithm, feasible=False, note=outcome.note)
    shape = Configuration(partition=found.partition, frequency=found.frequency)
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
        worst_case=dict(zip(names, map(_finite, shape.worst_case.tolist()), strict=True)),
        computational_recovery_time=lost.computational_recovery_time,
        mean_recovery_latency=lost.recovery_latency,
    )


def _segments(found: Solution, names: list[str]) -> tuple[CheckpointedSegment, ...]:
    label, anchors = found.partition.label.tolist(), found.anchors.tolist()
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
            CheckpointedSegment(
                head=names[first],
                heads=tuple(names[i] for i in heads[number]),
                operators=tuple(names[i] for i in inside),
                frequency=_finite(frequency[first]),
                frequencies={names[i]: _finite(frequency[i]) for i in inside} if differ else {},
            )
        )
    return tuple(planned)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
