"""How long recovery takes, how old results are and what it all costs, for a given plan on Spark.

A plan cuts a topology into segments, each one streaming query per shard with a batch interval T and
a snapshot every n batches, and keeps s spares warm. The model, all of it in seconds and cores:

- **CPU.** Work per second (operators, bytes through slices and changelogs) does not depend on T; a
  batch costs a fixed amount, so that is divided by T; a snapshot by n T.
- **Contention.** At a load of L cores out of c, everything that computes takes
  1 / (1 - (L/c)^c) times as long: exact for the M/M/1 and M/M/2 queue, close above. This is how
  parallel branches on few cores add up.
- **A batch** takes P = stretch * (fixed + work * T) in the slowest shard.
- **Recovery** = detection + restore + load + replay + catch-up, and all operators of a segment
  share it, since any failure restarts all of it. Restore is warm unless the spares are used
  up, which with failures at rate f and a refill time of r has probability P(Poisson(f r) >= s).
  State load reads one snapshot and the changelogs since: (n-1)/2 of them in the median, 0.95 (n-1)
  at the 95th percentile. Replay is what arrived since the last committed batch began, P + T/2 and
  P + 0.95 T seconds' worth. What arrived until then goes into the same batch. If more comes due
  while it runs (in the median: if it takes half an interval), catch-up processes what arrived in
  all that time at the capacity that is left: (work * elapsed + fixed) / (1 - work). The 95th
  percentile always has it.
- **Lost together.** What is promised must hold when a node is lost that runs everything. Then its
  queries are restored at once on the same cores, which stretches restores; there are at least those
  queries that no plan can avoid. A segment that reads from another one waits for that one's slice:
  this waiting is not its own recovery, but it is part of the time after which results are complete
  again (`results`).
- **Waiting hides planning.** A query plans a batch before it has the input. A unit that runs again
  before anything is due has that behind it, and all of what a batch takes on any query (a running
  pipeline shows it: its slices come so much sooner after those they are made of). Opening state and
  committing it come after the input, and nothing hides them.
- **95th percentile**: durations vary independently, so their distances from the median add as
  squares; a mean that is uncertain is uncertain in every recovery, so it is taken at its 95th
  percentile throughout.
- **End to end**: a row that just missed a batch waits T, then passes every batch on its way. The
  intervals of a plan divide one another, and a segment cannot run more often than its slowest
  input, so that only the last interval of a path is waited for in full.

Everything gets worse with load and nothing better, which planners rely on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInputError
from holdfast.predict.demand import (
    CPU_BATCH,
    CPU_RATE,
    CPU_SNAPSHOT,
    FIRST,
    FIRST_HIGH,
    FIXED,
    FIXED_HIGH,
    LOAD,
    LOAD_HIGH,
    LOG_FIXED,
    LOG_RATE,
    PLANNING,
    QUERY,
    WORK,
    WORK_HIGH,
    Demands,
)
from holdfast.predict.segments import SegmentPlan, inputs_of, segments_of
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    MachineStatistics,
    Measure,
    Statistics,
)
from holdfast.predict.takeover import FirstBatch, Phases, lost_together
from holdfast.predict.workload import Workload
from holdfast.quantities import SIZE_UNITS, TIME_UNITS
from holdfast.topology.boundaries import forced_boundaries
from holdfast.topology.graph import Storage, Topology, per_operator

FloatArray = NDArray[np.float64]

PHASE_P95 = 0.95
"""Where in a batch interval, or between two snapshots, 19 of 20 failures have struck."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """What a plan promises, seconds and cores; arrays run over its segments."""

    interval_s: FloatArray
    """Batch intervals in force: that of a segment's slowest input, or its own if longer."""
    phases: Phases
    batch_s: FloatArray
    """How long a batch takes; above the interval the segment falls behind for ever."""
    end_to_end_s: float
    cpu: float
    """Cores in use, exporters included."""
    overhead: float
    """Cores beyond those of the uncut pipeline, relative to them."""
    results: tuple[float, float]
    """Median and 95th percentile of the time after which no result is missing any more when all
    segments are lost at once."""


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
        missing = _poisson_tail(self.failure_rate * self.machine.refill.value, spares)
        warm, cold = self.machine.restore_warm, self.machine.restore_cold
        median = cold if missing > 0.5 else warm
        high = cold if missing > 1 - PHASE_P95 else warm
        return Measure(value=median.value, p95=max(high.high, median.value))

    @cached_property
    def queries(self) -> float:
        """Queries that a node with everything has to take over, whatever the plan."""
        parts = segments_of(self.topology, set(self.forced))
        found = sum(
            self.load.shards[part[-1]] for part in parts if not self.demands.threads[part[-1]]
        )
        return float(found + len(self.topology.effective_queries))

    @property
    def crowd(self) -> float:
        """How much longer restores take because others go on at once on the same cores."""
        return max(1.0, self.queries * self.machine.takeover_cpu.value / self.machine.cores)

    def most_spares(self) -> int:
        """The number of spares beyond which another one changes nothing."""
        spares = 1
        mean = self.failure_rate * self.machine.refill.value
        while _poisson_tail(mean, spares) > 1 - PHASE_P95:
            spares += 1
        return spares

    def phases(
        self,
        demand: FloatArray,
        interval_s: FloatArray,
        snapshots: FloatArray,
        stretch: FloatArray,
        spares: int,
    ) -> Phases:
        """Recovery of segments; arguments broadcast. Infinite where nothing is ever caught up."""
        detection = self.machine.detection
        whole, whole_high = self._restores(demand, spares)
        restore = self._until_running(demand, spares)
        logs = snapshots - 1.0
        per_log = demand[..., LOG_FIXED] + demand[..., LOG_RATE] * interval_s
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            loads = [
                stretch * (demand[..., LOAD] + 0.5 * logs * per_log),
                stretch * (demand[..., LOAD_HIGH] + PHASE_P95 * logs * per_log),
            ]

            def spent(work: FloatArray, fixed: FloatArray, phase: float) -> FloatArray:
                batch = fixed + work * interval_s
                return np.asarray(fixed + work * (batch + phase * interval_s))

            work, fixed = stretch * demand[..., WORK], stretch * demand[..., FIXED]
            replay = spent(work, fixed, 0.5)
            # In the median, what comes next is due half an interval after the failure.
            waited = np.maximum(0.0, 0.5 * interval_s - detection.value - restore)
            first = self._first_batches(demand, stretch)
            slow = first.slow(waited) + loads[0]
            # The first batch also takes what arrived before it; another one is late only if its
            # input came due while the first one ran.
            arrived = work * (detection.value + restore + slow)
            before = detection.value + restore + slow + replay - first.saved(waited)
            more = replay + arrived >= 0.5 * interval_s
            catch_up = np.where(more, (work * before + fixed) / (1.0 - work), arrived)

            work_high = stretch * demand[..., WORK_HIGH]
            fixed_high = stretch * demand[..., FIXED_HIGH]
            middle = spent(work_high, fixed_high, 0.5)
            away = np.sqrt(
                (detection.high - detection.value) ** 2
                + (whole_high - whole) ** 2
                + (self.crowd * (demand[..., FIRST_HIGH] - demand[..., FIRST])) ** 2
                + (loads[1] - loads[0]) ** 2
                + (spent(work_high, fixed_high, PHASE_P95) - middle) ** 2
            )
            high = detection.value + whole + self.crowd * demand[..., FIRST]
            high = high + loads[0] + middle + fixed_high + away
            p95 = high / (1.0 - work_high)
        lost = ~np.isfinite(stretch * np.ones_like(work)) | (work_high >= 1.0)
        shape = np.shape(catch_up)
        return Phases(
            detection=np.full(shape, detection.value),
            restore=restore + np.zeros(shape),
            load=np.where(lost, np.inf, slow),
            replay=np.where(lost, np.inf, replay - first.saved(waited)),
            catch_up=np.where(lost, np.inf, catch_up),
            p95=np.where(lost, np.inf, p95),
        )

    def _until_running(self, demand: FloatArray, spares: int) -> FloatArray:
        """Median time until the unit of a segment runs."""
        machine = self.machine
        start = max(0.0, machine.restore_warm.value - machine.first_batch.value)
        session = max(0.0, self.restore(spares).value - machine.restore_warm.value)
        thread = self.crowd * machine.restore_thread.value
        return np.where(demand[..., QUERY] > 0, session + self.crowd * start, thread)

    def _restores(self, demand: FloatArray, spares: int) -> tuple[FloatArray, FloatArray]:
        """Median and 95th percentile of the restore of each segment, slow first batch included."""
        machine, warm = self.machine, self.machine.restore_warm
        cold = self.crowd * min(machine.first_batch.value, warm.value)
        session = max(0.0, self.restore(spares).high - warm.high)
        thread = max(machine.restore_thread.high, machine.restore_thread.value)
        spark = demand[..., QUERY] > 0
        middle = self._until_running(demand, spares) + np.where(spark, cold, 0.0)
        high = np.where(spark, session + self.crowd * warm.high, self.crowd * thread)
        return middle, np.maximum(middle, high)

    def _first_batches(self, demand: FloatArray, stretch: FloatArray) -> FirstBatch:
        query = demand[..., QUERY] > 0
        any_query = query * self.machine.first_batch.value
        finite = np.where(np.isinf(stretch), 1.0, stretch)
        return FirstBatch(
            planning=self.crowd * (any_query + demand[..., PLANNING]),
            opening=self.crowd * (demand[..., FIRST] - demand[..., PLANNING]),
            usual=finite * query * self.machine.batch_floor.value,
        )

    # -- whole plans -----------------------------------------------------------------------------

    def uncut_cpu(self, interval_s: float, snapshots: int) -> float:
        """Cores of the pipeline with forced boundaries only, at one interval, exporters included.

        At the longest interval offered no plan takes less.
        """
        parts = segments_of(self.topology, set(self.forced))
        demand = np.array([self.demands.of(part) for part in parts])
        longest = np.asarray(interval_s)
        return float(self.export_cpu + self.cpu(demand, longest, np.asarray(snapshots)).sum())

    def predict(
        self,
        segments: Sequence[SegmentPlan],
        spares: int,
        *,
        uncut_cpu: float,
        at_cpu: float | None = None,
    ) -> Prediction:
        """What a plan promises; segments in topological order.

        `at_cpu` predicts as if so many cores were in use, whatever the plan itself takes.
        """
        inputs = inputs_of(self.topology, segments)
        interval = np.array([segment.interval_s for segment in segments])
        for i, read in enumerate(inputs):
            interval[i] = max([interval[i], *(interval[j] for j in read)])
        snapshots = np.array([float(segment.snapshot_batches) for segment in segments])
        demand = np.array([self.demands.of(segment.operators) for segment in segments])
        cpu = float(self.export_cpu + self.cpu(demand, interval, snapshots).sum())
        stretch = self.stretch(cpu if at_cpu is None else at_cpu)
        batch = self.batch_s(demand, interval, stretch)
        finish = np.zeros(len(segments))
        for i, read in enumerate(inputs):
            finish[i] = batch[i] + max((finish[j] for j in read), default=0.0)
        results = {self.topology.index[q.sink] for q in self.topology.effective_queries}
        latency = max(
            float(finish[i] + interval[i] + self.export_s(segment.root, interval[i], stretch))
            for i, segment in enumerate(segments)
            if segment.root in results
        )
        alone = self.phases(demand, interval, snapshots, stretch, spares)
        first = self._first_batches(demand, stretch)
        phases, back = lost_together(alone, first, interval, inputs)
        return Prediction(
            interval_s=interval,
            phases=phases,
            results=(
                max(back[0][i] for i, part in enumerate(segments) if part.root in results),
                max(back[1][i] for i, part in enumerate(segments) if part.root in results),
            ),
            batch_s=batch,
            end_to_end_s=latency,
            cpu=cpu,
            overhead=(cpu - uncut_cpu) / uncut_cpu if uncut_cpu > 0 else 0.0,
        )


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
