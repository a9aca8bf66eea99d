"""What a plan promised against what was measured: the deciding part of `holdfast prove`, pure.

**When is a unit recovered?** When nothing is missing any more that would be there without the
fault. The slice log alone tells: a slice that ends at epoch e can be made when e is over and the
slices that it is made of are there, and in normal times comes a known lag later. So nothing is
missing once a slice of the new generation came before the next one would have come without the
fault: less than a batch interval and the normal lag after it could be made. Of the slices up to
there, the last that came late ends the recovery; if none came late, the first slice does. That
batches may go on to be slower than before, on a machine that warms a new spare, is not missing
data.

While there is nothing to make a unit that runs again only waits; that is no recovery, so it does
not count, and a long batch interval does not make recoveries longer.

**When are results complete again?** A unit that reads from another one which was lost too waits for
that one's slices. To whoever reads the results that is no excuse: `complete` is the same measure
with a slice due when its epoch is over, whatever its inputs. No result is later than normal by more
than that.

**Normal** are the slices before the fault, without those of earlier recoveries. A slice is late
above their 95th percentile and a tolerance of a quarter of it, at least 0.15 s.

**Was the bound kept?** The plan bounds the 95th percentile, so one recovery in twenty may take
longer. Of n recoveries of a segment k broke the bound; if one in twenty breaks it, k or more do so
with probability P(Binomial(n, 1/20) >= k). At 5% or less, divided by the number of segments that
are judged at once, that is no bad luck: the plan's promise is refuted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.deployment import Deployment, UnitId
from holdfast.errors import BadInputError
from holdfast.plan import JointPlan, Latency, Plan

PLANNED_SHARE = 1 / 20
"""How often a bound on the 95th percentile may be broken."""
SIGNIFICANCE = 0.05
TOLERANCE = 0.25
"""Of the normal lag's 95th percentile."""
TOLERANCE_S = 0.15
PHASES = ("detection", "restore", "replay", "catch_up")
PHASE_NAMES = {
    "detection": "detection",
    "restore": "restore",
    "replay": "load and replay",
    "catch_up": "catch-up",
}


# -- measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSlice:
    """One published slice, as its record tells."""

    number: int
    after: int
    upto: int
    generation: int
    put_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the slices of one unit are due."""

    origin: float
    """When epoch 0 began, seconds since 1970."""
    epoch_s: float
    batch_epochs: int

    @property
    def interval_s(self) -> float:
        return self.batch_epochs * self.epoch_s

    inputs: Sequence[Sequence[SeenSlice]] = ()
    """What the units have published that it reads from, and may go on to publish."""

    def due(self, epoch: int) -> float:
        """When an epoch is over and its input is there, as far as that was seen."""
        when = self.origin + (epoch + 1) * self.epoch_s
        for slices in self.inputs:
            at = bisect_left(slices, epoch, key=lambda item: item.upto)
            if at < len(slices) and slices[at].after < epoch:
                when = max(when, slices[at].put_at)
        return when

    def lag(self, item: SeenSlice) -> float:
        """How long after its last epoch was due a slice came."""
        return item.put_at - self.due(item.upto)

    def delay(self, item: SeenSlice) -> float:
        """The same after the first batch interval in it: a unit that is behind takes several."""
        first = ((item.after + 1) // self.batch_epochs + 1) * self.batch_epochs - 1
        return item.put_at - self.due(min(first, item.upto))

    @property
    def whatever_the_inputs(self) -> Pace:
        """The same with everything due when its epoch is over."""
        return replace(self, inputs=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """The lag of a unit when nothing is wrong, seconds."""

    median: float
    p95: float
    slices: int

    @property
    def limit(self) -> float:
        """Above this a slice is late."""
        return self.p95 + max(TOLERANCE_S, TOLERANCE * self.p95)

    @classmethod
    def of(cls, pace: Pace, calm: Sequence[SeenSlice]) -> Normal:
        delays = [pace.delay(item) for item in calm]
        return cls(median=percentile(delays, 50), p95=percentile(delays, 95), slices=len(delays))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What happened to one unit, as far as others than the log must tell; seconds since 1970."""

    unit: str
    killed_at: float
    generation: int
    """The one that was killed."""
    detected_at: float | None = None
    restored_at: float | None = None
    """By the coordinator's record of the recovery."""
    caught_up_at: float | None = None
    hot: bool = False
    """Another replica was left to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One recovery of one unit, seconds after the kill."""

    fault: int
    """Number of the fault, from 0."""
    unit: str
    killed_at: float
    seconds: float | None
    """Until nothing was missing any more, `waited` not counted; None: that was not seen."""
    waited: float = 0.0
    """How long the unit ran again and nothing was due."""
    settled: float | None = None
    """Until the slice after which nothing was missing, `waited` included."""
    complete: float | None = None
    """`seconds` with the waiting for inputs that were lost too."""
    caught_up: float | None = None
    """Until the coordinator saw progress beyond the failure."""
    late_slices: int = 0
    phases: Mapping[str, float] | None = None
    """What `seconds` was spent on, by `PHASES`."""
    hot: bool = False
    """A follower went on; `seconds`: by how much a slice was later than usual."""
    next_slice: float | None = None
    """Then, until its next slice, which may not have been due before."""

    @property
    def segment(self) -> str:
        return UnitId.parse(self.unit).segment

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "unit": self.unit,
            "killed_at": self.killed_at,
            "recovery": self.seconds,
            "waited": self.waited,
            "settled": self.settled,
            "complete": self.complete,
            "caught_up": self.caught_up,
            "late_slices": self.late_slices,
            "phases": None if self.phases is None else dict(self.phases),
            "hot": self.hot,
            "next_slice": self.next_slice,
        }


