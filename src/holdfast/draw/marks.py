"""What a plan says about each operator, read off the JSON of `holdfast plan`.

Plans name tasks (`count.2`) or operators (`count`); a drawing shows operators. Everything a plan
may hold is optional here, so that plans of every method, and older ones, can be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import BadInputError
from holdfast.topology.graph import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
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
    backups: Mapping[int, int] = field(default_factory=dict)
    anchors: Mapping[int, int] = field(default_factory=dict)
    replicas: Mapping[int, int] = field(default_factory=dict)
    latency: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest recovery latency among an operator's tasks, file units."""
    segments: tuple[Segment, ...] = ()


def read_plan(topology: Topology, plan: Mapping[str, Any]) -> PlanMarks:
    """The marks of a plan; a name that the topology does not have is bad input."""
    if not isinstance(plan, Mapping):
        raise BadInputError("is not a plan", hint="write the output of `holdfast plan --json`")
    names = _Names(topology)
    latency: dict[int, tuple[float, float]] = {}
    for name, item in (plan.get("recovery_latency") or {}).items():
        # Joint plans promise a median and a 95th percentile; the promise is the latter.
        value = item.get("p95") if isinstance(item, Mapping) else item
        if value is not None:
            i, _ = names.find(name)
            low, high = latency.get(i, (value, value))
            latency[i] = (min(low, value), max(high, value))
    segments = []
    for item in plan.get("segments") or ():
        head = item.get("head")
        heads = [head] if isinstance(head, str) else (head or ())
        segments.append(
            Segment(
                heads=tuple(names.find(name)[0] for name in heads),
                operators=tuple(names.find(name)[0] for name in item.get("operators", ())),
                frequency=item.get("frequency"),
            )
        )
    return PlanMarks(
        method=str(plan.get("method") or ""),
        caption=_caption(topology, plan),
        feasible=bool(plan.get("feasible", True)),
        backups=names.count(plan.get("backups") or plan.get("boundaries")),
        anchors=names.count(plan.get("anchors")),
        replicas=names.count(plan.get("replicas")),
        latency=latency,
        segments=tuple(segments),
    )


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

    def count(self, listed: Iterable[Any] | None) -> dict[int, int]:
        counts: dict[int, int] = {}
        for name in listed or ():
            i, tasks = self.find(str(name))
            counts[i] = counts.get(i, 0) + tasks
        return counts


def _caption(topology: Topology, plan: Mapping[str, Any]) -> str:
    parts = [" ".join(str(plan[key]) for key in ("method", "algorithm") if plan.get(key))]
    if plan.get("feasible") is False:
        return f"{parts[0]}: infeasible"
    time = topology.unit.time
    for key, one, many in (
        ("backups", "backup", "backups"),
        ("anchors", "anchor", "anchors"),
        ("replicas", "replica", "replicas"),
    ):
        if isinstance(plan.get(key), list):
            count = len(plan[key])
            parts.append(f"{count} {one if count == 1 else many}")
    for key, said in (
        ("overall", f"recovers within {{}} {time}"),
        ("expected_recovery_time", "expected recovery time {}"),
        ("checkpoint_overhead", "checkpoint overhead {}"),
        ("fidelity", "fidelity {}"),
    ):
        if isinstance(plan.get(key), int | float):
            parts.append(said.format(f"{plan[key]:.4g}"))
    return " · ".join(part for part in parts if part)
