"""Whether what a plan promises still holds for what runs now.

The plan is predicted again, with the samples of its run in the place of numbers that have changed
(`refine`). A bound that was asked for is broken when the 95th percentile is beyond it; where none
was asked for, when it is `TOLERANCE` beyond what was predicted. A broken one counts as kept again
only when it is kept by `EASE`, so that a promise on the edge is not called broken and kept in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from holdfast.learning.refine import Drift, Expected, lost_together, refined
from holdfast.learning.samples import Learned
from holdfast.plan import JointPlan
from holdfast.predict.recovery import Prediction, RecoveryModel
from holdfast.predict.segments import SegmentPlan, inputs_of
from holdfast.predict.statistics import Statistics
from holdfast.quantities import TIME_UNITS
from holdfast.topology.graph import Topology

TOLERANCE = 0.2
EASE = 0.1
RESULTS = "all results"
"""What a bound on the outage is about; no segment has such a name."""
_REASONS = 2
"""Reasons that a warning names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A promise that what runs now would not keep, seconds."""

    now_s: float
    """95th percentile as predicted now."""
    bound_s: float

    @property
    def words(self) -> str:
        now = "for ever" if np.isinf(self.now_s) else f"{self.now_s:.2g} s (p95)"
        return f"{now}, promised {self.bound_s:.2g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the promise of a plan stands with what runs now."""

    statistics: Statistics
    drifts: tuple[Drift, ...]
    broken: Mapping[str, Broken] = field(default_factory=dict)
    """By segment, or `RESULTS`."""

    @property
    def warning(self) -> str | None:
        """One line: what is promised no longer, and why; None: the promise holds."""
        if not self.broken:
            return None
        worst = max(self.broken, key=lambda name: self.broken[name].now_s)
        others = len(self.broken) - 1
        more = f" and {others} more" if others else ""
        why = "; ".join(one.words for one in self.reasons[:_REASONS])
        return (
            f"the promise no longer holds: {worst}{more} would take {self.broken[worst].words}"
            f"{f' because of {why}' if why else ''}"
        )

    @property
    def reasons(self) -> tuple[Drift, ...]:
        """What has become worse, of the broken segments first."""
        worse = [one for one in self.drifts if one.worse]
        return tuple(sorted(worse, key=lambda one: one.segment not in self.broken))


def standing(
    topology: Topology,
    statistics: Statistics,
    plan: JointPlan,
    learned: Learned,
    broken_before: Collection[str] = (),
) -> Standing:
    """What a plan promises with what was learned in the place of what was profiled."""
    nodes = [node.segments for node in plan.nodes] or [tuple(one.name for one in plan.segments)]
    telling = Learned(
        segments=learned.segments, recoveries=lost_together(learned.recoveries, nodes)
    )
    now, drifts = refined(statistics, partial(expectations, topology, plan), telling)
    if not drifts:
        return Standing(statistics=now, drifts=())
    return Standing(
        statistics=now,
        drifts=drifts,
        broken=_broken(topology, now, plan, broken_before),
    )


def _broken(
    topology: Topology, now: Statistics, plan: JointPlan, before: Collection[str]
) -> dict[str, Broken]:
    found, scale = predicted(topology, now, plan), seconds_per_unit(topology)
    promises = []
    for i, segment in enumerate(plan.segments):
        asked = plan.max_recovery
        promised = plan.recovery_latency[segment.name].p95 * (1 + TOLERANCE)
        bound = (promised if asked is None else asked) * scale
        promises.append((segment.name, float(found.phases.p95[i]), bound))
    if plan.max_outage is not None:
        promises.append((RESULTS, found.results[1], plan.max_outage * scale))
    return {
        name: Broken(now_s=p95, bound_s=bound)
        for name, p95, bound in promises
        if p95 > bound * (1 - EASE if name in before else 1 + 1e-6)
    }


def expectations(
    topology: Topology, plan: JointPlan, statistics: Statistics
) -> dict[str, Expected]:
    """What statistics make one expect of each segment of a plan."""
    model = RecoveryModel(topology, statistics)
    segments = segment_plans(topology, plan)
    pace = model.pace(segments, uncut_cpu=_uncut(model, segments))
    # A run counts a batch from when its input is there, as a model counts its lag.
    paced = model.paced(segments, pace)
    overloaded = not pace.cpu < model.machine.cores
    stretch = 1.0 if overloaded else float(model.stretch(pace.cpu))
    work = np.median(paced.drawn.work, axis=1) * pace.interval_s * stretch
    fixed = np.median(paced.drawn.fixed, axis=1) * stretch
    scale = seconds_per_unit(topology)
    names, inputs = [one.name for one in plan.segments], inputs_of(topology, segments)
    found = {}
    for i, segment in enumerate(segments):
        inside = set(segment.operators)
        read = [u for v in inside for u in topology.upstream[v] if u not in inside]
        read += [v for v in inside if not topology.upstream[v]]
        planned = plan.segments[i]
        found[planned.name] = Expected(
            operators=planned.operators,
            reads=tuple(names[j] for j in inputs[i]),
            rate_in=sum(float(model.load.emitted.value[u]) for u in read),
            batch_s=float(fixed[i] + work[i]),
            state_bytes=float(model.load.state.value[list(segment.operators)].sum()),
            restore_s=plan.recovery_phases[planned.name].restore * scale,
            overloaded=overloaded,
        )
    return found


def predicted(topology: Topology, statistics: Statistics, plan: JointPlan) -> Prediction:
    """What a plan promises with these statistics."""
    model = RecoveryModel(topology, statistics)
    segments = segment_plans(topology, plan)
    place = {segment.name: i for i, segment in enumerate(plan.segments)}
    nodes = [[place[name] for name in node.segments] for node in plan.nodes] or None
    uncut = _uncut(model, segments)
    return model.predict(segments, plan.spares or 0, uncut_cpu=uncut, nodes=nodes)


def segment_plans(topology: Topology, plan: JointPlan) -> list[SegmentPlan]:
    """A plan's segments as the model wants them."""
    scale = seconds_per_unit(topology)
    return [
        SegmentPlan(
            operators=tuple(topology.index[name] for name in segment.operators),
            interval_s=segment.batch_interval * scale,
            snapshot_batches=segment.snapshot_batches,
            replicated=segment.replicated,
        )
        for segment in plan.segments
    ]


def seconds_per_unit(topology: Topology) -> float:
    """Plans count in the topology's unit of time."""
    return TIME_UNITS[topology.unit.time]


def _uncut(model: RecoveryModel, segments: list[SegmentPlan]) -> float:
    return model.uncut_cpu(segments[0].interval_s, segments[0].snapshot_batches)
