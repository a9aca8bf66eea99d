"""How long recovery takes, how old results are and what it all costs, for a given plan on Spark.

A plan cuts a topology into segments, each one streaming query per shard with a batch interval T and
a snapshot every n batches, says which of them share a node, and keeps s spares warm. The model, all
of it in seconds and cores:

- **CPU.** Work per second (operators, bytes through slices and changelogs) does not depend on T; a
  batch costs a fixed amount, so that is divided by T; a snapshot by n T.
- **Contention** when nothing is wrong: at a load of L cores out of c, everything that computes
  takes 1 / (1 - (L/c)^c) times as long: exact for the M/M/1 and M/M/2 queue, close above. This is
  how parallel branches on few cores add up.
- **A batch** takes P = stretch * (fixed + work * T) in the slowest shard.
- **Recovery.** When a node dies, what it ran is lost together. Failures are drawn from what was
  measured (`draws`): how long each phase takes, where in a batch interval and between two snapshots
  it strikes, whether a spare is left (with failures at rate f and a refill time of r there is none
  with probability P(Poisson(f r) >= s)). For each of them the units are brought back over the
  actual cores in the actual order (`takeover`, `sharing`): build, plan, load state, make up for
  what was lost, catch up. Median and 95th percentile are those of the draws.
- **End to end**: a row that just missed a batch waits T, then passes every batch on its way. The
  intervals of a plan divide one another, and a segment cannot run more often than its slowest
  input, so that only the last interval of a path is waited for in full.

Batches, latency and cost get worse with load and nothing better, which planners rely on. Of a
recovery they rely on a floor: whatever else is lost, a unit takes as long as detecting, building,
loading and one batch take alone (`Floors`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.predict.alone import alone
from holdfast.predict.demand import CPU_BATCH, CPU_RATE, CPU_SNAPSHOT, FIXED, WORK, Demands
from holdfast.predict.draws import Drawn, Draws
from holdfast.predict.losses import Loss, Paced, lose, never, percentile
from holdfast.predict.replicas import FOLLOWER_CPU, failover_p95
from holdfast.predict.segments import SegmentPlan, inputs_of, segments_of
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    MachineStatistics,
    Measure,
    Statistics,
)
from holdfast.predict.workload import Workload
from holdfast.quantities import SIZE_UNITS, TIME_UNITS
from holdfast.topology.boundaries import forced_boundaries
from holdfast.topology.graph import Storage, Topology, per_operator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PHASE_P95 = 0.95
"""The share of failures that a bound is to hold for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pace:
    """What a plan promises as long as nothing is wrong, seconds and cores; arrays over segments."""

    interval_s: FloatArray
    """Batch intervals in force: that of a segment's slowest input, or its own if longer."""
    batch_s: FloatArray
    """How long a batch takes; above the interval the segment falls behind for ever."""
    end_to_end_s: float
    cpu: float
    """Cores in use, exporters and followers included."""
    follower_cpu: float
    """Those of them that followers take."""
    overhead: float
    """Cores beyond those of the uncut pipeline, relative to them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phases:
    """Recovery of segments, and what it is spent on; medians but for `p95`, seconds."""

    detection: FloatArray
    restore: FloatArray
    load: FloatArray
    """Of state, and what the first batch takes longer than others."""
    replay: FloatArray
    catch_up: FloatArray
    median: FloatArray
    """Of the whole; the medians of its parts need not add up to it."""
    p95: FloatArray
    """95th percentile of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """What a plan promises, seconds and cores; arrays run over its segments."""

    pace: Pace
    phases: Phases
    """Of each segment when its node dies."""
    losses: tuple[Loss, ...]
    """What each node's death costs."""

    @property
    def results(self) -> tuple[float, float]:
        """Until no result is missing when the worst node dies: median and 95th percentile."""
        return (
            max(loss.results[0] for loss in self.losses),
            max(loss.results[1] for loss in self.losses),
        )


