"""What an operator adds to every batch whatever its rows, and to the first batch after a restart.

Both differ a lot between operators: a join of two streams has eight stores to open and to commit
where an aggregation has two. So each operator runs alone on about one epoch of its input per batch,
and its query is built and started again over and over in the session that has compiled it already,
as on a warm spare. What a query takes that only reads the same rows is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import Segment
from holdfast.pipeline import Pipeline
from holdfast.predict.statistics import Measure
from holdfast.profile import estimate
from holdfast.profile.cpu import DISTURBED, load_average, when_calm
from holdfast.profile.spark.collect import Collected
from holdfast.profile.spark.operators import samples
from holdfast.profile.spark.replay import Build, Replay, Sample
from holdfast.runtime.spark.frames.compile import build


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often everything is tried."""

    batches: int = 8
    restarts: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds of one query, one for each try."""

    usual: Sequence[float]
    first: Sequence[float]
    """From its start to the end of its first batch, less a usual one."""
    calm: bool
    """Whether nothing else kept the machine busy."""


@dataclass(slots=True, kw_only=True)
class FixedCosts:
    """Measures operators one by one, and once for each number of inputs what only reading takes."""

    pipeline: Pipeline
    collected: Collected
    spark: SparkSession
    folder: Path
    rounds: Rounds
    _reading: dict[int, Timed] = field(default_factory=dict)

    def of(self, segment: Segment) -> tuple[Measure, Measure | None] | None:
        """Per batch, and for the first one more; None for sources and if there are no rows.

        Without restarts what the first one takes is None: takeovers on a spare tell it.
        """
        if not segment.inputs:
            return None
        taken = samples(self.pipeline, self.collected, segment)
        if not any(sample.rows.num_rows for sample in taken):
            return None
        deployment = self.collected.deployment
        upsert = self.pipeline.operator(segment.name).mode == "upsert"
        inputs = len(taken)
        if inputs not in self._reading:
            self._reading[inputs] = self._time(f"reading-{inputs}", taken, _only_read, "append")
        timed = self._time(
            segment.name,
            taken,
            lambda frames: build(
                self.pipeline, deployment, segment, frames, one_task=len(taken) == 1
            ),
            "update" if upsert else "append",
        )
        reading = self._reading[inputs]
        load = load_average() + ("" if timed.calm else f", {DISTURBED}")
        per_batch = _more(timed.usual, reading.usual, f"batches of about one epoch, {load}")
        if not timed.first:
            return per_batch, None
        first = _more(timed.first, reading.first, f"first batches of restarted queries, {load}")
        return per_batch, first

    def _time(self, name: str, taken: Sequence[Sample], make: Build, mode: str) -> Timed:
        replay = Replay(
            spark=self.spark,
            root=self.folder / name,
            samples=taken,
            build=make,
            mode=mode,
            compare=None,
        )
        span_us = max(sample.span_us for sample in taken)
        epoch_us = self.collected.deployment.epoch_s * 1e6
        amount = min(1.0, epoch_us / span_us) if span_us else 1.0
        usual, calm = self._steady(replay, amount)
        middle = statistics.median(usual)
        first = [replay.restart(amount) - middle for _ in range(self.rounds.restarts)]
        return Timed(usual=usual, first=first, calm=calm)

    def _steady(self, replay: Replay, amount: float) -> tuple[Sequence[float], bool]:
        """Durations of batches; those that other load disturbed are set aside and made again."""
        return when_calm(lambda: replay.steady(amount, self.rounds.batches))


def _only_read(frames: Mapping[str, DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, [frame.select(F.lit(1)) for frame in frames.values()])


def _more(some: Sequence[float], less: Sequence[float], how: str) -> Measure:
    """By how much the median of some durations is above that of others."""
    found, base = estimate.duration(some, ""), statistics.median(less)
    return Measure(
        value=max(0.0, found.value - base),
        p95=max(0.0, found.high - base),
        samples=found.samples,
        how=f"wall time of {how}, reading left out",
    )
