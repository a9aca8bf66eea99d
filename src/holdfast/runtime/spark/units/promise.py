"""Whether a segment keeps the watermark it has promised.

A slice's watermark says that no later slice of the shard holds older rows. Spark's own operators
keep that by their nature; a function with custom state may give out rows of any time. Behind it, a
stateful operator would drop such rows without a word, in which batch depends on the plan and on
failures. So a batch that holds one is not published: its unit fails and says which row came too
late for whom. Nothing is lost, and nothing that depends on the plan is ever published.

Cost: one column of the rows just written is read, and only where an operator with state follows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.deployment import Segment
from holdfast.deployment.slicefiles import SliceFile
from holdfast.pipeline import Pipeline
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import read_slice_file
from holdfast.runtime.spark.frames.compile import OperatorError
from holdfast.runtime.spark.io.publish import Written
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams.handover import Birth
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import least_known


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What rows of a segment must not be older than, and for whose sake."""

    operator: str
    """The segment's operator with state."""
    column: str
    """Event time."""
    reader: str
    """The first operator behind it that would drop what is late."""

    def check(self, promised_us: int | None, folder: Storage, files: Iterable[SliceFile]) -> None:
        """Raise if new rows are older than the slice before them has promised."""
        if promised_us is None:
            return
        oldest = oldest_us(folder, files, self.column)
        if oldest is None or oldest >= promised_us:
            return
        raise OperatorError(
            self.operator,
            f"gave out a row with {self.column} = {_time(oldest)}, after its earlier output has "
            f"ruled out rows older than {_time(promised_us)}, so {self.reader!r} would drop it; "
            f"give out no {self.column!r} behind the watermark, or give it another name",
        )


def promise_of(pipeline: Pipeline, segment: Segment, column: str | None) -> Promise | None:
    """What a segment must keep; None if it keeps no state, or if nobody behind it goes by time."""
    keeping = [name for name in segment.operators if pipeline.operator(name).keeps_state]
    reader = _reader(pipeline, segment.operators[-1])
    if not keeping or column is None or reader is None:
        return None
    return Promise(operator=keeping[-1], column=column, reader=reader)


def keep_promised(
    promise: Promise | None, context: UnitContext, number: int, written: Written
) -> None:
    """See that the files of a batch are on disk, and that they keep what was promised before."""
    written.keep()
    if promise is None:
        return
    boundary = context.segment.outputs[0].name
    folder = context.log.data(context.name, boundary)
    promised_us = promised_before(context.log, context.name, number)
    promise.check(promised_us, folder, written.files[boundary])


def promised_before(log: SliceLog, unit: str, number: int) -> int | None:
    """What was promised before a batch: by the one before it; before an heir's first, by the last
    of those whose state it has taken over. None: nothing, or that is trimmed.
    """
    if number > 0:
        before = log.slice(unit, number - 1)
        return before.watermark_us if before is not None else None
    try:
        born = log.run(log.steps().birth(unit))
    except TrimmedError:
        return None
    parents = born.parents if isinstance(born, Birth) else ()
    # A parent that was born and made nothing has promised what its own parents have.
    found = [promised_before(log, parent, batch + 1) for parent, batch in parents]
    return least_known(found)


def oldest_us(folder: Storage, files: Iterable[SliceFile], column: str) -> int | None:
    """The oldest time in a timestamp column of slice files, microseconds; None without any."""
    found = []
    for file in files:
        for batch in read_slice_file(folder, file, file.parts):
            times = batch.column(column).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            found.append(pc.min(times).as_py())
    return min((value for value in found if value is not None), default=None)


def _reader(pipeline: Pipeline, operator: str) -> str | None:
    behind = {operator}
    for later in pipeline.operators:
        if not behind.isdisjoint(later.inputs):
            if later.keeps_state:
                return later.name
            behind.add(later.name)
    return None


def _time(microseconds: int) -> str:
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=microseconds)
    return at.isoformat(sep=" ").replace("+00:00", " UTC")
