"""What was measured, drawn at random: one column is one failure, as it may come.

Whatever was observed several times is drawn from those observations; of the rest a median and a
95th percentile are known, and it is drawn from the log-normal distribution that has them. Draws are
stratified, seeded, and made per operator, so that two plans of one pipeline are compared on the
same failures, and what a segment takes is the sum over what it consists of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from holdfast.predict.demand import (
    BUILD,
    BUILD_HIGH,
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
from holdfast.predict.statistics import NORMAL_95, MachineStatistics, Measure

FloatArray = NDArray[np.float64]

FAILURES = 40
"""Failures that are drawn: enough for a 95th percentile, few enough to be looked at often."""
FEW = 4
"""Observations below which their median and 95th percentile say as much."""
SEED = 17
PART_95 = 0.95
_NORMAL = NormalDist()
_EDGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """What segments take in each failure; arrays (segments, failures) of seconds."""

    query: FloatArray
    """(segments): 1 if it is a query, 0 if a thread."""
    build: FloatArray
    plan: FloatArray
    """What the first batch takes longer before it has to have its input."""
    opening: FloatArray
    """Of state, after that."""
    loading: FloatArray
    """Of a snapshot."""
    log_fixed: FloatArray
    """(segments): per changelog."""
    log_rate: FloatArray
    """(segments): per second of input in changelogs."""
    usual: FloatArray
    """What every batch takes before it has to have its input."""
    fixed: FloatArray
    """What it takes after that, whatever is in it."""
    work: FloatArray
    """The same per second of input."""

    def at(self, positions: NDArray[np.int64]) -> Drawn:
        """Those of some of the segments."""
        return Drawn(**{one.name: getattr(self, one.name)[positions] for one in fields(self)})

    def load(self, interval_s: FloatArray, snapshots: FloatArray, logs: FloatArray) -> FloatArray:
        """Opening and loading state; `logs` is the share of changelogs since the snapshot."""
        per_log = self.log_fixed + self.log_rate * interval_s
        return self.opening + self.loading + ((snapshots - 1.0) * per_log)[:, None] * logs[None, :]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Least:
    """The least that was drawn, seconds; arrays run over operators."""

    ready: float
    """Until building may begin."""
    start: FloatArray
    """Until a query runs."""
    thread: FloatArray
    once: FloatArray
    """What an operator adds to building, opening, loading and one batch."""
    work: FloatArray
    """What it adds per second of input."""
    logs: float
    """Share of the changelogs since a snapshot."""


class Draws:
    """Everything that varies from one failure to the next."""

    def __init__(self, demands: Demands, *, failures: int = FAILURES, seed: int = SEED) -> None:
        self._demands = demands
        self._rng = np.random.default_rng(seed)
        self.failures = failures
        machine, count = demands.machine, len(demands.topology.operators)
        self.detection = draw(machine.detection, self._chance())
        self.since = self._chance()
        """Where in the longest batch interval it strikes, from 0 to 1."""
        self.logs = self._chance()
        """Where between two snapshots."""
        self._spare = self._chance()
        self._cold = draw(machine.restore_cold, self._chance())
        self._start = self._each(count, _start(machine))
        self._plan = self._each(count, machine.first_batch)
        self._floor = self._each(count, machine.batch_floor)
        self._thread = self._each(count, machine.restore_thread)
        self._own = {
            name: self._varied(demands.member[:, name], demands.member[:, high], known)
            for name, high, known in (
                (BUILD, BUILD_HIGH, [one.build for one in demands.given]),
                (FIRST, FIRST_HIGH, [one.first_fixed for one in demands.given]),
                (FIXED, FIXED_HIGH, [one.batch_fixed for one in demands.given]),
                (LOAD, LOAD_HIGH, None),
                (WORK, WORK_HIGH, None),
            )
        }

    def session(self, missing: float) -> FloatArray:
        """What a session takes that has to be started, with so large a chance that it has."""
        warm = self._demands.machine.restore_warm.value
        return np.where(self._spare < missing, np.maximum(0.0, self._cold - warm), 0.0)

    def least(self, missing: float, hardest: int | None = None) -> Least:
        """What segments take at least whose 95th percentile keeps a bound, as a sum of parts.

        Of m failures all but a few keep such a bound. So what a segment takes in all of them
        together is at most m - few bounds and what it takes in the few; and that is at most the sum
        of what its parts take at most. What is left, per bound, adds up over parts. It holds for
        any m failures; `hardest` takes those whose building may begin last.
        """
        ready = self.detection + self.session(missing)
        here = np.argsort(-ready, kind="stable")[: hardest or self.failures]

        def low(table: FloatArray) -> FloatArray:
            return _within_all_but_few(table[..., here], self.passing)

        planned = self._demands.member[:, PLANNING] > 0
        first = np.where(planned, 0.0, low(self._own[FIRST]))
        rest = sum(low(self._own[name]) for name in (BUILD, LOAD, FIXED))
        return Least(
            ready=float(low(ready)),
            start=low(self._start),
            thread=low(self._thread),
            once=np.asarray(first + rest),
            work=low(self._own[WORK]),
            logs=float(low(self.logs)),
        )

    @property
    def passing(self) -> int:
        """How many failures may break a bound that holds for the 95th percentile."""
        return self.failures - 1 - math.floor((self.failures - 1) * PART_95)

    def subsets(self, missing: float) -> tuple[int, ...]:
        """Numbers of hardest failures worth asking `least` for."""
        cold = int((self._spare < missing).sum())
        wanted = {cold, self.failures // 4, self.failures // 2, self.failures}
        return tuple(sorted(m for m in wanted if m > self.passing))

    def of(self, parts: Sequence[Sequence[int]]) -> Drawn:
        """What segments take, given by their operators, the output operator last."""
        demands = self._demands
        inside = np.zeros((len(parts), len(demands.topology.operators)))
        for i, part in enumerate(parts):
            inside[i, list(part)] = 1.0
        base = np.array([demands.of(part) for part in parts])
        roots = [part[-1] for part in parts]
        member, query = demands.member, base[:, QUERY]
        is_query = query[:, None] > 0
        # What an operator adds to a first batch is planning if it keeps no state, else opening it.
        planned = inside * (member[:, PLANNING] > 0)
        fixed_median = base[:, FIXED] - inside @ member[:, FIXED]
        floor = np.where(is_query, self._floor[roots], 0.0)
        rest = fixed_median - query * demands.machine.batch_floor.value
        return Drawn(
            query=query,
            build=np.where(is_query, self._start[roots], self._thread[roots])
            + inside @ self._own[BUILD],
            plan=np.where(is_query, self._plan[roots], 0.0) + planned @ self._own[FIRST],
            opening=(inside - planned) @ self._own[FIRST],
            loading=inside @ self._own[LOAD],
            log_fixed=base[:, LOG_FIXED],
            log_rate=base[:, LOG_RATE],
            usual=floor,
            fixed=np.maximum(0.0, rest)[:, None] + inside @ self._own[FIXED],
            work=(base[:, WORK] - inside @ member[:, WORK])[:, None] + inside @ self._own[WORK],
        )

    def _each(self, count: int, measure: Measure) -> FloatArray:
        """(operators, failures): what a query or thread takes, whatever it computes."""
        return np.array([draw(measure, self._chance()) for _ in range(count)])

    def _varied(
        self, value: FloatArray, high: FloatArray, known: Sequence[Measure | None] | None
    ) -> FloatArray:
        """(operators, failures): each drawn around its value."""
        rows = []
        for i in range(len(value)):
            chance = self._chance()
            told = known[i] if known is not None else None
            if told is None:
                told = Measure(value=float(value[i]), p95=max(float(high[i]), float(value[i])))
            rows.append(draw(told, chance))
        return np.array(rows).reshape(len(value), self.failures)

    def _chance(self) -> FloatArray:
        """One number from 0 to 1 per failure, one in each of as many equal parts."""
        place = self._rng.permutation(self.failures) + self._rng.random(self.failures)
        return np.asarray(np.clip(place / self.failures, _EDGE, 1.0 - _EDGE))


def _within_all_but_few(table: FloatArray, few: int) -> FloatArray:
    """Over the last axis: what is left of a sum without the largest, per member that is left."""
    count = table.shape[-1]
    most = table.max(axis=-1)
    mean = (table.sum(axis=-1) - few * most) / (count - few)
    return np.asarray(np.maximum(mean, 0.0))


def _start(machine: MachineStatistics) -> Measure:
    """Until a query runs on a warm spare."""
    warm, first = machine.restore_warm, machine.first_batch
    value = max(0.0, warm.value - first.value)
    share = warm.high / warm.value if warm.value > 0 else 1.0
    return Measure(value=value, p95=value * max(1.0, share))


def draw(measure: Measure, chance: FloatArray) -> FloatArray:
    """Values that a measure takes, by where in its distribution they lie."""
    if len(measure.values) >= FEW:
        return np.asarray(np.quantile(np.asarray(measure.values), chance))
    high, value = measure.high, measure.value
    normal = np.array([_NORMAL.inv_cdf(share) for share in chance.tolist()])
    if value <= 0.0:
        return np.asarray(np.maximum(0.0, normal) * (high / NORMAL_95))
    if high <= value:
        return np.full(len(chance), value)
    return np.asarray(value * np.exp(normal * (math.log(high / value) / NORMAL_95)))
