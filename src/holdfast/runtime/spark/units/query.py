"""A unit's query as far as it can be planned before there is a checkpoint to begin with.

Functions are called, frames analysed, what it reads and writes is settled: about half of what the
start of a query costs. Who waits to be born has done all this when its parents hand over; for a
fork, and on a spare, it was done before anything was lost (a draft).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from holdfast.deployment import Segment
from holdfast.pipeline import Pipeline
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.spark.frames.compile import (
    build,
    event_column,
    input_specs,
    output_lag_us,
    read_frames,
)
from holdfast.runtime.spark.io.callbacks import each_batch
from holdfast.runtime.spark.io.native import Asker
from holdfast.runtime.spark.io.reader import InputSpec, ReaderSpec
from holdfast.runtime.spark.start.session import unit_session
from holdfast.runtime.spark.units.promise import Promise, promise_of
from holdfast.runtime.spark.units.share import Share, share_of
from holdfast.runtime.spark.units.side import NativeSide, Side, asker_of, choose_side
from holdfast.runtime.spark.units.tasks import MoreTasksError
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams.records import Skip

log = logging.getLogger("holdfast.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """All of a query but its start; to be closed, started or not."""

    spec: ReaderSpec
    segment: Segment
    """As it was planned for."""
    skips: Mapping[int, Skip]
    """What batches leave out while it runs."""
    share: Share
    side: Side
    frame: DataFrame
    mode: str
    """Spark's output mode."""
    lag_us: int | None
    """How far its rows may lie behind its watermark."""
    promise: Promise | None

    def writer(
        self, batch: Callable[[DataFrame, int], None], checkpoint: Storage
    ) -> DataStreamWriter:
        """What only has to be started."""
        writer = each_batch(self.frame.writeStream, self.frame.sparkSession, batch)
        place = checkpoint.address("")
        return writer.outputMode(self.mode).option("checkpointLocation", place)

    @property
    def adoptable(self) -> bool:
        """Whether it can become another unit's: Python's workers know whose they are."""
        return isinstance(self.side, NativeSide)

    def read_in_more_tasks(self) -> None:
        """End before the next batch, to be planned again; Python reads as it was told at first."""
        if isinstance(self.side, NativeSide):
            self.side.source.end(MoreTasksError("it is planned again, for more tasks"))

    def close(self) -> None:
        """To be called when the query has ended, or is not to be."""
        self.side.close()


def plan_query(
    context: UnitContext,
    spark: SparkSession,
    pipeline: Pipeline,
    schemas: Mapping[str, StructType],
    *,
    partitions: int,
    tasks: int,
    skips: Mapping[int, Skip],
    heed_repairs: int,
    checkpoint: Storage,
    stopping: threading.Event,
    failed: Callable[[int, BaseException], None],
    draft: PlannedQuery | None = None,
) -> PlannedQuery:
    """Plan a unit's query, unless it was planned beforehand.

    Args:
        context: the unit.
        spark: the node's session.
        pipeline: as the unit runs it.
        schemas: of all operators.
        partitions: tasks per input.
        tasks: the same where Java reads.
        skips: what batches leave out.
        heed_repairs: up to this epoch, slices that are read may have been made again.
        checkpoint: where it will be; it need not be there yet.
        stopping: set when the unit is to stop.
        failed: told which batch could not be planned, and why.
        draft: what was planned for the same shard, or for the unit whose fork it is.
    """
    segment, share = context.segment, share_of(context)
    asker = asker_of(context, stopping=stopping, failed=failed)
    known = _adopted(draft, context, share, asker, skips=skips, heed_repairs=heed_repairs)
    if known is not None:
        return known
    session = unit_session(
        spark, snapshot_batches=segment.snapshot_batches, partitions=share.partitions
    )
    inputs = input_specs(pipeline, context.deployment, segment, schemas)
    spec = _spec(context, share, inputs, skips, heed_repairs)
    spec = replace(spec, partitions=partitions, tasks=max(partitions, tasks))
    side = choose_side(context, spark, spec, checkpoint=checkpoint, asker=asker)
    try:
        frames = read_frames(session, spec, side.rows)
        result = build(
            pipeline,
            context.deployment,
            segment,
            frames,
            partitions=share.partitions or 1,
            one_task=len(inputs) * spec.tasks == 1,
        )
        planned = PlannedQuery(
            spec=spec,
            segment=segment,
            skips=skips,
            share=share,
            side=side,
            frame=side.writing(result),
            mode="update" if any(item.mode == "upsert" for item in segment.outputs) else "append",
            lag_us=output_lag_us(pipeline, result),
            promise=promise_of(pipeline, segment, event_column(pipeline, result.schema)),
        )
    except BaseException:
        side.close()
        raise
    return planned


def _adopted(
    draft: PlannedQuery | None,
    context: UnitContext,
    share: Share,
    asker: Asker,
    *,
    skips: Mapping[int, Skip],
    heed_repairs: int,
) -> PlannedQuery | None:
    """A query that was planned for the same shard, or for the unit whose fork it is, as a unit's.

    None: there is none, reading tasks know whose they are, or it is that of another shard or of
    other cuts.
    """
    if draft is None:
        return None
    known = draft.spec
    same = context.segment == draft.segment and share.ranks == known.groups
    if not same or not isinstance(draft.side, NativeSide):
        draft.close()
        return None
    log.info("unit=%s takes the query that was planned beforehand", context.unit)
    spec = replace(
        _spec(context, share, known.inputs, skips, heed_repairs),
        partitions=known.partitions,
        tasks=known.tasks,
    )
    side = draft.side.adopt(context, spec, asker)
    return replace(draft, spec=spec, skips=skips, share=share, side=side)


def _spec(
    context: UnitContext,
    share: Share,
    inputs: tuple[InputSpec, ...],
    skips: Mapping[int, Skip],
    heed_repairs: int,
) -> ReaderSpec:
    """What tasks are told of the unit."""
    segment = context.segment
    return ReaderSpec(
        root=context.log.root,
        unit=context.name,
        generation=context.generation,
        replica=context.replica,
        inputs=inputs,
        groups=share.ranks,
        max_shards=segment.max_shards,
        skips={number: skip.rows for number, skip in skips.items()},
        heed_repairs=heed_repairs,
        batching=Batching(
            batch_epochs=segment.batch_epochs,
            one_epoch_per_batch=segment.one_epoch_per_batch,
        ),
        crash=context.crash,
        watch=context.watch.address,
    )
