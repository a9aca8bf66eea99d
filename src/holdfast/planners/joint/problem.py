"""The joint problem: what may be chosen, what a choice is worth, and whether it keeps the bounds.

Choose which operators' output to log, for every segment that results one batch interval out of a
few levels and one snapshot interval, whether it has hot followers, and a number of warm spares, so
that the 95th percentile of
every operator's recovery, the end-to-end latency and the CPU overhead keep their bounds, at the
least cost. Cost is counted in cores: CPU beyond that of the uncut pipeline, plus what warm spares
take.

The levels divide one another, and no segment has a shorter interval than one it reads: it could not
run more often anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanRequest
from holdfast.predict.recovery import FloatArray, Prediction, RecoveryModel
from holdfast.predict.replicas import follower_counts, predict_replicated
from holdfast.predict.segments import SegmentPlan
from holdfast.topology.boundaries import Reason
from holdfast.topology.graph import Topology

DEFAULT_LEVELS = (1, 2, 4, 8)
"""Batch intervals offered, epochs."""
DEFAULT_SNAPSHOTS = (1, 10, 60)
"""Snapshot intervals offered, batches."""
BoolArray = NDArray[np.bool_]

SLACK = 1e-9
"""Relative tolerance of every comparison with a bound: rounding must not decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a plan must keep; infinite where nothing was asked. Seconds and shares."""

    recovery_s: float = math.inf
    overhead: float = math.inf
    latency_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Everything a plan decides; segments upstream before downstream."""

    segments: tuple[SegmentPlan, ...]
    spares: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """A choice, what it promises, and what it breaks."""

    choice: Choice
    prediction: Prediction
    cost: float
    """Cores beyond the uncut pipeline, spares included."""
    broken: tuple[str, ...]
    """What it breaks, in words; empty: it is feasible."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One topology with its model, the levels offered and the bounds."""

    topology: Topology
    model: RecoveryModel
    epochs: tuple[int, ...]
    """Batch intervals offered, ascending, in epochs; each divides the next."""
    snapshots: tuple[int, ...]
    """Snapshot intervals offered, ascending, in batches."""
    fixed: dict[int, Reason]
    """Boundaries of every plan: forced, or required by the request."""
    forbidden: frozenset[int]
    """Operators that must be fused with their consumer."""
    bounds: Bounds
    max_replicas: float = 0
    """How many units may have a hot follower; 0: none."""

    @property
    def size(self) -> int:
        return len(self.topology.operators)

    @cached_property
    def levels(self) -> FloatArray:
        """Batch intervals in seconds, ascending."""
        return np.array(self.epochs, float) * self.model.statistics.epoch_s

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Operators whose output may be logged or not, in topological order."""
        return tuple(
            i for i in self.topology.order if i not in self.fixed and i not in self.forbidden
        )

    @cached_property
    def uncut_cpu(self) -> float:
        """Cores of the cheapest deployment: forced boundaries only, longest intervals."""
        return self.model.uncut_cpu(float(self.levels[-1]), self.snapshots[-1])

    @cached_property
    def recovery_bound(self) -> FloatArray:
        """Per operator, the bound on its recovery."""
        own = [operator.max_recovery for operator in self.topology.operators]
        scale = self.model.time_s
        return np.array(
            [
                min(self.bounds.recovery_s, math.inf if bound is None else bound * scale)
                for bound in own
            ]
        )

    @cached_property
    def level_allowed(self) -> BoolArray:
        """Per operator and level, whether its batches may be that long."""
        least = np.array([op.min_interval for op in self.topology.operators]) * self.model.time_s
        allowed = self.levels[None, :] >= least[:, None] * (1 - SLACK)
        for name, found in self.model.statistics.operators.items():
            if found.one_epoch_per_batch:
                allowed[self.topology.index[name], np.array(self.epochs) > 1] = False
        return allowed

    @property
    def cpu_limit(self) -> float:
        """Cores a plan may take under the overhead bound."""
        return self.uncut_cpu * (1 + self.bounds.overhead) if self.uncut_cpu else math.inf

    @property
    def spare_options(self) -> range:
        return range(self.model.most_spares() + 1)

    def cost(self, cpu: float, spares: int) -> float:
        return float(cpu - self.uncut_cpu + spares * self.model.machine.spare_cost.value)

    def with_bounds(self, bounds: Bounds) -> Problem:
        return replace(self, bounds=bounds)

    def with_replicas(self, most: float) -> Problem:
        return replace(self, max_replicas=most)

    def predict(self, choice: Choice, *, at_cpu: float | None = None) -> Prediction:
        return predict_replicated(
            self.model, choice.segments, choice.spares, uncut_cpu=self.uncut_cpu, at_cpu=at_cpu
        )

    def evaluate(self, choice: Choice) -> Evaluation:
        """What a choice promises and which bounds it breaks."""
        prediction = self.predict(choice)
        return Evaluation(
            choice=choice,
            prediction=prediction,
            cost=self.cost(prediction.cpu, choice.spares),
            broken=tuple(self._broken(choice, prediction)),
        )

    def _broken(self, choice: Choice, prediction: Prediction) -> list[str]:
        found = []
        name = [operator.name for operator in self.topology.operators]
        if not prediction.cpu < self.model.machine.cores:
            cores = self.model.machine.cores
            found.append(f"it needs {prediction.cpu:.3g} cores and the machine has {cores}")
        for i, segment in enumerate(choice.segments):
            level = int(np.searchsorted(self.levels, prediction.interval_s[i] * (1 - SLACK)))
            if not self.level_allowed[list(segment.operators), level].all():
                found.append(f"{name[segment.root]} may not have so long a batch interval")
            if not within(prediction.batch_s[i], prediction.interval_s[i]):
                found.append(f"{name[segment.root]} does not keep up")
            if not within(
                prediction.phases.p95[i], min(self.recovery_bound[list(segment.operators)])
            ):
                found.append(f"{name[segment.root]} recovers too slowly")
        followers = sum(follower_counts(self.model, choice.segments))
        if followers > self.max_replicas:
            found.append(f"it needs {followers} replicas and may have {self.max_replicas:g}")
        if not within(prediction.overhead, self.bounds.overhead):
            found.append("it takes too much CPU")
        if not within(prediction.end_to_end_s, self.bounds.latency_s):
            found.append("results come too late")
        return found


def within(value: float, bound: float) -> bool:
    """Whether a value keeps a bound, rounding aside; an infinite value keeps none."""
    return bool(value < math.inf and value <= bound + SLACK * max(1.0, abs(bound)))


def make_problem(topology: Topology, request: PlanRequest) -> Problem:
    """The problem a request poses, or one clear line why it cannot be posed."""
    model = RecoveryModel(topology, request.statistics)
    fixed: dict[int, Reason] = dict(model.forced)
    for name in request.required:
        fixed.setdefault(_position(topology, name, "--required"), "required")
    forbidden = {
        i
        for i, operator in enumerate(topology.operators)
        if operator.backup == "forbidden" and topology.downstream[i]
    }
    forbidden |= {_position(topology, name, "--forbidden") for name in request.forbidden}
    for i in sorted(forbidden & fixed.keys()):
        raise BadInputError(
            f"the output of {topology.operators[i].name!r} is logged in every plan ({fixed[i]})",
            where="--forbidden",
            hint="allow it",
        )
    scale = model.time_s
    return Problem(
        topology=topology,
        model=model,
        epochs=_epochs(request.intervals, scale, model.statistics.epoch_s),
        snapshots=_snapshots(request.snapshots),
        fixed=fixed,
        forbidden=frozenset(forbidden),
        bounds=Bounds(
            recovery_s=_bound(request.max_recovery, scale, "--max-recovery"),
            overhead=_bound(request.max_overhead, 1.0, "--max-overhead"),
            latency_s=_bound(request.max_latency, scale, "--max-latency"),
        ),
        max_replicas=_most_replicas(request.max_replicas),
    )


def _position(topology: Topology, name: str, where: str) -> int:
    if name not in topology.index:
        raise BadInputError(
            f"there is no operator {name!r}",
            where=where,
            hint="joint plans are made per operator: name one of the file's operators",
        )
    return topology.index[name]


def _bound(value: float | None, scale: float, where: str) -> float:
    if value is None:
        return math.inf
    if math.isnan(value) or value < 0:
        raise BadInputError(f"is {value:g}", where=where, hint="write a number of 0 or more")
    return value * scale


def _most_replicas(asked: int | None) -> int:
    if asked is not None and asked < 0:
        raise BadInputError(f"is {asked}", where="--max-replicas", hint="write 0 or more")
    return asked or 0


def _epochs(intervals: Sequence[float], scale: float, epoch_s: float) -> tuple[int, ...]:
    if not intervals:
        return DEFAULT_LEVELS
    counts = []
    for interval in intervals:
        count = round(interval * scale / epoch_s)
        if count < 1 or not math.isclose(count * epoch_s, interval * scale, rel_tol=1e-6):
            raise BadInputError(
                f"{interval:g} is not a whole number of epochs of {epoch_s / scale:g}",
                where="--intervals",
                hint="write multiples of the epoch",
            )
        counts.append(count)
    ordered = sorted(set(counts))
    for short, long in pairwise(ordered):
        if long % short:
            raise BadInputError(
                f"{short} epochs do not divide {long} epochs",
                where="--intervals",
                hint="write intervals that divide one another, such as 1,2,4,8",
            )
    return tuple(ordered)


def _snapshots(batches: Sequence[int]) -> tuple[int, ...]:
    for count in batches:
        if count < 1:
            raise BadInputError(f"is {count}", where="--snapshots", hint="write 1 or more batches")
    return tuple(sorted(set(batches))) or DEFAULT_SNAPSHOTS
