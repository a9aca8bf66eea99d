"""What tests of exporters share: rows in the log of `a`, and what a unit is given."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Slice

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])


def publish_rows(log, unit, number, rows):
    """A slice of one epoch: a list of (key, value)."""
    table = pa.Table.from_pylist([{"key": k, "value": v} for k, v in rows], schema=SCHEMA)
    zeros = np.zeros(len(rows), dtype=np.int64)
    file = write_slice_file(log.data(unit, "a"), f"{number:010d}.arrow", table, zeros, zeros)
    log.publish(
        Slice(
            unit=unit,
            number=number,
            after=number - 1,
            upto=number,
            files={"a": (file,)},
            rows=len(rows),
        )
    )


def context_of(log, unit, generation, plan):
    return UnitContext(
        unit=unit,
        generation=generation,
        segment=plan.segment(unit.segment),
        deployment=plan,
        log=log,
        trimmer=Trimmer(log, plan),
        crash=Crash(),
    )
