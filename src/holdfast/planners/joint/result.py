"""How a choice is spelled out as a plan, in the topology's own units."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.plan import JointPlan, Latency, PlannedNode, PlannedSegment, RecoveryPhases
from holdfast.planners.joint.problem import Evaluation, Problem
from holdfast.predict.recovery import Phases
from holdfast.predict.replicas import follower_bytes


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
    phases, pace = prediction.phases, prediction.pace
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
                batch_interval=float(pace.interval_s[k]) / scale,
                snapshot_interval=float(pace.interval_s[k]) * segment.snapshot_batches / scale
                if keeps[list(segment.operators)].any()
                else None,
                batch_epochs=round(float(pace.interval_s[k]) / epoch_s),
                snapshot_batches=segment.snapshot_batches,
                batch_time=float(pace.batch_s[k]) / scale,
                replicated=segment.replicated,
            )
            for k, segment in enumerate(segments)
        ),
        nodes=_nodes(problem, found),
        spares=found.choice.spares,
        replicas=tuple(names[segment.root] for segment in segments if segment.replicated),
        replica_cpu=pace.follower_cpu,
        replica_memory=follower_bytes(problem.model.load, segments),
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
            names[segment.root]: _phases(phases, k, scale) for k, segment in enumerate(segments)
        },
        results_recovery=Latency(
            median=prediction.results[0] / scale, p95=prediction.results[1] / scale
        ),
        end_to_end_latency=pace.end_to_end_s / scale,
        overhead=pace.overhead,
        cpu=pace.cpu,
        uncut_cpu=problem.uncut_cpu,
    )


def _phases(phases: Phases, segment: int, scale: float) -> RecoveryPhases:
    names = ("detection", "restore", "load", "replay", "catch_up")
    return RecoveryPhases(**{name: float(getattr(phases, name)[segment]) / scale for name in names})


def _nodes(problem: Problem, found: Evaluation) -> tuple[PlannedNode, ...]:
    """Every node with what its death costs."""
    scale, segments = problem.model.time_s, found.choice.segments
    names = [problem.topology.operators[segment.root].name for segment in segments]
    losses = {loss.segments: loss for loss in found.prediction.losses}
    planned = []
    for node in found.choice.nodes or (tuple(range(len(segments))),):
        loss = losses.get(tuple(sorted(node)))
        if loss is None:
            planned.append(PlannedNode(segments=(), slowest=None, recovery=None, results=None))
            continue
        worst = int(loss.p95.argmax())
        planned.append(
            PlannedNode(
                segments=tuple(names[i] for i in loss.segments),
                slowest=names[loss.segments[worst]],
                recovery=Latency(
                    median=float(loss.median[worst]) / scale, p95=float(loss.p95[worst]) / scale
                ),
                results=Latency(median=loss.results[0] / scale, p95=loss.results[1] / scale),
            )
        )
    return tuple(planned)


def _in_order(problem: Problem, by_position: Mapping[int, Latency]) -> dict[str, Latency]:
    operators = problem.topology.operators
    return {operators[i].name: by_position[i] for i in problem.topology.order}
