"""The decisions of the record protocol, free of files, clocks and Spark.

Problem: units read slices that other units publish; processes die, hang and wake up again at any
point. Every batch must nevertheless be one fixed set of input rows with one published result.
These functions say what a range record may contain, when the log may be trimmed, and who may still
write; `store` makes the answer durable, `spark` acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.deployment.records import RangeRecord, SliceRecord

MAX_BATCH_ROWS = 1_000_000
"""A unit that is behind takes no more rows than this in one batch, unless one interval has more."""

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


Unread = Mapping[str, Sequence[Sequence[SliceRecord]]]
"""Boundary to, per producing shard, the published slices from the first unread one on."""


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
    """
    after = previous.upto if previous else -1
    shards = [(name, index, slices) for name in unread for index, slices in enumerate(unread[name])]
    ends = _common_ends(shards)
    upto = _choose_end(after, ends, shards, batching)
    if upto is None:
        return None
    first = previous.inputs if previous else {}
    inputs: dict[str, tuple[int, ...]] = {}
    watermarks: list[int | None] = []
    for name, index, slices in shards:
        start = first[name][index] if name in first else 0
        taken = [item for item in slices if item.upto <= upto]
        inputs[name] = (*inputs.get(name, ()), start + len(taken))
        watermarks.append(taken[-1].watermark_us)
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


def output_watermark(
    previous: RangeRecord | None, current: RangeRecord, *, stateful: bool
) -> int | None:
    """Below which event time no later slice will hold rows.

    Spark runs a batch at the watermark that the batch before left behind, so a stateful segment
    may emit, one batch later, rows down to the watermark before: its promise lags one batch.
    """
    if not stateful:
        return current.watermark_us
    return previous.watermark_us if previous else None


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
    first = (last + 1) // span + 1
    newest = min(tick, last + max(max_epochs, span)) + 1
    if newest // span < first:
        return None
    cell = first if batching.one_epoch_per_batch else roundest(first, newest // span)
    return cell * span - 1


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


def _common_ends(shards: Sequence[tuple[str, int, Sequence[SliceRecord]]]) -> list[int]:
    """Epochs at which every shard has ended a slice, in order."""
    ends = [{item.upto for item in slices} for _, _, slices in shards]
    return sorted(set.intersection(*ends)) if ends else []


def _choose_end(
    after: int,
    ends: Sequence[int],
    shards: Sequence[tuple[str, int, Sequence[SliceRecord]]],
    batching: Batching,
) -> int | None:
    """The first end in each batch interval is a candidate; the roundest that is not too large."""
    span = batching.batch_epochs
    chosen: tuple[int, int] | None = None
    cell = (after + 1) // span
    for end in ends:
        if (end + 1) // span == cell:
            continue
        cell = (end + 1) // span
        if chosen is not None:
            rows = sum(item.rows for _, _, slices in shards for item in slices if item.upto <= end)
            if rows > batching.max_rows:
                break
        chosen = max(chosen or (-1, -1), (cell & -cell, end))
        if batching.one_epoch_per_batch:
            break
    return chosen[1] if chosen else None


def _smallest(watermarks: Iterable[int | None]) -> int | None:
    known = list(watermarks)
    if not known or any(item is None for item in known):
        return None
    return min(item for item in known if item is not None)
