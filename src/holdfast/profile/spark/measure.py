"""Everything that is measured on one Spark session: the operators, and Spark on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.deployment import Segment
from holdfast.pipeline import Pipeline
from holdfast.predict.statistics import (
    MachineStatistics,
    Measure,
    OperatorStatistics,
    Statistics,
)
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
    quick: bool
    folder: Path
    """For everything that is written; removed afterwards."""


def measure_on_spark(work: Work, say: Say) -> Statistics:
    """The whole profile but for recoveries, which need processes to kill."""
    say("starting Spark")
    spark = start_session(
        "profile",
        memory_mb=MEMORY_MB,
        scratch=work.folder / "spark",
        settings=SETTINGS,
        slots=task_slots(cut_everywhere(work.pipeline)),
    )
    collected = collect(
        work.pipeline, spark=spark, folder=work.folder / "run", seconds=work.seconds, say=say
    )
    measure = measure_floors if work.quick else measure_machine
    machine = measure(known_machine(), spark=spark, folder=work.folder / "machine", say=say)
    sizes = row_sizes(collected)
    fixed = FixedCosts(
        pipeline=work.pipeline,
        collected=collected,
        spark=spark,
        folder=work.folder / "fixed",
        rounds=Rounds(batches=5, restarts=3) if work.quick else Rounds(),
    )
    operators = {}
    for segment in collected.deployment.segments:
        if segment.kind == "exporter":
            continue
        say(f"measuring {segment.name} by itself")
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
            sizing=QUICK if work.quick else THOROUGH,
        )
        per_batch, first = fixed.of(segment) or (None, None)
        found = replace(
            found,
            cost=cost,
            batch_fixed=per_batch,
            first_fixed=first,
            stores=_stores(collected, segment),
        )
        operators[segment.name] = _apart(found, machine)
    _inherit_skew(work.pipeline, operators)
    return Statistics(
        pipeline=work.pipeline.name,
        epoch_s=work.pipeline.epoch_s,
        machine=machine,
        operators=operators,
    )


def _inherit_skew(pipeline: Pipeline, operators: dict[str, OperatorStatistics]) -> None:
    """Give operators without a key the skew of the one whose shards they would share.

    Cut off, they have one shard; fused, as many as the operator before them.
    """
    parallel = {item.name: item.parallelism for item in pipeline.topology().operators}
    for operator in pipeline.operators:
        if operator.kind == "map" and parallel[operator.name] > 1:
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