class RecoveryModel:
    """Demands of a topology's parts on a machine, and what plans made of them promise."""

    def __init__(self, topology: Topology, statistics: Statistics | None = None) -> None:
        given = statistics or Statistics()
        for name in given.operators:
            topology.operator(name)
        self.topology = topology
        self.statistics = given
        self.time_s = _unit(TIME_UNITS, topology.unit.time, "time")
        """Seconds per time unit of the topology."""
        size = _unit(SIZE_UNITS, topology.unit.size.lower(), "size")
        self.machine = _machine(topology, given.machine, self.time_s, size)
        self.load = Workload.of(topology, given, self.time_s, size)
        self.forced = forced_boundaries(topology, stateful=[s > 0 for s in self.load.state.value])
        self.demands = Demands(
            topology=topology, statistics=given, machine=self.machine, load=self.load
        )
        for i in np.flatnonzero(self.demands.threads).tolist():
            self.forced.setdefault(i, "required")
        rates = [per_operator(op.failure_rate, how="sum") for op in topology.operators]
        self.failure_rate = math.fsum(rates) / self.time_s
        """Failures per second of the whole pipeline."""

    # -- what they take --------------------------------------------------------------------------

    @cached_property
    def export_cpu(self) -> float:
        """Cores that exporters take: one batch an epoch, whatever the plan."""
        machine, epoch = self.machine, self.statistics.epoch_s
        total = 0.0
        for query in self.topology.effective_queries:
            i = self.topology.index[query.sink]
            read = machine.slice_read
            fixed = machine.batch_cpu.value + read.fixed.value
            total += fixed / epoch + self.load.sent.value[i] * read.per_byte.value
        return total

    def export_s(self, root: int, interval_s: FloatArray, stretch: FloatArray) -> FloatArray:
        """How long an exporter takes to deliver one slice."""
        read = self.machine.slice_read
        bytes_s = self.load.sent.value[root] * read.per_byte.value
        fixed = self.machine.batch_floor.value + read.fixed.value
        return np.asarray(stretch * (fixed + bytes_s * interval_s))

    def stretch(self, cpu: FloatArray | float) -> FloatArray:
        """How much longer everything takes when `cpu` cores are in use; infinite at the limit."""
        share = np.asarray(cpu, float) / self.machine.cores
        with np.errstate(divide="ignore"):
            slow = 1.0 / (1.0 - np.minimum(share, 1.0) ** self.machine.cores)
        return np.where(share < 1.0, slow, np.inf)

    @staticmethod
    def cpu(demand: FloatArray, interval_s: FloatArray, snapshots: FloatArray) -> FloatArray:
        """Cores a segment takes."""
        batches = demand[..., CPU_BATCH] + demand[..., CPU_SNAPSHOT] / snapshots
        return np.asarray(demand[..., CPU_RATE] + batches / interval_s)

    @staticmethod
    def batch_s(demand: FloatArray, interval_s: FloatArray, stretch: FloatArray) -> FloatArray:
        """How long a batch takes."""
        with np.errstate(invalid="ignore"):
            return np.asarray(stretch * (demand[..., FIXED] + demand[..., WORK] * interval_s))

    def restore(self, spares: int) -> Measure:
        """Restore time when `spares` spares are kept: warm as long as one is left."""
        missing = self.missing(spares)
        warm, cold = self.machine.restore_warm, self.machine.restore_cold
        median = cold if missing > 0.5 else warm
        high = cold if missing > 1 - PHASE_P95 else warm
        return Measure(value=median.value, p95=max(high.high, median.value))

    def most_spares(self) -> int:
        """The number of spares beyond which another one changes nothing."""
        spares = 1
        mean = self.failure_rate * self.machine.refill.value
        while _poisson_tail(mean, spares) > 1 - PHASE_P95:
            spares += 1
        return spares

    def missing(self, spares: int) -> float:
        """The chance that no spare is left when a node dies."""
        return _poisson_tail(self.failure_rate * self.machine.refill.value, spares)

    @cached_property
    def draws(self) -> Draws:
        """The failures that recoveries are predicted for."""
        return Draws(self.demands)

    # -- whole plans -----------------------------------------------------------------------------

    def uncut_cpu(self, interval_s: float, snapshots: int) -> float:
        """Cores of the pipeline with forced boundaries only, at one interval, exporters included.

        At the longest interval offered no plan takes less.
        """
        parts = segments_of(self.topology, set(self.forced))
        demand = np.array([self.demands.of(part) for part in parts])
        longest = np.asarray(interval_s)
        return float(self.export_cpu + self.cpu(demand, longest, np.asarray(snapshots)).sum())

    def pace(
        self, segments: Sequence[SegmentPlan], *, uncut_cpu: float, at_cpu: float | None = None
    ) -> Pace:
        """What a plan promises as long as nothing is wrong; segments in topological order.

        `at_cpu` predicts as if so many cores were in use, whatever the plan itself takes.
        """
        inputs = inputs_of(self.topology, segments)
        interval = np.array([segment.interval_s for segment in segments])
        for i, read in enumerate(inputs):
            interval[i] = max([interval[i], *(interval[j] for j in read)])
        demand = np.array([self.demands.of(segment.operators) for segment in segments])
        each = self.cpu(demand, interval, _snapshots(segments))
        follow = FOLLOWER_CPU * float(each[[one.replicated for one in segments]].sum())
        cpu = float(self.export_cpu + each.sum()) + follow
        stretch = self.stretch(cpu if at_cpu is None else at_cpu)
        batch = self.batch_s(demand, interval, stretch)
        finish = _along(inputs, batch)
        latency = max(
            float(finish[i] + interval[i] + self.export_s(segments[i].root, interval[i], stretch))
            for i in self._results(segments)
        )
        return Pace(
            interval_s=interval,
            batch_s=batch,
            end_to_end_s=latency,
            cpu=cpu,
            follower_cpu=follow,
            overhead=(cpu - uncut_cpu) / uncut_cpu if uncut_cpu > 0 else 0.0,
        )

    def predict(
        self,
        segments: Sequence[SegmentPlan],
        spares: int,
        *,
        uncut_cpu: float,
        nodes: Sequence[Sequence[int]] | None = None,
    ) -> Prediction:
        """What a plan promises; segments in topological order.

        `nodes` says which segments, by position, share a node; None: one node has all of them.
        """
        pace = self.pace(segments, uncut_cpu=uncut_cpu)
        paced = self.paced(segments, pace)
        placed = [range(len(segments))] if nodes is None else [node for node in nodes if node]
        return self.predicted(pace, [self.loss(node, paced, pace, spares) for node in placed])

    def predicted(self, pace: Pace, losses: Sequence[Loss]) -> Prediction:
        """What a plan promises that has this pace and these losses."""

        def whole(name: str) -> FloatArray:
            found = np.full(len(pace.interval_s), np.nan)
            for loss in losses:
                found[list(loss.segments)] = getattr(loss, name)
            return found

        phases = Phases(
            detection=np.full(len(pace.interval_s), float(np.median(self.draws.detection))),
            **{
                name: whole(name)
                for name in ("restore", "load", "replay", "catch_up", "median", "p95")
            },
        )
        return Prediction(pace=pace, phases=phases, losses=tuple(losses))

    def loss(self, node: Sequence[int], paced: Paced, pace: Pace, spares: int) -> Loss:
        """What the death of one node costs that has these segments."""
        found = self.loss_within(node, paced, pace, spares, None)
        assert found is not None, "nothing limits it"  # noqa: S101 - for the type checker
        return found

    def loss_within(
        self,
        node: Sequence[int],
        paced: Paced,
        pace: Pace,
        spares: int,
        limits: Sequence[float] | None,
    ) -> Loss | None:
        """The same; None if the 95th percentile of a segment is seen to be above its limit."""
        if not pace.cpu < self.machine.cores:
            return never(node)
        survive = max(0.0, pace.cpu - float(paced.cpu[list(node)].sum()))
        return lose(
            node,
            paced,
            self.draws,
            cores=self.machine.cores,
            missing=self.missing(spares),
            busy=survive if len(node) < len(paced.inputs) else 0.0,
            limits=limits,
        )

    def paced(self, segments: Sequence[SegmentPlan], pace: Pace) -> Paced:
        """Segments as they run, with what their recoveries are drawn from."""
        parts = [segment.operators for segment in segments]
        demand = np.array([self.demands.of(part) for part in parts])
        drawn, inputs = self.draws.of(parts), inputs_of(self.topology, segments)
        stretch = float(self.stretch(pace.cpu))
        fixed, work = np.median(drawn.fixed, axis=1), np.median(drawn.work, axis=1)
        lag = stretch * (fixed + work * pace.interval_s)
        snapshots = _snapshots(segments)
        machine = self.machine
        floor = max(machine.batch_floor.value, 1e-9)
        return Paced(
            drawn=drawn,
            inputs=tuple(map(tuple, inputs)),
            interval_s=pace.interval_s,
            snapshots=snapshots,
            lag_s=lag,
            behind_s=_along(inputs, lag),
            cpu=self.cpu(demand, pace.interval_s, snapshots),
            shards=np.array([self.load.shards[part[-1]] for part in parts]),
            build_cores=np.array([self.demands.cores[list(part)].max() for part in parts]),
            batch_cores=np.full(len(parts), min(1.0, machine.batch_cpu.value / floor)),
            results=tuple(self._results(segments)),
            replicated=tuple(segment.replicated for segment in segments),
            failover_s=float(failover_p95(stretch)),
            one_interval=tuple(self._one_interval(part) for part in parts),
        )

    def floors(self, parts: Sequence[Sequence[int]], spares: int) -> Floors:
        """What recoveries of segments take at least, whatever else is lost."""
        return Floors(
            draws=self.draws,
            drawn=self.draws.of(parts),
            ready=self.draws.detection + self.draws.session(self.missing(spares)),
            one_interval=np.array([self._one_interval(part) for part in parts]),
        )

    def _one_interval(self, part: Sequence[int]) -> bool:
        return any(self.demands.given[v].one_epoch_per_batch for v in part)

    def _results(self, segments: Sequence[SegmentPlan]) -> list[int]:
        """Segments whose output somebody reads."""
        sinks = {self.topology.index[query.sink] for query in self.topology.effective_queries}
        return [i for i, segment in enumerate(segments) if segment.root in sinks]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Floors:
    """What recoveries of segments take at least: detection, building, loading, one batch."""

    draws: Draws
    drawn: Drawn
    ready: FloatArray
    one_interval: NDArray[np.bool_]

    def at(self, positions: IntArray) -> Floors:
        """Those of some of the segments."""
        return replace(
            self, drawn=self.drawn.at(positions), one_interval=self.one_interval[positions]
        )

    def alone_p95(
        self, interval_s: float, snapshots: int, *, longest_s: float, stretch: float
    ) -> FloatArray:
        """The 95th percentile of what they take if nothing else is lost: no floor."""
        found = alone(
            self.drawn,
            self.draws,
            ready=self.ready,
            interval_s=interval_s,
            snapshots=snapshots,
            longest_s=longest_s,
            stretch=stretch,
            one_interval=self.one_interval,
        )
        return percentile(found.T, 95.0)

    def p95(self, interval_s: float, snapshots: int) -> FloatArray:
        """The 95th percentile at one batch interval and one number of batches per snapshot."""
        drawn = self.drawn
        same = np.full(len(drawn.build), 1.0)
        load = drawn.load(same * interval_s, same * snapshots, self.draws.logs)
        whole = self.ready + drawn.build + load + drawn.fixed + drawn.work * interval_s
        return percentile(whole.T, 95.0)


