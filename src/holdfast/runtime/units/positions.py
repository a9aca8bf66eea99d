"""What a native source does next: pure decisions over the newest range record.

Problem: two parties make batches of one sequence, Spark's thread (which has read rows up to some
offset) and the idle clock (which has none), in several generations, each of which may die or be
suspended between any two steps. Every offset must get exactly one batch, and no batch may be left
without its slice.

A range record is put only when the batch before is published. So at most the newest batch is
unpublished, and its record says all that a takeover needs: where Spark stands, where its last
batch began, and the watermark that decides lateness. Nothing older is ever looked up, so trimming
cannot hurt. An unpublished batch without rows is finished by whoever finds it; one with rows by the
generation whose Spark has read the same range again, which `align` sees to.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from holdfast.runtime.log.batching import Batching
from holdfast.streams.records import Range
from holdfast.streams.unit import Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """Where a native source stands after a batch: the `source` of its range record."""

    offset: str | None = None
    """Spark's end offset as it logs it; None: nothing was read yet."""
    start: str | None = None
    """Where Spark's last batch began; None: at the source's beginning."""
    batch: int = -1
    """Our number of that batch, -1 for none; smaller than the record's: this one has no rows."""
    watermark_us: int | None = None
    """The watermark before this batch; rows older than it are late."""

    @classmethod
    def after(cls, record: Range | None) -> SourcePosition:
        """The position on record."""
        return cls(**record.source) if record is not None else cls()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What Spark has read: the rows between two of its offsets."""

    start: str | None
    end: str


Deed = Literal["finish", "wait", "publish", "done", "put", "replan", "lost"]
"""What to do about the newest record:

- finish: publish its empty slice, then look again;
- wait: Spark has to read its rows again, which is not the idle clock's matter;
- publish: its rows are those in hand;
- done: the rows in hand were published;
- put: record the next batch, then look again;
- replan: another generation recorded another end from the same start, so that is what Spark must
  be told to read;
- lost: Spark does not go on where the records end.
"""


def next_deed(newest: Range | None, number: int, *, published: bool, read: Read | None) -> Deed:
    """What whoever has its turn does next; `read` is None for the idle clock.

    `number` is the batch of the newest record, -1 without one.
    """
    known = SourcePosition.after(newest)
    waits = newest is not None and not published
    if newest is not None and waits and known.batch < number:
        return "finish"
    if read is None:
        return "wait" if waits else "put"
    if waits and (read.start, read.end) == (known.start, known.offset):
        return "publish"
    if read.end == known.offset and not waits:
        return "done"
    if read.end == known.start:
        return "done"  # the batch before, which was published, or this one would not be on record
    if read.start == known.offset and not waits:
        return "put"
    return "replan" if newest is not None and read.start == known.start else "lost"


def next_batch(
    newest: Range | None,
    number: int,
    read: Read | None,
    *,
    upto: int,
    watermark_us: int | None,
) -> Proposal:
    """Batch `number`, after the newest on record: of the rows in hand, or an empty one."""
    known = SourcePosition.after(newest)
    position = SourcePosition(
        offset=read.end if read else known.offset,
        start=read.start if read else known.start,
        batch=number if read else known.batch,
        watermark_us=watermark_us,
    )
    return Proposal(upto=upto, source=position.to_json())


def stamp(after: int, tick: int, batching: Batching, limit: int | None = None) -> int:
    """The end epoch of a batch whose rows are here: that which is due, else the next to be.

    Rows do not wait for the clock: one interval ahead of it is the most they get, as Spark is
    triggered once per interval. A `limit` must be met.
    """
    due = batching.due(after, tick, limit)
    if due is None:
        span = batching.batch_epochs
        due = ((after + 1) // span + 1) * span - 1
    return due if limit is None else min(due, limit)
