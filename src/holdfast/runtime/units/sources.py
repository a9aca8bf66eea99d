"""Source units: rows from outside become slices, stamped with an epoch, late ones put aside.

Lateness is decided here and nowhere else, epoch by epoch against the watermark that the epochs
before have left behind, so it depends neither on the batching nor on what runs downstream. A
generated source makes the same rows again for the same range, and each of its shards knows the rows
of all, so that shards do not matter either; a file source (`files`) records which files belong to
which epoch before it reads them, and its shards know only their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.deployment import Boundary
from holdfast.deployment.blocks import Block, block_of
from holdfast.deployment.slicefiles import SliceFile, content_digest
from holdfast.pipeline import EventTime, Files, Generator, Rate
from holdfast.runtime.log.batching import MAX_BATCH_ROWS, Batching
from holdfast.runtime.log.hashing import key_groups, row_hashes
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.units.aside import put_aside
from holdfast.runtime.units.birth import await_birth
from holdfast.runtime.units.files import MAX_EPOCHS, WHOLE, FileRows
from holdfast.runtime.units.threads import ThreadUnit, UnitContext
from holdfast.streams.records import Range, Slice
from holdfast.streams.unit import End, Position, Proposal, RunBatch, Step

WATERMARK = "watermark_us"
"""What the range record of a source says: the watermark before the batch."""

__all__ = [
    "WATERMARK",
    "EpochRows",
    "FileRows",
    "GeneratedRows",
    "SourceUnit",
    "epoch_tick",
    "publish_rows",
    "read_batch",
    "split_late",
    "write_rows",
]


class EpochRows(Protocol):
    """A source as its unit reads it."""

    def begin(self, parents: Sequence[str]) -> None:
        """The unit is born, and goes on in place of these."""
        ...

    def claim(self, after: int, upto: int) -> Any:
        """The source's own position after a batch that reads so much."""
        ...

    def tables(self, record: Range, epoch: int) -> tuple[Any, Any]:
        """The rows of one epoch of a recorded range, and those whose times its watermark heeds."""
        ...

    def again(self, record: Range, epoch: int) -> tuple[Any, Any]:
        """The same for a batch that was published before."""
        ...

    @property
    def max_epochs(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedRows:
    """Rate and Generator: functions of the epoch."""

    source: Rate | Generator
    epoch_s: float
    block: Block = WHOLE
    """Which parts of its rows the unit makes."""

    def begin(self, parents: Sequence[str]) -> None:
        """Nothing to learn: the epochs say it all."""

    def claim(self, after: int, upto: int) -> Any:  # noqa: ARG002 - the epochs say it all
        return None

    def tables(self, record: Range, epoch: int) -> tuple[Any, Any]:  # noqa: ARG002 - same call
        whole = self.source.table(epoch, epoch_s=self.epoch_s)
        block = self.block
        return self.source.share(whole, block.first, block.of, block.count), whole

    def again(self, record: Range, epoch: int) -> tuple[Any, Any]:
        return self.tables(record, epoch)

    @property
    def max_epochs(self) -> int:
        if not isinstance(self.source, Rate):
            return MAX_EPOCHS
        share = self.block.count / self.block.of
        rows = max(1.0, self.source.rows_per_second * self.epoch_s * share)
        return max(1, min(512, int(MAX_BATCH_ROWS / rows)))


def rows_of(
    source: Rate | Generator | Files,
    context: UnitContext,
    *,
    reader: Callable[[Files], Callable[[list[str]], Any]],
) -> EpochRows:
    """What a source unit reads; `reader` makes what reads files."""
    if not isinstance(source, Files):
        epoch_s = context.deployment.epoch_s
        return GeneratedRows(source=source, epoch_s=epoch_s, block=parts_of(context))
    return FileRows(
        source,
        unit=context.name,
        store=context.log.store,
        read=reader(source),
        block=parts_of(context),
    )


def parts_of(context: UnitContext) -> Block:
    """Which parts of a source's rows a unit reads.

    One that may scale deals them out over as many parts as it may ever have shards, so that what is
    in a part never depends on their number.
    """
    segment = context.segment
    if segment.max_shards > 1:
        return block_of(context.log.child(context.name).groups, segment.max_shards)
    return Block(first=context.unit.shard, count=1, of=segment.shards)


class SourceUnit(ThreadUnit):
    """One shard of a source that is its own segment."""

    def __init__(
        self, context: UnitContext, rows: EpochRows, *, event_time: EventTime | None
    ) -> None:
        super().__init__(context)
        self._rows = rows
        self._event_time = event_time
        self._origin = context.log.put_origin(context.wall.now())
        self._batching = Batching(
            batch_epochs=context.segment.batch_epochs,
            one_epoch_per_batch=context.segment.one_epoch_per_batch,
        )
        self._watermark: tuple[int, int | None] = (-1, None)
        """Number of the last batch published here, and the watermark it left behind."""
        self._following = 0
        """The batch that is decided next."""
        self._born_with: int | None = None
        """The watermark that those who handed over to it had left behind."""

    def begin(self) -> None:
        """Wait to be born, and learn what those have read who handed over."""
        context = self.context
        born = await_birth(context, self.steps, self.progress, self._stopping)
        self._rows.begin([parent for parent, _ in born.parents])
        if born.parents and context.log.newest_batch(context.name) < 0:
            context.crash.at("during-handover", context.name)

    def propose(self, after: int, ends: Sequence[End], limit: int | None) -> Proposal | None:  # noqa: ARG002 - it reads none
        tick = epoch_tick(self._origin, self.context.deployment.epoch_s, self.context.wall.now())
        upto = self._batching.due(after, tick, limit, max_epochs=self._rows.max_epochs)
        if upto is None:
            self.progress.tell(waiting=0)  # what is not due does not wait
            return None
        self.progress.tell(waiting=tick - after)
        claimed = self._rows.claim(after, upto)
        if self._event_time is not None:
            # With it the batch can be made again when the slice before it is gone.
            claimed = {**(claimed or {}), WATERMARK: self._watermark_before(self._following)}
        return Proposal(upto=upto, source=claimed)

    def _next(self, position: Position) -> Step:
        self._following = position.batch
        if position.batch == 0:
            self._born_with = position.watermark_us
        # Its ranges do not know it, as they come before the reading. Should it hand over here, its
        # heirs decide by it what is late.
        return super()._next(replace(position, watermark_us=self._left_behind(position.batch)))

    def _left_behind(self, number: int) -> int | None:
        """The watermark before a batch; None also if that is not known any more: it was published,
        and so was the one before it.
        """
        if number == 0 or self._watermark[0] == number - 1:
            return self._watermark_before(number)
        before = self.context.log.slice(self.context.name, number - 1)
        return None if before is None else before.watermark_us

    def due_s(self) -> float:
        epochs = self._batching.due_tick(self.progress.report.epoch) + 1
        return self._origin + epochs * self.context.deployment.epoch_s - self.context.wall.now()

    def done(self, step: RunBatch) -> bool:
        return self.context.log.slice(self.context.name, step.position.batch) is not None

    def run_batch(self, step: RunBatch) -> None:
        context, record, number = self.context, step.range, step.position.batch
        before = self._watermark_before(number)
        rows, aside, watermark = read_batch(self._rows.tables, record, self._event_time, before)
        publish_rows(context, record, number, rows, aside, watermark)
        self._watermark = (number, watermark)
        self.progress.add(rows_in=rows.num_rows + aside.num_rows, rows_out=rows.num_rows)

    def _watermark_before(self, number: int) -> int | None:
        if number == 0:
            return self._born_with
        if self._watermark[0] == number - 1:
            return self._watermark[1]
        return self.context.log.need_slice(self.context.name, number - 1).watermark_us


def read_batch(
    tables: Callable[[Range, int], tuple[Any, Any]],
    record: Range,
    event_time: EventTime | None,
    watermark: int | None,
) -> tuple[Any, Any, int | None]:
    """The rows of a batch in time, those late, and the watermark it leaves behind."""
    kept, late = [], []
    for epoch in range(record.after + 1, record.upto + 1):
        rows, heeded = tables(record, epoch)
        good, bad, watermark = split_late(rows, event_time, watermark, heeded=heeded)
        kept.append(good)
        late.append(bad)
    return pa.concat_tables(kept), pa.concat_tables(late), watermark


def publish_rows(
    context: UnitContext,
    record: Range,
    number: int,
    rows: Any,
    late: Any,
    watermark: int | None,
) -> None:
    """Make batch `number` of a source visible, unless its leader has; late rows go to a side slice.

    The side slice is named by the batch, so that a redo replaces it by the same.
    """
    if context.lead.give_way(number):
        context.lead.settle(mine=False)
        return
    if late.num_rows:
        put_aside(
            context.log.store.below(context.log.layout.late(context.name)),
            number,
            late,
            keep_all=context.trimmer.keep_input,
            now=context.wall.now(),
        )
    files = write_rows(context, number, rows)
    context.crash.at("after-data-files", context.name, number)
    context.publish(
        Slice(
            unit=context.name,
            number=number,
            after=record.after,
            upto=record.upto,
            files=files,
            rows=rows.num_rows,
            digest=content_digest(files),
            watermark_us=watermark,
            late_rows=late.num_rows,
            generation=context.generation,
        )
    )


def write_rows(context: UnitContext, number: int, rows: Any) -> dict[str, tuple[SliceFile, ...]]:
    """The slice files of a batch, by boundary."""
    hashes = row_hashes(rows) if rows.num_rows else None
    return {
        boundary.name: _write(context, boundary, number, rows, hashes)
        for boundary in context.segment.outputs
    }


def _write(
    context: UnitContext, boundary: Boundary, number: int, rows: Any, hashes: Any
) -> tuple[SliceFile, ...]:
    if rows.num_rows == 0:
        return ()
    folder = context.log.data(context.name, boundary.name)
    name = f"{number:010d}-g{context.generation}-{context.new_id()[:8]}.arrow"
    file = write_slice_file(folder, name, rows, key_groups(rows, boundary.key), hashes)
    folder.sync("")
    return (file,)


def split_late(
    table: Any, event_time: EventTime | None, watermark: int | None, *, heeded: Any = None
) -> tuple[Any, Any, int | None]:
    """Rows in time, late rows, and the watermark after this epoch (microseconds).

    It is that of the rows `heeded`: those of all shards where they are known.
    """
    late = table.slice(0, 0)
    if event_time is None:
        return table, late, watermark
    heeded = table if heeded is None else heeded
    newest = pc.max(_times(heeded, event_time)).as_py()
    if watermark is not None:
        # A row without a time is not late; Spark will keep or drop it as the operator says.
        is_late = pc.fill_null(pc.less(_times(table, event_time), pa.scalar(watermark)), False)
        late, table = table.filter(is_late), table.filter(pc.invert(is_late))
    if newest is not None:
        reached = newest - round(event_time.delay_s * 1e6)
        watermark = reached if watermark is None else max(watermark, reached)
    return table, late, watermark


def _times(table: Any, event_time: EventTime) -> Any:
    column = table.column(event_time.column)
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def epoch_tick(origin: float, epoch_s: float, now: float) -> int:
    """The last epoch that is over; -1 during the first."""
    return int((now - origin) // epoch_s) - 1
