"""Making a batch visible: the same for every kind of unit."""

from __future__ import annotations

from holdfast.model.records import SliceRecord
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog


def publish(
    log: SliceLog, records: list[SliceRecord], *, unit: str, crash: Crash
) -> list[SliceRecord]:
    """Make a batch visible, one boundary after the other."""
    stored = []
    for index, record in enumerate(records):
        stored.append(log.put_slice(record, unit=unit))
        if index == 0:
            crash.at("after-slice-record", unit, record.number)
    return stored
