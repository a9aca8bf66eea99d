"""Small logs for tests: a source `a` that two sinks read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.deployment.slicefiles import content_digest
from holdfast.runtime.log.slices import write_slice_file
from holdfast.streams.records import Floor, Range, Slice
from holdfast.streams.steps import Put, RaiseFloor, ranges
from holdfast.streams.unit import Position, Proposal

DEPLOYMENT = deployed(a_source(), a_sink("x"), a_sink("y"))
A, X, Y = "a.0#0", "x.0#0", "y.0#0"


def publish(log, number, *, value=1, unit=A, **options):
    """A slice of one row and one epoch."""
    name, rows = f"{number:010d}-g0-{value}.arrow", pa.table({"v": [value]})
    hashes = np.array([hash(value)])
    file = write_slice_file(log.data(unit, "a"), name, rows, np.array([0]), hashes)
    files = {"a": (file,)}
    item = Slice(
        unit=unit,
        number=number,
        after=number - 1,
        upto=number,
        files=files,
        rows=1,
        digest=content_digest(files),
    )
    return log.publish(item, **options)


def put_range(log, unit, number, upto=None):
    """The range of one epoch, as one who proposes it."""
    position = Position(batch=number, after=number - 1)
    end = number if upto is None else upto
    step = log.run(
        log.steps().next_step(unit, position, (), lambda *_: Proposal(upto=end, source="mine"))
    )
    return getattr(step, "range", step)


def put_ranges(log, unit, count):
    """Ranges of one epoch each, as they lie there."""
    for number in range(count):
        record = Range(unit=unit, number=number, after=number - 1, upto=number)
        log.records.execute(Put(ranges(unit), number, record))


def raise_floor(log, folder, number):
    log.records.execute(RaiseFloor(folder, Floor(number=number, epoch=number - 1)))
