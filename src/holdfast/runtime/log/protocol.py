"""The decisions of the record protocol, free of files, clocks and Spark.

Problem: units read slices that other units publish; processes die, hang and wake up again at any
point. Every batch must nevertheless be one fixed set of input rows with one published result.
These functions say what a range record may contain, when the log may be trimmed, and who may still
write; `store` makes the answer durable, `spark` acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.deployment.records import RangeRecord, SliceRecord

MAX_BATCH_ROWS = 1_000_000
"""A unit that is behind takes no more rows than this in one batch, unless one interval has more."""

MAX_BATCH_EPOCHS = 512
"""Nor does it look further ahead than this for the end of a batch, so that planning one costs the
same whether it is a minute or a day behind. A power of two: see `_last_cell`."""

RETAIN_BATCHES = 8
"""How many committed batches a checkpoint keeps, so how far back a takeover may redo: Spark's
minBatchesToRetain. The log keeps what these batches read, plus `TRIM_MARGIN`."""

TRIM_MARGIN = 2
"""Batches kept beyond that: the newest range record may be two ahead of the oldest live commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How a unit cuts its input into batches."""

    batch_epochs: int = 1
    one_epoch_per_batch: bool = False
    max_rows: int = MAX_BATCH_ROWS
    max_epochs: int = MAX_BATCH_EPOCHS


Unread = Mapping[str, Sequence[Iterable[SliceRecord]]]
"""Boundary to, per producing shard, the published slices from the first unread one on, in order.
They are taken one by one and no further than needed, so whoever reads them from disk need not read
all that is there."""


def next_range(
    previous: RangeRecord | None, unread: Unread, batching: Batching, *, unit: str
) -> RangeRecord | None:
    """What the next batch should read, or None while the inputs do not suffice.

    A batch ends at an epoch at which every shard of every input has ended a slice. So the slice it
    publishes reflects exactly the source rows up to that epoch, whatever the shards, the batching
    and the failures before: every end epoch is a consistent cut.

    A unit that keeps up takes one batch interval at a time. One that is behind takes several at
    once, up to the roundest end it can reach (see `roundest`), so that shards which fall behind by
    different amounts keep meeting at common ends.

    Every slice is looked at once, and none beyond the first end that is out of reach: by its rows,
    or by `max_epochs`.
    """
    after = previous.upto if previous else -1
    first = previous.inputs if previous else {}
    shards = [
        _Cursor(name=name, slices=iter(slices), end=first[name][index] if name in first else 0)
        for name in unread
        for index, slices in enumerate(unread[name])
    ]
    cut = _choose_cut(after, shards, batching)
    if cut is None:
        return None
    upto, reached = cut
    inputs: dict[str, tuple[int, ...]] = {}
    watermarks: list[int | None] = []
    for shard, (end, watermark_us) in zip(shards, reached, strict=True):
        inputs[shard.name] = (*inputs.get(shard.name, ()), end)
        watermarks.append(watermark_us)
    return RangeRecord(
        unit=unit,
        number=previous.number + 1 if previous else 0,
        after=after,
        upto=upto,
        inputs=inputs,
        watermark_us=_smallest(watermarks),
    )


def read_range(previous: RangeRecord | None, current: RangeRecord) -> dict[str, list[range]]:
    """Boundary to, per producing shard, the numbers of the slices that the batch reads."""
    first = previous.inputs if previous else {}
    return {
        name: [
            range(first[name][index] if name in first else 0, end) for index, end in enumerate(ends)
        ]
        for name, ends in current.inputs.items()
    }


def spark_watermark(watermark_us: int) -> int:
    """What Spark is told a recorded watermark is: the last time that it rules out.

    A recorded watermark says that no row is older; Spark drops rows that are as old as its own.
    """
    return watermark_us - 1


def output_watermark(
    previous: RangeRecord | None,
    current: RangeRecord,
    *,
    stateful: bool,
    lag_us: int | None = 0,
) -> int | None:
    """Below which event time no later slice will hold rows.

    Spark runs a batch at the watermark that the batch before left behind, so a stateful segment
    may emit, one batch later, rows down to the watermark before: its promise lags one batch. What
    closes then has its end behind that watermark, so its last instant at or behind Spark's, which
    knows whole milliseconds only. A join may give out rows that are older still, by `lag_us` (None:
    of any age).
    """
    if not stateful:
        return current.watermark_us
    known = previous.watermark_us if previous else None
    if known is None or lag_us is None:
        return None
    return spark_watermark(known) // 1000 * 1000 - lag_us


def retained_floor(newest: int, retain: int = RETAIN_BATCHES) -> int:
    """The first batch whose range record and input a redo or takeover may still need.

    `newest` is the number of the newest range record of the unit.
    """
    return max(0, newest - retain - TRIM_MARGIN)


def slice_floor(boundary: str, shard: int, ranges: Iterable[RangeRecord | None]) -> int:
    """The first slice that some consumer's oldest retained batch reads.

    `ranges` holds, for every consuming unit, the range record *before* its oldest retained batch,
    or None if that batch is its first, which pins the log from the start.
    """
    floors = [item.inputs[boundary][shard] if item else 0 for item in ranges]
    return min(floors, default=0)


def epoch_due(last: int, tick: int, batching: Batching, *, max_epochs: int = 1 << 30) -> int | None:
    """The epoch up to which a source's next batch goes, or None before its time has come.

    Sources end their batches at whole batch intervals, so that several of them meet. Monotone even
    if the clock runs backwards: never below `last` + 1.
    """
    span = batching.batch_epochs
    first = (due_tick(last, batching) + 1) // span
    newest = min(tick, last + max(max_epochs, span)) + 1
    if newest // span < first:
        return None
    cell = first if batching.one_epoch_per_batch else roundest(first, newest // span)
    return cell * span - 1


def due_tick(last: int, batching: Batching) -> int:
    """The first epoch whose end makes a source's next batch due."""
    return ((last + 1) // batching.batch_epochs + 1) * batching.batch_epochs - 1


def roundest(low: int, high: int) -> int:
    """The number in [low, high] that the largest power of two divides; low >= 1.

    Whoever walks up the numbers by such steps, from wherever, in whatever strides, lands on every
    number that is rounder than all others it passes: so do two who fell behind differently.
    """
    for bits in range(high.bit_length(), -1, -1):
        number = high >> bits << bits
        if number >= low:
            return number
    raise ValueError(f"no number in [{low}, {high}]")


@dataclass(slots=True, kw_only=True)
class _Cursor:
    """How far the slices of one producing shard have been looked at."""

    name: str
    slices: Iterator[SliceRecord]
    end: int
    """Number of the first slice not looked at."""
    upto: int = -1
    watermark_us: int | None = None
    rows: int = 0
    ran_out: bool = False

    def reach(self, epoch: int) -> None:
        """Go on to the first slice that ends at or after an epoch, if it is published."""
        for item in self.slices:
            self.end += 1
            self.upto, self.watermark_us = item.upto, item.watermark_us
            self.rows += item.rows
            if item.upto >= epoch:
                return
        self.ran_out = True


def _common_ends(shards: Sequence[_Cursor]) -> Iterator[int]:
    """Epochs at which every shard has ended a slice, in order; the cursors stand there then."""
    epoch = 0
    while shards:
        for shard in shards:
            if shard.upto < epoch:
                shard.reach(epoch)
                if shard.ran_out:
                    return
        latest = max(shard.upto for shard in shards)
        if all(shard.upto == latest for shard in shards):
            yield latest
            latest += 1
        epoch = latest


def _choose_cut(
    after: int, shards: Sequence[_Cursor], batching: Batching
) -> tuple[int, list[tuple[int, int | None]]] | None:
    """The end of a batch, and for each shard the first slice after it and the watermark there.

    The first end in each batch interval is a candidate; the roundest that is not too large is it.
    """
    span = batching.batch_epochs
    cell = (after + 1) // span
    last = _last_cell(cell, batching)
    best = -1
    cut: tuple[int, list[tuple[int, int | None]]] | None = None
    for end in _common_ends(shards):
        if (end + 1) // span == cell:
            continue
        cell = (end + 1) // span
        if cut is not None and (
            cell > last or sum(shard.rows for shard in shards) > batching.max_rows
        ):
            break
        if cell & -cell >= best:
            best = cell & -cell
            cut = (end, [(shard.end, shard.watermark_us) for shard in shards])
        if batching.one_epoch_per_batch or cell >= last:
            break
    return cut


def _last_cell(cell: int, batching: Batching) -> int:
    """The last batch interval that is looked at for the end of a batch which begins in `cell`.

    The reach is a power of two of intervals. Such a window holds exactly one multiple of it, so
    nobody ever steps over one: however far behind they are, shards meet there at the latest.
    """
    reach = max(1, batching.max_epochs // batching.batch_epochs)
    return cell + (1 << (reach.bit_length() - 1))


def _smallest(watermarks: Iterable[int | None]) -> int | None:
    known = list(watermarks)
    if not known or any(item is None for item in known):
        return None
    return min(item for item in known if item is not None)
