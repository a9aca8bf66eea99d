"""The answer of the joint planner, in the topology's own units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanResult
from holdfast.planners.joint.problem import Evaluation, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment:
    """One segment: named after its output operator, as deployments name it."""

    name: str
    operators: tuple[str, ...]
    """In topological order, the output operator last."""
    batch_interval: float
    snapshot_interval: float | None
    """None: it keeps no state."""
    batch_epochs: int
    """The batch interval, counted in epochs: what a deployment takes."""
    snapshot_batches: int
    """The snapshot interval, counted in batches: what a deployment takes."""
    batch_time: float
    """How long a batch is expected to take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A duration that varies."""

    median: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPhases:
    """Median of what a recovery is spent on."""

    detection: float
    restore: float
    load: float
    replay: float
    catch_up: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPlan(PlanResult):
    """Boundaries, intervals and spares. The objective is in cores beyond the uncut pipeline."""

    method: ClassVar[str] = "joint"

    max_recovery: float | None = None
    """The bounds asked for, as asked; None: none."""
    max_overhead: float | None = None
    max_latency: float | None = None
    boundaries: tuple[str, ...] = ()
    """Operators whose output is logged, forced ones included, in topological order."""
    forced: tuple[str, ...] = ()
    """Those of them that every plan has."""
    segments: tuple[PlannedSegment, ...] = ()
    spares: int | None = None
    epoch: float | None = None
    """Length of an epoch."""
    recovery_latency: Mapping[str, Latency] = field(default_factory=dict)
    """By operator; those of one segment share it."""
    recovery_phases: Mapping[str, RecoveryPhases] = field(default_factory=dict)
    """By segment."""
    results_recovery: Latency | None = None
    """Until no result is missing any more when everything is lost at once."""
    end_to_end_latency: float | None = None
    """From a row's arrival just after a batch was cut until its result is delivered."""
    overhead: float | None = None
    """CPU beyond that of the uncut pipeline, relative to it."""
    cpu: float | None = None
    """Cores in use."""
    uncut_cpu: float | None = None
    """Cores of the uncut pipeline at the longest interval offered."""
    nearest: Mapping[str, float | None] = field(default_factory=dict)
    """When infeasible: per bound asked for, the value nearest to it at which there is a plan while
    the other bounds stay; None: no value of this bound alone will do."""
    nearest_together: Mapping[str, float] = field(default_factory=dict)
    """When no bound alone is in the way: bounds that can be kept together."""


def deploy_options(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What `holdfast.pipeline.deploy.deploy` takes to run a joint plan, from the plan's JSON.

    Topologies of pipelines count in seconds, and so does a deployment's epoch.
    """
    if not plan["feasible"]:
        raise BadInputError("the plan is infeasible", hint="plan again with the nearest bounds")
    segments = plan["segments"]
    return {
        "cuts": list(plan["boundaries"]),
        "batch_epochs": {v: s["batch_epochs"] for s in segments for v in s["operators"]},
        "snapshot_batches": {v: s["snapshot_batches"] for s in segments for v in s["operators"]},
        "epoch_s": plan["epoch"],
    }


def describe(
    problem: Problem,
    found: Evaluation,
    *,
    algorithm: str,
    optimal: bool,
    bound: float | None,
    note: str,
) -> JointPlan:
    """A feasible choice as the planner's answer."""
    scale = problem.model.time_s
    epoch_s = problem.model.statistics.epoch_s
    names = [operator.name for operator in problem.topology.operators]
    prediction, segments = found.prediction, found.choice.segments
    phases = prediction.phases
    ends = {segment.root for segment in segments}
    keeps = problem.model.load.state.value > 0
    return JointPlan(
        algorithm=algorithm,
        feasible=True,
        optimal=optimal,
        objective=found.cost,
        bound=bound,
        note=note,
        boundaries=tuple(names[i] for i in problem.topology.order if i in ends),
        forced=tuple(names[i] for i in problem.topology.order if i in problem.fixed),
        segments=tuple(
            PlannedSegment(
                name=names[segment.root],
                operators=tuple(names[i] for i in segment.operators),
                batch_interval=float(prediction.interval_s[k]) / scale,
                snapshot_interval=float(prediction.interval_s[k]) * segment.snapshot_batches / scale
                if keeps[list(segment.operators)].any()
                else None,
                batch_epochs=round(float(prediction.interval_s[k]) / epoch_s),
                snapshot_batches=segment.snapshot_batches,
                batch_time=float(prediction.batch_s[k]) / scale,
            )
            for k, segment in enumerate(segments)
        ),
        spares=found.choice.spares,
        epoch=epoch_s / scale,
        recovery_latency=_in_order(
            problem,
            {
                i: Latency(median=float(phases.median[k]) / scale, p95=float(phases.p95[k]) / scale)
                for k, segment in enumerate(segments)
                for i in segment.operators
            },
        ),
        recovery_phases={
            names[segment.root]: RecoveryPhases(
                **{
                    name: float(getattr(phases, name)[k]) / scale
                    for name in ("detection", "restore", "load", "replay", "catch_up")
                }
            )
            for k, segment in enumerate(segments)
        },
        results_recovery=Latency(
            median=prediction.results[0] / scale, p95=prediction.results[1] / scale
        ),
        end_to_end_latency=prediction.end_to_end_s / scale,
        overhead=prediction.overhead,
        cpu=prediction.cpu,
        uncut_cpu=problem.uncut_cpu,
    )


def _in_order(problem: Problem, by_position: Mapping[int, Latency]) -> dict[str, Latency]:
    operators = problem.topology.operators
    return {operators[i].name: by_position[i] for i in problem.topology.order}