def measure(
    fault: int, failure: Failure, pace: Pace, normal: Normal, slices: Sequence[SeenSlice]
) -> Recovered:
    """The recovery of a unit, from the slices it has published, in order."""
    fresh = [item for item in slices if item.generation > failure.generation]
    late: list[SeenSlice] = []
    settled: SeenSlice | None = None
    for item in fresh:
        if pace.delay(item) > normal.limit:
            late.append(item)
        if pace.lag(item) <= pace.interval_s + normal.median:
            settled = item
            break

    def since(at: float | None) -> float | None:
        return None if at is None else max(0.0, at - failure.killed_at)

    if settled is None:
        return Recovered(
            fault=fault,
            unit=failure.unit,
            killed_at=failure.killed_at,
            seconds=None,
            caught_up=since(failure.caught_up_at),
            late_slices=len(late),
        )
    first = fresh[0]
    # A unit publishes only once it runs, whenever the coordinator came to hear of it.
    restored = min(failure.restored_at or first.put_at, first.put_at)
    due = first.put_at - max(0.0, pace.delay(first))
    waited = max(0.0, due - max(restored, failure.killed_at))
    ended = late[-1].put_at if late else first.put_at
    detected = failure.detected_at if failure.detected_at is not None else restored
    stones = [failure.killed_at, detected, restored, first.put_at - waited, ended - waited]
    for i in range(1, len(stones)):
        stones[i] = min(max(stones[i - 1], stones[i]), max(stones[-1], failure.killed_at))
    return Recovered(
        fault=fault,
        unit=failure.unit,
        killed_at=failure.killed_at,
        seconds=stones[-1] - stones[0],
        waited=waited,
        settled=since(settled.put_at),
        caught_up=since(failure.caught_up_at),
        late_slices=len(late),
        phases={name: stones[i + 1] - stones[i] for i, name in enumerate(PHASES)},
    )


def paces(
    deployment: Deployment, origin: float, slices: Mapping[str, Sequence[SeenSlice]]
) -> dict[str, Pace]:
    """Of every unit that publishes; a segment runs no more often than its slowest input.

    `slices` are those of every unit, which may go on to grow.
    """
    span: dict[str, int] = {}
    found: dict[str, Pace] = {}
    for segment in deployment.segments:
        inputs = [span[deployment.producer(name).name] for name in segment.inputs]
        span[segment.name] = max([segment.batch_epochs, *inputs])
        if segment.outputs:
            pace = Pace(
                origin=origin,
                epoch_s=deployment.epoch_s,
                batch_epochs=span[segment.name],
                inputs=[
                    slices[str(UnitId(segment=producer.name, shard=shard))]
                    for producer in map(deployment.producer, segment.inputs)
                    for shard in range(producer.shards)
                ],
            )
            for shard in range(segment.shards):
                found[str(UnitId(segment=segment.name, shard=shard))] = pace
    return found


# -- promised against measured --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a plan says of the recovery of one segment, seconds; None: it does not say."""

    segment: str
    operators: tuple[str, ...]
    bound: float
    median: float | None = None
    p95: float | None = None
    phases: Mapping[str, float] | None = None


def promises(deployment: Deployment, plan: Plan, max_recovery: float | None) -> list[Promise]:
    """The plan's promises for every segment that publishes, in topological order.

    The bound is the plan's own, else the one given, else the predicted 95th percentile.
    """
    joint = plan if isinstance(plan, JointPlan) else None
    bound = joint.max_recovery if joint is not None else None
    bound = max_recovery if bound is None else bound
    found = []
    for segment in deployment.segments:
        if not segment.outputs:
            continue
        said = joint.recovery_latency.get(segment.name) if joint is not None else None
        limit = bound if bound is not None else _p95(said)
        if limit is None:
            raise BadInputError(
                "the plan bounds no recovery time", where=segment.name, hint="give --max-recovery"
            )
        found.append(
            Promise(
                segment=segment.name,
                operators=segment.operators,
                bound=limit,
                median=None if said is None else said.median,
                p95=_p95(said),
                phases=_predicted_phases(joint, segment.name),
            )
        )
    return found


def _p95(said: Latency | None) -> float | None:
    return None if said is None else said.p95


