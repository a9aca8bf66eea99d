"""The joint problem: what may be chosen, what a choice is worth, and whether it keeps the bounds.

Choose which operators' output to log, for every segment that results one batch interval out of a
few levels and one snapshot interval, whether it has hot followers, which segments share a node, and
a number of warm spares, so that no node's death breaks the bounds on the 95th percentile of every
operator's recovery and of the time until all results are there, and that end-to-end latency and CPU
overhead keep theirs, at the least cost. Cost is counted in cores: CPU beyond that of the uncut
pipeline, plus what warm spares and the nodes beyond the first take.

The levels divide one another, and no segment has a shorter interval than one it reads: it could not
run more often anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanRequest
from holdfast.predict.losses import Loss, Paced
from holdfast.predict.recovery import FloatArray, Pace, Prediction, RecoveryModel
from holdfast.predict.replicas import follower_counts
from holdfast.predict.segments import SegmentPlan
from holdfast.topology.boundaries import Reason
from holdfast.topology.graph import Topology

DEFAULT_LEVELS = (1, 2, 4, 8)
"""Batch intervals offered, epochs."""
DEFAULT_SNAPSHOTS = (1, 10, 60)
"""Snapshot intervals offered, batches."""
MAX_NODES = 64
"""Nodes that are ever chosen by themselves."""
KEPT = 512
"""Plans whose losses are remembered."""
BoolArray = NDArray[np.bool_]

SLACK = 1e-9
"""Relative tolerance of every comparison with a bound: rounding must not decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a plan must keep; infinite where nothing was asked. Seconds and shares."""

    recovery_s: float = math.inf
    overhead: float = math.inf
    latency_s: float = math.inf
    outage_s: float = math.inf


Nodes: TypeAlias = tuple[tuple[int, ...], ...]
"""Which segments share a node, by their positions."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Size:
    """How many nodes there are, spares not counted, and how many spares."""

    nodes: int
    spares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Everything a plan decides; segments upstream before downstream."""

    segments: tuple[SegmentPlan, ...]
    spares: int
    nodes: Nodes = ()
    """None given: one node has all of them."""

    @property
    def size(self) -> Size:
        return Size(nodes=max(1, len(self.nodes)), spares=self.spares)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """A choice, what it promises, and what it breaks."""

    choice: Choice
    prediction: Prediction
    cost: float
    """Cores beyond the uncut pipeline, spares and further nodes included."""
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
    nodes: int | None = 1
    """Nodes to spread segments over; None: as many as it takes."""
    max_replicas: float = 0
    """How many units may have a hot follower; 0: none."""
    _known: dict[tuple[tuple[SegmentPlan, ...], int], _Known] = field(
        default_factory=dict, init=False, repr=False
    )

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
    def most_spares(self) -> int:
        """Another one beyond these changes nothing."""
        return self.model.most_spares()

    @property
    def most_nodes(self) -> int:
        """Another one beyond these would have nothing to do, or is not wanted."""
        if self.nodes is not None:
            return self.nodes
        return min(MAX_NODES, len(self.fixed) + len(self.free))

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Numbers of nodes and spares to choose from, the cheapest first."""
        counts = range(1, self.most_nodes + 1) if self.nodes is None else (self.nodes,)
        every = [Size(nodes=n, spares=s) for n in counts for s in range(self.most_spares + 1)]
        return tuple(sorted(every, key=lambda size: (size.nodes + size.spares, size)))

    @property
    def largest(self) -> Size:
        """The size that keeps bounds if any does: as many spares and nodes as can help."""
        return Size(nodes=self.most_nodes, spares=self.most_spares)

    def cost(self, cpu: float, size: Size) -> float:
        more = size.spares + size.nodes - 1
        return float(cpu - self.uncut_cpu + more * self.model.machine.spare_cost.value)

    def with_bounds(self, bounds: Bounds) -> Problem:
        return self._sharing(replace(self, bounds=bounds))

    def with_replicas(self, most: float) -> Problem:
        return self._sharing(replace(self, max_replicas=most))

    def _sharing(self, other: Problem) -> Problem:
        """What plans promise does not depend on what is asked of them: both remember it."""
        object.__setattr__(other, "_known", self._known)
        return other

    def pace(self, segments: Sequence[SegmentPlan], *, at_cpu: float | None = None) -> Pace:
        return self.model.pace(segments, uncut_cpu=self.uncut_cpu, at_cpu=at_cpu)

    def known(self, segments: tuple[SegmentPlan, ...], spares: int) -> _Known:
        """What is known already of the losses of a plan's nodes."""
        key = (segments, spares)
        if key not in self._known:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            pace = self.pace(segments)
            self._known[key] = _Known(pace=pace, spares=spares, model=self.model, of=segments)
        return self._known[key]

    def evaluate(self, choice: Choice) -> Evaluation:
        """What a choice promises and which bounds it breaks."""
        known = self.known(choice.segments, choice.spares)
        nodes = [node for node in choice.nodes if node] or [tuple(range(len(choice.segments)))]
        prediction = self.model.predicted(known.pace, [known.loss(node) for node in nodes])
        return Evaluation(
            choice=choice,
            prediction=prediction,
            cost=self.cost(prediction.pace.cpu, choice.size),
            broken=self._broken(choice, prediction),
        )

    def broken(self, found: Evaluation) -> tuple[str, ...]:
        """What a choice that was looked at under other bounds breaks of these."""
        return self._broken(found.choice, found.prediction)

    def _broken(self, choice: Choice, prediction: Prediction) -> tuple[str, ...]:
        return (
            *self.broken_pace(choice.segments, prediction.pace),
            *self._broken_losses(choice.segments, prediction),
        )

    def surely_broken(self, choice: Choice) -> bool:
        """Whether a choice is soon seen to break a bound; if not, it may break one all the same."""
        known = self.known(choice.segments, choice.spares)
        if self.broken_pace(choice.segments, known.pace):
            return True
        bounds = [self.segment_bound(segment) for segment in choice.segments]
        limits = [bound + SLACK * max(1.0, abs(bound)) for bound in bounds]
        nodes = [node for node in choice.nodes if node] or [tuple(range(len(choice.segments)))]
        return any(known.surely_above(node, limits) for node in nodes)

    def broken_pace(self, segments: Sequence[SegmentPlan], pace: Pace) -> list[str]:
        """What a plan breaks as long as nothing is wrong, in words."""
        found = []
        name = [operator.name for operator in self.topology.operators]
        if not pace.cpu < self.model.machine.cores:
            cores = self.model.machine.cores
            found.append(f"it needs {pace.cpu:.3g} cores and the machine has {cores}")
        for i, segment in enumerate(segments):
            level = int(np.searchsorted(self.levels, pace.interval_s[i] * (1 - SLACK)))
            if not self.level_allowed[list(segment.operators), level].all():
                found.append(f"{name[segment.root]} may not have so long a batch interval")
            if not within(pace.batch_s[i], pace.interval_s[i]):
                found.append(f"{name[segment.root]} does not keep up")
        followers = sum(follower_counts(self.model.load.shards, segments))
        if followers > self.max_replicas:
            found.append(f"it needs {followers} replicas and may have {self.max_replicas:g}")
        if not within(pace.overhead, self.bounds.overhead):
            found.append("it takes too much CPU")
        if not within(pace.end_to_end_s, self.bounds.latency_s):
            found.append("results come too late")
        return found

    def segment_bound(self, segment: SegmentPlan) -> float:
        """The bound on its recovery: that of the operator with the tightest one."""
        return float(self.recovery_bound[list(segment.operators)].min())

    def _broken_losses(
        self, segments: Sequence[SegmentPlan], prediction: Prediction
    ) -> Iterator[str]:
        for i, segment in enumerate(segments):
            if not within(prediction.phases.p95[i], self.segment_bound(segment)):
                yield f"{self.topology.operators[segment.root].name} recovers too slowly"
        if not within(prediction.results[1], self.bounds.outage_s):
            yield "results stay away too long"


