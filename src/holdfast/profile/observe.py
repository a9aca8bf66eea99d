"""What the slice records of a run say about its operators.

The run was cut at every operator, so a slice record holds what one batch of one operator put out,
and the epochs of what it read. Time is counted in epochs: a batch that was late still covers its
own seconds of input, so that a slow or busy machine distorts nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.deployment import Deployment, Segment, UnitId, key_group_range
from holdfast.deployment.blocks import groups_between, shard_groups
from holdfast.pipeline import Pipeline, PipelineOperator, SparkSource
from holdfast.predict.statistics import Measure, OperatorStatistics
from holdfast.profile import estimate
from holdfast.runtime.checkpoint.state import Snapshot
from holdfast.streams.records import Slice

Records = Mapping[str, Sequence[Slice]]
"""Unit to its slices, in order."""

_SLICES = "slice records of a run cut at every operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch of one shard of an operator."""

    seconds: float
    """Of input, in epochs."""
    rows_in: int
    rows_out: int
    upto: int
    spark_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """What the checkpoint of one shard showed."""

    changes: Mapping[int, int]
    """Bytes of changelog by version."""
    snapshots: Sequence[Snapshot]


def batches_of(
    deployment: Deployment, segment: Segment, shard: int, records: Records
) -> list[Batch]:
    """The batches of one shard with what they read and put out."""
    owned = shard_groups(segment.shards, segment.max_shards)[shard]
    groups = groups_between(*owned, segment.max_shards)
    found = []
    for record in records[units_of(segment)[shard]]:
        if segment.kind == "source":
            rows_in = record.rows + record.late_rows
        else:
            rows_in = sum(
                part.rows
                for name in segment.inputs
                for item in _all(deployment, records, name)
                if record.after < item.upto <= record.upto
                for file in item.files.get(name, ())
                for part in file.parts
                if part.group in groups
            )
        found.append(
            Batch(
                seconds=(record.upto - record.after) * deployment.epoch_s,
                rows_in=rows_in,
                rows_out=record.rows,
                upto=record.upto,
                spark_batch=record.spark_batch,
            )
        )
    return found


def operator_statistics(
    pipeline: Pipeline,
    deployment: Deployment,
    segment: Segment,
    records: Records,
    *,
    sizes: Mapping[str, Measure],
    state: Mapping[int, ShardState] | None = None,
) -> OperatorStatistics:
    """Rates, selectivity, sizes, state and skew of the one operator of a segment.

    `sizes` holds bytes per row by boundary.
    """
    operator = pipeline.operator(segment.name)
    shards = [batches_of(deployment, segment, shard, records) for shard in range(segment.shards)]
    inputs = _tuple_size(deployment, segment, records, sizes)
    output = sizes.get(segment.outputs[0].name)
    found = _state(shards, state, deployment.epoch_s) if state else {}
    return OperatorStatistics(
        input_rate=_input_rate(shards, source=segment.kind == "source"),
        output_rate=_output_rate(shards, lag=_lag(pipeline, operator)),
        selectivity=_selectivity(shards, lag=_lag(pipeline, operator)),
        tuple_size=output if segment.kind == "source" else inputs,
        output_size=output,
        skew=_skew(deployment, segment, records),
        one_epoch_per_batch=operator.one_epoch_per_batch,
        thread=operator.kind == "source" and not isinstance(operator.source, SparkSource),
        **found,
    )


def _lag(pipeline: Pipeline, operator: PipelineOperator) -> int:
    """Batches by which output trails input: Spark closes windows a batch later."""
    waits = operator.kind in ("aggregate", "stateful") and operator.mode == "append"
    return 1 if waits and pipeline.event_time is not None else 0


def _input_rate(shards: Sequence[Sequence[Batch]], *, source: bool) -> Measure | None:
    how = f"rows per second of epochs, {_SLICES}"
    parts = []
    for batches in shards:
        if source:
            # Not the first: a source may find a backlog that is not its rate.
            seen = batches[1:] or batches
            rate = estimate.ratio([one.rows_in for one in seen], [one.seconds for one in seen], how)
        else:
            rate = _per_burst(
                [one.rows_in for one in batches], [one.seconds for one in batches], how
            )
        parts.append(rate)
    return _together(parts, how)


def _output_rate(shards: Sequence[Sequence[Batch]], *, lag: int) -> Measure | None:
    how = f"rows per second of epochs, {_SLICES}"
    parts = [
        _per_burst(*_lagged(batches, [one.seconds for one in batches], lag), how)
        for batches in shards
    ]
    return _together(parts, how)


