"""The decisions of the record protocol, free of files, clocks and Spark.

Problem: units read slices that other units publish; processes die, hang and wake up again at any
point. Every batch must nevertheless be one fixed set of input rows with one published result.
These functions say what a range record may contain, when the log may be trimmed, and who may still
write; `store` makes the answer durable, `spark` acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.model.records import RangeRecord, SliceRecord

MAX_BATCH_ROWS = 1_000_000
"""A unit that is behind takes no more rows than this in one batch, one slice per shard excepted."""

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

    The end is at most the smallest end epoch published by any shard of any input: a shard that
    has not yet published may still publish anything up to there. A unit that keeps up waits for
    `batch_epochs` new epochs; one that is behind takes all there is, up to `max_rows`.
    """
    after = previous.upto if previous else -1
    shards = [(name, index, slices) for name in unread for index, slices in enumerate(unread[name])]
    frontier = min((slices[-1].upto if slices else after for _, _, slices in shards), default=after)
    if frontier <= after:
        return None
    if not batching.one_epoch_per_batch and frontier < after + batching.batch_epochs:
        return None
    ends = sorted(
        {item.upto for _, _, slices in shards for item in slices if item.upto <= frontier}
    )
    upto = ends[0] if batching.one_epoch_per_batch else _bounded_end(ends, shards, batching)
    first = previous.inputs if previous else {}
    inputs: dict[str, tuple[int, ...]] = {}
    watermarks: list[int | None] = []
    for name, index, slices in shards:
        start = first[name][index] if name in first else 0
        taken = [item for item in slices if item.upto <= upto]
        inputs[name] = (*inputs.get(name, ()), start + len(taken))
        if taken:
            watermarks.append(taken[-1].watermark_us)
        else:
            watermarks.append(previous.watermark_us if previous else None)
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


def epoch_due(last: int, tick: int, batching: Batching) -> int | None:
    """The epoch up to which a source's next batch goes, or None before its time has come.

    Monotone even if the clock runs backwards: never below `last` + 1.
    """
    step = 1 if batching.one_epoch_per_batch else batching.batch_epochs
    if tick < last + step:
        return None
    return last + 1 if batching.one_epoch_per_batch else max(last + 1, tick)


def _bounded_end(
    ends: Sequence[int],
    shards: Sequence[tuple[str, int, Sequence[SliceRecord]]],
    batching: Batching,
) -> int:
    """The largest of `ends` that keeps the batch below `max_rows`, the first in any case."""
    chosen = ends[0]
    for end in ends[1:]:
        rows = sum(item.rows for _, _, slices in shards for item in slices if item.upto <= end)
        if rows > batching.max_rows:
            break
        chosen = end
    return chosen


def _smallest(watermarks: Iterable[int | None]) -> int | None:
    known = list(watermarks)
    if not known or any(item is None for item in known):
        return None
    return min(item for item in known if item is not None)
