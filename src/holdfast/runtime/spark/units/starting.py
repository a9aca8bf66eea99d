"""A unit while its session and schemas are being made, and how those that run are asked."""

from __future__ import annotations

import time
import traceback

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError
from holdfast.runtime.log.slicelog import EndedError
from holdfast.runtime.spark.units.unit import SparkUnit
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import ThreadUnit

TURN_S = 20.0
"""How long others wait at most for a unit to build its query."""
TURN_POLL_S = 0.01


def status_of(unit: SparkUnit | ThreadUnit | Starting) -> UnitReport:
    """How a unit does."""
    try:
        return unit.status()
    except (HoldfastError, OSError):
        # What waits could not be read. The unit fails on it by name when it comes to read it; the
        # others of this node have nothing to do with it.
        return unit.progress.report


class Starting:
    """Stands for a unit while its session and schemas are being made."""

    def __init__(self, unit: UnitId, generation: int, turn: int) -> None:
        self.unit, self.generation = unit, generation
        self.turn = turn
        self.stopping = False
        self.progress = Progress(unit, generation)

    def status(self) -> UnitReport:
        return self.progress.report

    def fail(self, error: BaseException, operator: str) -> None:
        text = "".join(traceback.format_exception(error))
        self.progress.tell(state="failed", error=text, operator=operator)

    def end(self, error: EndedError) -> None:
        """It had come to its end before."""
        self.progress.tell(state="ended", error=str(error), heirs=error.heirs)

    def cancel(self) -> None:
        self.progress.tell(state="stopped")

    def stop(self) -> None:
        self.stopping = True

    def join(self, timeout_s: float) -> None:
        """Nothing runs yet."""


def until_running(unit: SparkUnit) -> None:
    """Wait until a unit has built its query, or has failed; one that takes long holds up nobody."""
    end = time.monotonic() + TURN_S
    while status_of(unit).state == "starting" and time.monotonic() < end:
        time.sleep(TURN_POLL_S)