def _selectivity(shards: Sequence[Sequence[Batch]], *, lag: int) -> Measure | None:
    how = f"rows out over rows in, {_SLICES}"
    tops: list[float] = []
    bottoms: list[float] = []
    for batches in shards:
        out, into = _lagged(batches, [one.rows_in for one in batches], lag)
        some = estimate.bursts(out, into)
        tops += some[0] or [sum(out)]
        bottoms += some[1] or [sum(into)]
    return estimate.ratio(tops, bottoms, how)


def _lagged(
    batches: Sequence[Batch], series: Sequence[float], lag: int
) -> tuple[list[float], list[float]]:
    """Rows put out, and of another series what they follow from."""
    out = [float(one.rows_out) for one in batches]
    return (out[lag:], list(series[: len(series) - lag])) if len(out) > lag else (out, list(series))


def _per_burst(marks: Sequence[float], seconds: Sequence[float], how: str) -> Measure | None:
    """Rows per second over whole bursts, or over everything if there are not two."""
    rows, spans = estimate.bursts(marks, seconds)
    if rows:
        return estimate.ratio(rows, spans, how)
    return estimate.ratio([sum(marks)], [sum(seconds)], how)


def _together(parts: Sequence[Measure | None], how: str) -> Measure | None:
    known = [part for part in parts if part is not None]
    return estimate.total(known, how) if len(known) == len(parts) and known else None


def _tuple_size(
    deployment: Deployment, segment: Segment, records: Records, sizes: Mapping[str, Measure]
) -> Measure | None:
    """Bytes of a row received: inputs weigh by their rows."""
    rows = {
        name: float(sum(item.rows for item in _all(deployment, records, name)))
        for name in segment.inputs
        if name in sizes
    }
    whole = sum(rows.values())
    if not whole:
        return None
    share = {name: Measure(value=count / whole, samples=1) for name, count in rows.items()}
    parts = [estimate.times(sizes[name], share[name], sizes[name].how) for name in rows]
    how = sizes[next(iter(rows))].how
    samples = sum(sizes[name].samples for name in rows)
    found = estimate.total(parts, how)
    return Measure(value=found.value, error=found.error, samples=samples, how=how)


def _skew(deployment: Deployment, segment: Segment, records: Records) -> Measure:
    rows: dict[int, float] = {}
    if segment.kind == "source":
        # A source deals rows to its shards, whatever their keys: shards stand for groups.
        for shard in range(segment.shards):
            count = sum(item.rows for item in records[units_of(segment)[shard]])
            rows[key_group_range(shard, segment.shards).start] = float(count)
        return estimate.skew(rows, segment.shards, f"rows per shard, {_SLICES}")
    for name in segment.inputs:
        for item in _all(deployment, records, name):
            for file in item.files.get(name, ()):
                for part in file.parts:
                    rows[part.group] = rows.get(part.group, 0.0) + part.rows
    busiest = max(rows.values(), default=0.0) / max(sum(rows.values()), 1.0)
    what = f"{len(rows)} key groups, the busiest with {busiest:.1%} of the rows"
    return estimate.skew(rows, segment.shards, f"{what}, {_SLICES}")


def _state(
    shards: Sequence[Sequence[Batch]], state: Mapping[int, ShardState], epoch_s: float
) -> dict[str, Measure | None]:
    how = "bytes on disk of the snapshots that a restore would read"
    sizes, growths, changes = [], [], []
    for shard, found in state.items():
        batches = shards[shard]
        spans = {one.spark_batch + 1: one for one in batches}
        seen = [(spans[one.version], one) for one in found.snapshots if one.version in spans]
        at = [(batch.upto + 1) * epoch_s for batch, _ in seen]
        held = [float(one.size) for _, one in seen]
        growth = estimate.growing(at, held, how)
        if held:
            told = f"{how}, {seen[-1][1].keys} keys in the newest"
            sizes.append(estimate.settled(held, growth, told))
        else:
            size = float(sum(found.changes.values()))
            sizes.append(
                Measure(value=size, samples=1, how="no snapshot yet: bytes of all changelogs")
            )
        growths.append(growth)
        known = [version for version in found.changes if version in spans]
        changes.append(
            estimate.ratio(
                [found.changes[version] for version in known],
                [spans[version].seconds for version in known],
                "bytes of changelog per second of input, at the batches of the run",
            )
        )
    return {
        "state_size": estimate.total(sizes, sizes[0].how),
        "state_growth": _together(growths, how),
        "state_change": _together(changes, changes[0].how if changes[0] else how),
    }


def units_of(segment: Segment) -> list[str]:
    """The names of a segment's units."""
    return [str(UnitId(segment=segment.name, shard=shard)) for shard in range(segment.shards)]


def _all(deployment: Deployment, records: Records, boundary: str) -> list[Slice]:
    return [item for unit in units_of(deployment.producer(boundary)) for item in records[unit]]