@dataclass(slots=True, kw_only=True, eq=False)
class _Known:
    """The losses of one plan's nodes, each worked out once."""

    pace: Pace
    spares: int
    model: RecoveryModel
    of: tuple[SegmentPlan, ...]
    _paced: Paced | None = None
    _losses: dict[tuple[int, ...], Loss] = field(default_factory=dict)

    def loss(self, node: Sequence[int]) -> Loss:
        """What the death of a node costs that has these segments."""
        key = tuple(sorted(node))
        if key not in self._losses:
            self._losses[key] = self.model.loss(key, self._as_paced(), self.pace, self.spares)
        return self._losses[key]

    def surely_above(self, node: Sequence[int], limits: Sequence[float]) -> bool:
        """Whether few failures tell that a segment takes longer than its limit."""
        key = tuple(sorted(node))
        if key in self._losses:
            return any(
                p95 > limits[i] for i, p95 in zip(key, self._losses[key].p95.tolist(), strict=True)
            )
        found = self.model.loss_within(key, self._as_paced(), self.pace, self.spares, limits)
        if found is not None:
            self._losses[key] = found
        return found is None

    def _as_paced(self) -> Paced:
        if self._paced is None:
            self._paced = self.model.paced(self.of, self.pace)
        return self._paced


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
            outage_s=_bound(request.max_outage, scale, "--max-outage"),
        ),
        nodes=_nodes(request.nodes),
        max_replicas=_most_replicas(request.max_replicas),
    )


def _most_replicas(asked: int | None) -> int:
    if asked is not None and asked < 0:
        raise BadInputError(f"is {asked}", where="--max-replicas", hint="write 0 or more")
    return asked or 0


def _nodes(asked: int | None) -> int | None:
    if asked is not None and asked < 1:
        raise BadInputError(f"is {asked}", where="--nodes", hint="write 1 or more, or auto")
    return asked


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
