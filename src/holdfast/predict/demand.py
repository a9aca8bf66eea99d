"""What a segment demands, as positions in a vector: so demands add up over what it consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.predict.statistics import MachineStatistics, Measure, OperatorStatistics, Statistics
from holdfast.predict.workload import Known, Workload
from holdfast.topology.graph import Topology

FloatArray = NDArray[np.float64]

(
    WORK,
    WORK_HIGH,
    FIXED,
    FIXED_HIGH,
    FIRST,
    FIRST_HIGH,
    BUILD,
    BUILD_HIGH,
    PLANNING,
    LOAD,
    LOAD_HIGH,
    LOG_FIXED,
    LOG_RATE,
    CPU_RATE,
    CPU_BATCH,
    CPU_SNAPSHOT,
    QUERY,
) = range(17)
QUANTITIES = 17
"""What a segment demands is a vector of these, and adds up over what it consists of:

work: seconds of computing per second of input, in the slowest shard; fixed: seconds per batch;
first: seconds that the first batch after a restart takes longer, beyond what it does for any query;
build: seconds until it runs, beyond the same; planning: those seconds of the first batch that pass
before it has to have its input; load: seconds to load a snapshot; log: seconds per changelog, and
per second of input in changelogs; cpu: cores, CPU seconds per batch, CPU seconds per snapshot;
query: above 0 if it is a Spark query, 0 if a thread; high: at the 95th percentile."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Demands:
    """What the parts of a topology demand of a machine, each on its own."""

    topology: Topology
    statistics: Statistics
    machine: MachineStatistics
    load: Workload

    @cached_property
    def member(self) -> FloatArray:
        """Demand of each operator as part of a segment."""
        load, machine = self.load, self.machine
        out = np.zeros((len(self.topology.operators), QUANTITIES))
        state, change = load.state, load.change
        keeps = (state.value > 0).astype(float)
        share = load.skew / load.shards
        out[:, WORK] = (load.busy.value + change.value * machine.state_write.per_byte.value) * share
        out[:, WORK_HIGH] = (
            load.busy.high + change.high * machine.state_write.per_byte.high
        ) * share
        fixed, first = self._fixed(keeps)
        out[:, FIXED], out[:, FIXED_HIGH] = fixed.value, fixed.high
        read = machine.state_read
        out[:, FIRST], out[:, FIRST_HIGH] = first.value, first.high
        builds = [one.build or Measure(value=0.0) for one in self.given]
        out[:, BUILD] = [one.value for one in builds]
        out[:, BUILD_HIGH] = [one.high for one in builds]
        out[:, PLANNING] = (1.0 - keeps) * first.value
        out[:, LOAD] = state.value * share * read.per_byte.value
        out[:, LOAD_HIGH] = state.high * share * read.per_byte.high
        out[:, LOG_FIXED] = keeps * self._stores * machine.log_read.value
        out[:, LOG_RATE] = change.value * share * read.per_byte.value
        write = machine.state_write
        out[:, CPU_RATE] = load.busy.value + change.value * write.per_byte.value
        out[:, CPU_BATCH] = load.shards * fixed.value
        out[:, CPU_SNAPSHOT] = (
            keeps * load.shards * write.fixed.value + state.value * write.per_byte.value
        )
        return out

    @cached_property
    def given(self) -> tuple[OperatorStatistics, ...]:
        """What was measured of each operator."""
        none, known = OperatorStatistics(), self.statistics.operators
        return tuple(known.get(operator.name, none) for operator in self.topology.operators)

    @cached_property
    def cores(self) -> FloatArray:
        """Cores that a query of each operator keeps busy while it is taken over."""
        usual = self.machine.takeover_cpu
        return np.array([(one.takeover_cpu or usual).value for one in self.given])

    @cached_property
    def _stores(self) -> FloatArray:
        counted = [one.stores for one in self.given]
        return np.array([1.0 if stores is None else stores.value for stores in counted])

    def _fixed(self, keeps: FloatArray) -> tuple[Known, Known]:
        """Seconds that each operator adds to every batch, and to the first one after a restart.

        Where they were not measured, what keeping state takes on this machine.
        """
        given, machine = self.given, self.machine

        def known(found: Sequence[Measure | None], otherwise: Measure) -> Known:
            value = [
                kept * otherwise.value if one is None else one.value
                for one, kept in zip(found, keeps, strict=True)
            ]
            high = [
                kept * otherwise.high if one is None else one.high
                for one, kept in zip(found, keeps, strict=True)
            ]
            return Known(value=np.array(value), high=np.array(high))

        return (
            known([one.batch_fixed for one in given], machine.state_write.fixed),
            known([one.first_fixed for one in given], machine.state_read.fixed),
        )

    @cached_property
    def closing(self) -> FloatArray:
        """Demand of ending a segment with each operator: its batches, and its output's log."""
        load, machine = self.load, self.machine
        write = machine.slice_write
        out = np.zeros((len(self.topology.operators), QUANTITIES))
        share = load.skew / load.shards
        out[:, WORK] = load.written.value * write.per_byte.value * share
        out[:, WORK_HIGH] = load.written.high * write.per_byte.high * share
        query = 1.0 - self.threads
        out[:, QUERY] = query
        # A thread writes a file at once; what a query waits for, before any row, are Spark's tasks.
        out[:, FIXED] = query * (machine.batch_floor.value + write.fixed.value)
        out[:, FIXED_HIGH] = query * (machine.batch_floor.high + write.fixed.high)
        out[:, CPU_RATE] = load.written.value * write.per_byte.value
        out[:, CPU_BATCH] = load.shards * (query * machine.batch_cpu.value + write.fixed.value)
        return out

    @cached_property
    def threads(self) -> FloatArray:
        """1 for every operator that runs as a thread; such a one is a segment of its own."""
        flags = [one.thread and not self.topology.upstream[i] for i, one in enumerate(self.given)]
        return np.array(flags, float)

    def reading(self, producer: int, consumer: int) -> FloatArray:
        """Demand of reading a producer's log, on the consumer's segment."""
        return self._readings[producer, consumer]

    @cached_property
    def _readings(self) -> Mapping[tuple[int, int], FloatArray]:
        load, read = self.load, self.machine.slice_read
        found: dict[tuple[int, int], FloatArray] = {}
        for v, producers in enumerate(self.topology.upstream):
            for u in producers:
                out = np.zeros(QUANTITIES)
                share = load.skew[v] / load.shards[v]
                out[WORK] = load.sent.value[u] * read.per_byte.value * share
                out[WORK_HIGH] = load.sent.high[u] * read.per_byte.high * share
                out[FIXED] = read.fixed.value
                out[FIXED_HIGH] = read.fixed.high
                out[CPU_RATE] = load.sent.value[u] * read.per_byte.value
                out[CPU_BATCH] = load.shards[v] * read.fixed.value
                found[u, v] = out
        return found

    def of(self, operators: Sequence[int]) -> FloatArray:
        """Demand of a segment; the output operator comes last in `operators`."""
        key = tuple(operators)
        if key not in self._known:
            self._known[key] = self._of(key)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, ...], FloatArray]:
        """Demands of the segments that were asked for."""
        return {}

    def _of(self, operators: tuple[int, ...]) -> FloatArray:
        inside = set(operators)
        total = self.member[list(operators)].sum(axis=0) + self.closing[operators[-1]]
        for v in operators:
            for u in self.topology.upstream[v]:
                if u not in inside:
                    total = total + self.reading(u, v)
        return np.asarray(total)
