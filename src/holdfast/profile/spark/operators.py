"""Cost per tuple of each operator by itself: replay a sample of its input, take the slope.

Operators that a plan would fuse are told apart here, because each is run alone. The cost is CPU
time of Java and its Python workers per tuple received; what reading the tuples takes is measured
with the same slices and left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.deployment import KEY_GROUPS, Segment
from holdfast.pipeline import Pipeline, PipelineOperator
from holdfast.pipeline.sources import GENERATED
from holdfast.predict.statistics import Measure
from holdfast.profile import estimate
from holdfast.profile.observe import units_of
from holdfast.profile.sizing import Sizing, Tried
from holdfast.profile.spark.collect import Collected
from holdfast.profile.spark.replay import Replay, Sample, Seen
from holdfast.runtime.log.slices import read_slice
from holdfast.runtime.spark.frames.compile import build, input_specs
from holdfast.streams.records import Slice

SAMPLE_ROWS = 50_000
"""Rows of an operator's input that are kept for replaying, newest first."""
SIZE_ROWS = 200_000
"""Rows that sizes are taken from."""
SOURCE_EPOCHS = 20
"""Epochs of a generated source that are made again to see what that takes."""


def row_sizes(collected: Collected) -> dict[str, Measure]:
    """Bytes per row of every boundary, without what each key group adds in a slice.

    That would count a fixed cost of a batch as one of its rows; it is 200 to 400 bytes for each key
    group of a slice, and vanishes as batches grow.
    """
    found = {}
    for segment in collected.deployment.segments:
        for boundary in segment.outputs:
            sizes: list[float] = []
            rows: list[float] = []
            for unit in units_of(segment):
                for record in reversed(collected.records[unit]):
                    if sum(rows) >= SIZE_ROWS:
                        break
                    table = _table(collected, boundary.name, [record])
                    if table is not None:
                        sizes.append(float(table.combine_chunks().nbytes))
                        rows.append(float(table.num_rows))
            how = "bytes of sampled rows as the slices hold them, over their number"
            measure = estimate.ratio(sizes, rows, how)
            if measure is not None:
                found[boundary.name] = measure
    return found


def operator_cost(
    pipeline: Pipeline,
    collected: Collected,
    segment: Segment,
    *,
    spark: SparkSession,
    folder: Path,
    sizing: Sizing,
) -> Measure | None:
    """CPU seconds per tuple received by the one operator of a segment; None if unknown."""
    operator = pipeline.operator(segment.name)
    if operator.kind == "source":
        return _source_cost(operator, collected)
    taken = samples(pipeline, collected, segment)
    rows = sum(sample.rows.num_rows for sample in taken)
    if not rows:
        return None
    replay = Replay(
        spark=spark,
        root=folder,
        samples=taken,
        build=lambda frames: build(
            pipeline, collected.deployment, segment, frames, one_task=len(taken) == 1
        ),
        mode="update" if operator.mode == "upsert" else "append",
    )

    def choose(seen: Sequence[Seen]) -> float | None:
        wanted = sizing.next(tried(seen))
        return None if wanted is None else wanted / rows

    seen = replay.run(choose)
    counted = [seen[index] for index in sizing.measured(tried(seen))]
    if len({one.rows for one in counted}) < 2:
        return None
    large = max(one.rows for one in counted)
    how = (
        "CPU time of replayed batches, slope between "
        f"{min(one.rows for one in counted)} and {large} rows, reading left out"
    )
    slope = estimate.line(
        [one.rows for one in counted], [one.cpu_s - one.read_cpu_s for one in counted], how
    )
    return estimate.at_least_zero(slope.per_unit)


def tried(seen: Sequence[Seen]) -> list[Tried]:
    """What sizing needs to know about batches."""
    return [
        Tried(rows=one.rows, cpu_s=one.cpu_s, wall_s=one.wall_s + one.read_wall_s) for one in seen
    ]


def without_state(cost: Measure, change: Measure, rate: Measure, per_byte: Measure) -> Measure:
    """The cost without writing changelogs, which a plan counts on top of it.

    A replay keeps state as a unit does, so its slope holds both.
    """
    if rate.value <= 0:
        return cost
    written = change.value / rate.value * per_byte.value
    return estimate.at_least_zero(replace(cost, value=cost.value - written))


def _source_cost(operator: PipelineOperator, collected: Collected) -> Measure | None:
    """What making the rows of a generated source takes; others are read by Spark."""
    source = operator.source
    if not isinstance(source, GENERATED):
        return None
    segment = collected.deployment.segment(operator.name)
    last = collected.records[units_of(segment)[0]][-1].upto
    spent: list[float] = []
    rows: list[float] = []
    for epoch in range(max(0, last - SOURCE_EPOCHS), last + 1):
        start = time.thread_time()
        table = source.table(epoch, epoch_s=collected.deployment.epoch_s)
        spent.append(time.thread_time() - start)
        rows.append(float(table.num_rows))
    return estimate.ratio(spent, rows, "CPU time of making the rows of some epochs again")


def samples(pipeline: Pipeline, collected: Collected, segment: Segment) -> list[Sample]:
    """The newest epochs of an operator's inputs: the same ones of each, so that joins match."""
    deployment, records = collected.deployment, collected.records
    slices: dict[str, list[Slice]] = {
        name: [item for unit in units_of(deployment.producer(name)) for item in records[unit]]
        for name in segment.inputs
    }
    low, high = _epochs(slices)
    delay_s = pipeline.event_time.delay_s if pipeline.event_time else 0.0
    found = []
    for spec in input_specs(pipeline, deployment, segment, collected.schemas):
        taken = [item for item in slices[spec.boundary] if low <= item.after < item.upto <= high]
        rows = _table(collected, spec.boundary, sorted(taken, key=lambda item: item.upto))
        if rows is None:
            schema = collected.schemas[deployment.boundary(spec.boundary).operator]
            rows = to_arrow_schema(schema, timezone="UTC").empty_table()
        found.append(
            Sample(
                spec=spec,
                key=deployment.boundary(spec.boundary).key,
                rows=_thinned(rows),
                span_us=round((high - low) * deployment.epoch_s * 1e6),
                delay_us=round(delay_s * 1e6),
            )
        )
    return found


def _thinned(rows: Any) -> Any:
    """Every n-th row of a sample that is too large; slices are sorted by key, so not the first."""
    step = rows.num_rows // SAMPLE_ROWS
    return rows.take(pa.array(range(0, rows.num_rows, step))) if step > 1 else rows


def _epochs(slices: Mapping[str, Sequence[Slice]]) -> tuple[int, int]:
    """From after which to up to which epoch a sample is taken: as little as holds enough rows."""
    high = min(max((item.upto for item in items), default=-1) for items in slices.values())
    starts = sorted({item.after for items in slices.values() for item in items}, reverse=True)
    low = high
    for low in [start for start in starts if start < high]:
        rows = sum(
            item.rows for items in slices.values() for item in items if low <= item.after < high
        )
        if rows >= SAMPLE_ROWS:
            break
    return low, high


def _table(collected: Collected, boundary: str, items: Sequence[Slice]) -> Any:
    """All rows of some slices, None if there are none."""
    batches = [
        batch
        for item in items
        for batch in read_slice(
            collected.log.data(item.unit, boundary), item.files[boundary], range(KEY_GROUPS)
        )
    ]
    return pa.Table.from_batches(batches) if batches else None
