"""Everything that is measured on one Spark session: the operators, and Spark on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.deployment import Segment
from holdfast.pipeline import Pipeline
from holdfast.predict.statistics import (
    MachineStatistics,
    Measure,
    OperatorStatistics,
    Statistics,
)
from holdfast.profile.budget import budget_for, left_words
from holdfast.profile.cache import known_machine
from holdfast.profile.observe import ShardState, operator_statistics
from holdfast.profile.sizing import Sizing
from holdfast.profile.spark.collect import SETTINGS, Collected, collect, cut_everywhere
from holdfast.profile.spark.fixed import FixedCosts, Rounds
from holdfast.profile.spark.machine import measure_floors, measure_machine
from holdfast.profile.spark.operators import operator_cost, row_sizes, without_state
from holdfast.runtime.spark.start.session import start_session
from holdfast.runtime.units.slots import task_slots

Say = Callable[[str], None]

QUICK = Sizing(first=500, enough_s=0.15, most=32_000, pairs=3, budget_s=40.0)
THOROUGH = Sizing(first=500, enough_s=0.5, most=512_000, pairs=8, budget_s=120.0)
MEMORY_MB = 512
"""Java heap, as a node has it by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One profile."""

    pipeline: Pipeline
    seconds: float
    thorough: bool
    """More care, whatever it takes."""
    machine: bool
    """Whether the machine is measured too."""
    folder: Path
    """For everything that is written; removed afterwards."""


def measure_on_spark(work: Work, say: Say) -> Statistics:
    """The whole profile but for recoveries, which need processes to kill."""
    began = time.monotonic()
    plain = cut_everywhere(work.pipeline)
    alone = [one.name for one in plain.segments if one.kind != "exporter"]
    budget = budget_for(len(alone))
    whole = "" if work.thorough or work.machine else f", {left_words(budget.total_s)}"
    say(f"starting Spark{whole}")
    spark = start_session(
        "profile",
        memory_mb=MEMORY_MB,
        scratch=work.folder / "spark",
        settings=SETTINGS,
        slots=task_slots(plain),
    )
    collected = collect(
        work.pipeline, spark=spark, folder=work.folder / "run", seconds=work.seconds, say=say
    )
    measure, collected_at = measure_machine if work.machine else measure_floors, time.monotonic()
    machine = measure(known_machine(), spark=spark, folder=work.folder / "machine", say=say)
    if work.machine:
        began += time.monotonic() - collected_at  # the operators have their time all the same
    sizes = row_sizes(collected)
    fixed = FixedCosts(
        pipeline=work.pipeline,
        collected=collected,
        spark=spark,
        folder=work.folder / "fixed",
        rounds=Rounds() if work.thorough else Rounds(batches=5, restarts=0),
    )
    operators = {}
    segments = [one for one in collected.deployment.segments if one.kind != "exporter"]
    first_at = time.monotonic()
    for done, segment in enumerate(segments):
        now = time.monotonic()
        left = budget.left_s(now - began, done, now - first_at)
        told = "" if work.thorough else f", {left_words(left)}"
        say(f"measuring {segment.name} by itself, {done + 1} of {len(alone)}{told}")
        sizing = THOROUGH
        if not work.thorough:
            sizing = replace(QUICK, budget_s=min(QUICK.budget_s, budget.each_s(now - began, done)))
        found = _alone(work, collected, segment, spark=spark, sizes=sizes, sizing=sizing)
        per_batch, first = fixed.of(segment) or (None, None)
        found = replace(found, batch_fixed=per_batch, first_fixed=first)
        operators[segment.name] = _apart(found, machine)
    _inherit_skew(work.pipeline, operators)
    return Statistics(
        pipeline=work.pipeline.name,
        epoch_s=work.pipeline.epoch_s,
        machine=machine,
        operators=operators,
    )


def _alone(
    work: Work,
    collected: Collected,
    segment: Segment,
    *,
    spark: SparkSession,
    sizes: Mapping[str, Measure],
    sizing: Sizing,
) -> OperatorStatistics:
    """What was counted of an operator in the run, and what its rows cost by themselves."""
    found = operator_statistics(
        work.pipeline,
        collected.deployment,
        segment,
        collected.records,
        sizes=sizes,
        state=_state(collected, segment),
    )
    cost = operator_cost(
        work.pipeline,
        collected,
        segment,
        spark=spark,
        folder=work.folder / "replay" / segment.name,
        sizing=sizing,
    )
    return replace(found, cost=cost, stores=_stores(collected, segment))


def _inherit_skew(pipeline: Pipeline, operators: dict[str, OperatorStatistics]) -> None:
    """Give operators without a key the skew of the one whose shards they would share.

    Cut off, they have one shard; fused, as many as the operator before them.
    """
    parallel = {item.name: item.parallelism for item in pipeline.topology().operators}
    for operator in pipeline.operators:
        if operator.kind == "map" and not operator.key and parallel[operator.name] > 1:
            before = operators[operator.inputs[0]].skew
            operators[operator.name] = replace(operators[operator.name], skew=before)


def _state(collected: Collected, segment: Segment) -> dict[int, ShardState] | None:
    found = {
        shard: ShardState(changes=files.changes, snapshots=files.snapshots())
        for shard, files in collected.state.get(segment.name, {}).items()
    }
    return found or None


def _stores(collected: Collected, segment: Segment) -> Measure | None:
    counted = [files.stores for files in collected.state.get(segment.name, {}).values()]
    how = "stores in the checkpoint of a shard, counted"
    return Measure(value=max(counted), samples=len(counted), how=how) if counted else None


def _apart(found: OperatorStatistics, machine: MachineStatistics) -> OperatorStatistics:
    """The same with the cost of writing state taken out of the cost per tuple."""
    if found.cost is None or found.state_change is None or found.input_rate is None:
        return found
    per_byte = machine.state_write.per_byte
    return replace(
        found, cost=without_state(found.cost, found.state_change, found.input_rate, per_byte)
    )
