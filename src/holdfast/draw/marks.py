"""What a plan says about each operator of a topology.

Plans name tasks (`count.2`) or operators (`count`); a drawing shows operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from holdfast.errors import BadInputError
from holdfast.plan import FastRecoverPlan, FtcPlan, JointPlan, Plan, ReplicationPlan
from holdfast.topology.graph import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedSegment:
    """Operators that recover together."""

    heads: tuple[int, ...]
    operators: tuple[int, ...]
    frequency: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMarks:
    """A plan by operator position; counts are of tasks."""

    method: str = ""
    caption: str = ""
    """One line about the whole plan."""
    feasible: bool = True
    logged: Mapping[int, int] = field(default_factory=dict)
    """Operators whose output is logged."""
    output_logged: str = "backup"
    """What the plan calls them."""
    anchors: Mapping[int, int] = field(default_factory=dict)
    replicas: Mapping[int, int] = field(default_factory=dict)
    latency: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest recovery latency among an operator's tasks, file units."""
    segments: tuple[MarkedSegment, ...] = ()


def plan_marks(topology: Topology, plan: Plan) -> PlanMarks:
    """The marks of a plan; a name that the topology does not have is bad input."""
    names = _Names(topology)
    common = PlanMarks(method=plan.method, caption=_caption(topology, plan), feasible=plan.feasible)
    match plan:
        case FtcPlan():
            return replace(
                common,
                logged=names.count(plan.backups),
                latency=names.span(plan.recovery_latency.items()),
            )
        case FastRecoverPlan():
            return replace(
                common,
                anchors=names.count(plan.anchors),
                segments=tuple(
                    MarkedSegment(
                        heads=names.operators(segment.heads),
                        operators=names.operators(segment.operators),
                        frequency=segment.frequency,
                    )
                    for segment in plan.segments
                ),
            )
        case JointPlan():
            # A plan predicts a median and a 95th percentile; what it promises is the latter.
            promised = ((name, found.p95) for name, found in plan.recovery_latency.items())
            return replace(
                common,
                logged=names.count(plan.boundaries),
                output_logged="boundary",
                latency=names.span(promised),
                segments=tuple(
                    MarkedSegment(
                        heads=(), operators=names.operators(segment.operators), frequency=None
                    )
                    for segment in plan.segments
                ),
            )
        case ReplicationPlan():
            return replace(common, replicas=names.count(plan.replicas))
    return common


class _Names:
    def __init__(self, topology: Topology) -> None:
        self._operators = topology.operators
        self._index = topology.index
        self._tasks = {
            operator.task_name(k): i
            for i, operator in enumerate(topology.operators)
            for k in range(operator.parallelism)
        }

    def find(self, name: str) -> tuple[int, int]:
        """Position of the operator meant, and how many of its tasks."""
        if name in self._tasks:
            return self._tasks[name], 1
        if name in self._index:
            i = self._index[name]
            return i, self._operators[i].parallelism
        raise BadInputError(
            f"the plan names {name!r}, which the topology does not have",
            hint="draw a plan with the topology it was made for",
        )

    def operators(self, listed: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.find(name)[0] for name in listed)

    def count(self, listed: Iterable[str]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for name in listed:
            i, tasks = self.find(name)
            counts[i] = counts.get(i, 0) + tasks
        return counts

    def span(self, listed: Iterable[tuple[str, float]]) -> dict[int, tuple[float, float]]:
        """Smallest and largest value by operator."""
        spans: dict[int, tuple[float, float]] = {}
        for name, value in listed:
            i, _ = self.find(name)
            low, high = spans.get(i, (value, value))
            spans[i] = (min(low, value), max(high, value))
        return spans


def _caption(topology: Topology, plan: Plan) -> str:
    made = f"{plan.method} {plan.algorithm}"
    if not plan.feasible:
        return f"{made}: infeasible"
    return " · ".join([made, *_figures(plan, topology.unit.time)])


def _figures(plan: Plan, unit: str) -> Iterator[str]:
    match plan:
        case FtcPlan():
            yield _counted(len(plan.backups), "backup", "backups")
            if plan.overall is not None:
                yield f"recovers within {plan.overall:.4g} {unit}"
        case FastRecoverPlan():
            yield _counted(len(plan.anchors), "anchor", "anchors")
            if plan.expected_recovery_time is not None:
                yield f"expected recovery time {plan.expected_recovery_time:.4g}"
            if plan.checkpoint_overhead is not None:
                yield f"checkpoint overhead {plan.checkpoint_overhead:.4g}"
        case ReplicationPlan():
            yield _counted(len(plan.replicas), "replica", "replicas")
            if plan.fidelity is not None:
                yield f"fidelity {plan.fidelity:.4g}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
