"""Making a batch visible: the same for every kind of unit."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.deployment.records import SliceRecord
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog


def publish(
    log: SliceLog,
    records: list[SliceRecord],
    *,
    unit: str,
    crash: Crash,
    relay: Callable[[SliceRecord], list[SliceRecord]] | None = None,
) -> SliceRecord:
    """Make a batch visible, one boundary after the other; gives what counts on the first.

    That one decides. If other rows are stored there, `relay` makes the records of the other
    boundaries from them, so that all boundaries hold the rows of one run; without it that is an
    error.
    """
    first, *others = records
    stored = log.put_slice(first, unit=unit, adopt=relay is not None)
    crash.at("after-slice-record", unit, first.number)
    if relay is not None and not stored.same_content(first):
        others = relay(stored)
    for record in others:
        log.put_slice(record, unit=unit)
    return stored
