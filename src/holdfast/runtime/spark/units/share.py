"""What a unit owns of its operator: keys, state partitions, and where both come from."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.deployment.blocks import block_of, groups_between
from holdfast.errors import BadInputError
from holdfast.runtime.checkpoint.inherit import BIRTH
from holdfast.runtime.checkpoint.inherit import inherit as inherit_state
from holdfast.runtime.checkpoint.restate import Rewrite, Stage, UniqueIds
from holdfast.runtime.spark.frames.placement import lies_by_key
from holdfast.runtime.spark.start.session import unit_session
from holdfast.runtime.spark.units.restate import rewriter
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams.handover import Birth

Rehearse: TypeAlias = Callable[[Literal["takeover", "restating"]], None]
"""Runs an operator over rows of its input, before it takes over or before its state is laid out
anew; raises if the state cannot be where it is to be."""


@dataclass(slots=True, kw_only=True)
class Share:
    """Of one query."""

    operator: str
    ranks: tuple[int, int]
    """Of its key groups: the first, and one past the last."""
    groups: Collection[int]
    partitions: int | None
    """Of its operator's state; None: it has none, or the number of shards is never changed."""
    unchecked: bool
    """Nobody has looked yet where Spark keeps its state."""

    def check(self, query: StreamingQuery | None) -> None:
        """Refuse, in a query's first batch, state that could not be split by its key."""
        if query is None:
            return
        java = query._jsq.streamingQuery()  # noqa: SLF001 - no public way
        if not lies_by_key(str(java.lastExecution().executedPlan().toString())):
            raise BadInputError(
                "rows are moved before they are grouped, so its state does not lie by its key",
                where=self.operator,
                hint="do that in a map before it, join by its key alone, or leave max_shards out",
            )
        self.unchecked = False


def share_of(context: UnitContext) -> Share:
    """What the change that made a unit gave it."""
    ranks, most = context.log.child(context.name).groups, context.segment.max_shards
    keeps = most > 1 and context.segment.stateful
    partitions = block_of(ranks, most).count if keeps else None
    return Share(
        operator=context.segment.name,
        ranks=ranks,
        groups=groups_between(*ranks, most),
        partitions=partitions,
        unchecked=(partitions or 1) > 1,
    )


def inherit(
    context: UnitContext,
    spark: SparkSession,
    born: Birth,
    rehearse: Rehearse,
    rows: int,
    progress: Progress,
) -> None:
    """Begin with the state of others; `rows` of the clock source stand for one batch."""
    for parent, batch in born.parents if born.shared else ():
        if batch != BIRTH:
            context.healer.commit(parent, batch, tell=lambda doing: progress.tell(doing=doing))
    inherit_state(
        context.log,
        context.unit,
        context.generation,
        born.parents,
        context.segment,
        rows=rows,
        crash=context.crash,
        rewrite=_rewriter(context, spark, progress, rehearse),
    )


def _rewriter(
    context: UnitContext, spark: SparkSession, progress: Progress, rehearse: Rehearse
) -> Rewrite:
    """Lays out state anew for a unit; that may take minutes, so it is told."""
    segment, share = context.segment, share_of(context)
    session = unit_session(
        spark, snapshot_batches=segment.snapshot_batches, partitions=share.partitions or 1
    )

    def rewrite(storage: Storage, stage: Stage) -> UniqueIds:
        if segment.max_shards > 1:
            progress.tell(state="starting", doing="trying whether its state lies by its key")
            rehearse("restating")
        progress.tell(state="starting", doing="having Spark repartition the state it takes over")
        return rewriter(
            session,
            unit=context.name,
            operator=segment.name,
            key=segment.key,
            groups=share.groups,
            crash=context.crash,
        )(storage, stage)

    return rewrite