def _predicted_phases(plan: JointPlan | None, segment: str) -> dict[str, float] | None:
    said = None if plan is None else plan.recovery_phases.get(segment)
    if said is None:
        return None
    return {
        "detection": said.detection,
        "restore": said.restore,
        "replay": said.load + said.replay,
        "catch_up": said.catch_up,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One segment: its promise, its recoveries and whether the two agree."""

    promise: Promise
    recoveries: tuple[Recovered, ...]

    @property
    def seconds(self) -> list[float]:
        return [item.seconds for item in self.recoveries if item.seconds is not None]

    @property
    def median(self) -> float | None:
        return percentile(self.seconds, 50) if self.seconds else None

    @property
    def p95(self) -> float | None:
        return percentile(self.seconds, 95) if self.seconds else None

    @property
    def phases(self) -> dict[str, float] | None:
        """The median of each; so they need not add up to the median of the whole."""
        known = [item.phases for item in self.recoveries if item.phases is not None]
        if not known:
            return None
        return {name: percentile([phases[name] for phases in known], 50) for name in PHASES}

    @property
    def broken(self) -> int:
        """Recoveries that took longer than the bound, or never ended."""
        return sum(
            item.seconds is None or item.seconds > self.promise.bound for item in self.recoveries
        )

    @property
    def chance(self) -> float:
        """Of so many broken bounds or more, if the bound holds as planned."""
        return binomial_tail(len(self.recoveries), self.broken, PLANNED_SHARE)

    @property
    def error(self) -> float | None:
        """By how much the predicted median misses the measured one, relative to that."""
        if self.median is None or self.promise.median is None or self.median == 0:
            return None
        return (self.promise.median - self.median) / self.median

    def to_json(self) -> dict[str, Any]:
        return {
            "segment": self.promise.segment,
            "operators": list(self.promise.operators),
            "bound": self.promise.bound,
            "predicted": {
                "median": self.promise.median,
                "p95": self.promise.p95,
                "phases": self.promise.phases and dict(self.promise.phases),
            },
            "measured": {
                "n": len(self.recoveries),
                "median": self.median,
                "p95": self.p95,
                "phases": self.phases,
            },
            "error": self.error,
            "broken": self.broken,
            "chance": self.chance,
        }


def compare(promised: Sequence[Promise], recoveries: Sequence[Recovered]) -> tuple[Comparison, ...]:
    """Recoveries of all units of a segment against what was promised for it."""
    return tuple(
        Comparison(
            promise=promise,
            recoveries=tuple(item for item in recoveries if item.segment == promise.segment),
        )
        for promise in promised
    )


RESULTS = "all results"


def complete_again(plan: Plan, comparisons: Sequence[Comparison]) -> Comparison:
    """When no result was missing any more after each fault, against what the plan says of it.

    The plan bounds recoveries and predicts this; it is shown beside them and not judged.
    """
    said = plan.results_recovery if isinstance(plan, JointPlan) else None
    faults: dict[int, list[Recovered]] = {}
    for comparison in comparisons:
        for item in comparison.recoveries:
            faults.setdefault(item.fault, []).append(item)
    return Comparison(
        promise=Promise(
            segment=RESULTS,
            operators=(RESULTS,),
            bound=max((item.promise.bound for item in comparisons), default=0.0),
            median=None if said is None else said.median,
            p95=_p95(said),
        ),
        recoveries=tuple(
            Recovered(
                fault=number,
                unit=str(UnitId(segment=RESULTS)),
                killed_at=hit[0].killed_at,
                seconds=None
                if any(item.complete is None for item in hit)
                else max(item.complete for item in hit if item.complete is not None),
            )
            for number, hit in sorted(faults.items())
        ),
    )


def bound_kept(comparisons: Sequence[Comparison]) -> bool:
    """Whether no segment broke its bound more often than planned; see the module's rule."""
    judged = [item for item in comparisons if item.recoveries]
    return not any(_refuted(item.chance, len(judged)) for item in judged)


def as_planned(comparisons: Sequence[Comparison]) -> bool:
    """Whether no segment broke its bound more often than one time in twenty, luck or not."""
    return all(item.broken <= PLANNED_SHARE * len(item.recoveries) for item in comparisons)


def most_broken(recoveries: int, judged: int = 1) -> int:
    """How many of so many recoveries may break the bound before it counts as refuted."""
    chances = (binomial_tail(recoveries, k + 1, PLANNED_SHARE) for k in range(recoveries))
    judged = max(1, judged)
    return next((k for k, chance in enumerate(chances) if _refuted(chance, judged)), recoveries)


def _refuted(chance: float, judged: int) -> bool:
    # One recovery that breaks its bound has a chance of exactly 5%, which rounding must not decide.
    return chance <= SIGNIFICANCE / judged * (1 + 1e-9)


def binomial_tail(n: int, k: int, p: float) -> float:
    """P(X >= k) for a binomial X."""
    if k <= 0:
        return 1.0
    terms = [_binomial(n, i, p) for i in range(k, n + 1)]
    return min(1.0, math.fsum(terms))


def _binomial(n: int, k: int, p: float) -> float:
    """P(X = k), by logarithms: the binomial coefficient alone may be larger than any float."""
    if p <= 0 or p >= 1:
        return float(k == (0 if p <= 0 else n))
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def percentile(values: Sequence[float], share: float) -> float:
    """Of a sample, interpolated."""
    return float(np.percentile(np.asarray(values, float), share))