def _snapshots(segments: Sequence[SegmentPlan]) -> FloatArray:
    return np.array([float(segment.snapshot_batches) for segment in segments])


def _along(inputs: Sequence[Sequence[int]], each: FloatArray) -> FloatArray:
    """The largest sum over a path that ends in each segment."""
    found = np.zeros(len(each))
    for i, read in enumerate(inputs):
        found[i] = each[i] + max((found[j] for j in read), default=0.0)
    return found


def _poisson_tail(mean: float, least: int) -> float:
    """P(X >= least) of a Poisson variable."""
    term, below = math.exp(-mean), 0.0
    for k in range(least):
        below += term
        term *= mean / (k + 1)
    return max(0.0, 1.0 - below)


def _unit(table: Mapping[str, float], unit: str, what: str) -> float:
    if unit not in table:
        raise BadInputError(
            f"the file counts {what} in {unit!r}, which cannot be converted to real {what}",
            where=f"unit.{what}",
            hint="write s and KB, for example",
        )
    return table[unit]


def _machine(
    topology: Topology, given: MachineStatistics, time_s: float, size: float
) -> MachineStatistics:
    """A profile is believed; without one, storage costs that the file spells out are."""
    storage = topology.storage
    if given is not REFERENCE_MACHINE or storage == Storage():
        return given
    how = "storage costs of the topology file"

    def cost(fixed: float, per_size: float) -> Affine:
        return Affine(
            fixed=Measure(value=fixed * time_s, how=how),
            per_byte=Measure(value=per_size * time_s / size, how=how),
        )

    tuples = cost(storage.tuple_fixed, storage.tuple_cost)
    state = cost(storage.state_fixed, storage.state_cost)
    return replace(
        given, slice_write=tuples, slice_read=tuples, state_write=state, state_read=state
    )
