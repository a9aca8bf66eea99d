"""What drivers of this folder share: rows to read, and units to run until enough is done."""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId

if TYPE_CHECKING:
    from holdfast.runtime.spark.host import SparkUnitHost

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TIMEOUT_S = 240.0


def events(epoch, seed):
    return [
        (START + dt.timedelta(seconds=epoch), f"k{(epoch + index) % 3}", epoch * 4 + index + seed)
        for index in range(4)
    ]


def totals(frame):
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    return frame.groupBy("key").agg(F.sum("value").alias("total"))


def drive(
    host: SparkUnitHost,
    units: Iterable[UnitId],
    generation: int,
    is_done: Callable[[list[UnitReport]], bool],
) -> int:
    """Run units, after those of the generation before; 0: done, 1: one failed, 3: not in time."""
    deadline = time.monotonic() + TIMEOUT_S
    try:
        for unit in units:
            host.start(unit, generation, generation - 1 if generation else None)
        while time.monotonic() < deadline:
            found = host.poll()
            failed = [status for status in found if status.state == "failed"]
            if failed:
                sys.stderr.write(f"{failed[0].unit} {failed[0].operator}\n{failed[0].error}\n")
                return 1
            if is_done(found):
                return 0
            time.sleep(0.05)
        sys.stderr.write(f"not reached: {found}\n")
        return 3
    finally:
        host.close()
