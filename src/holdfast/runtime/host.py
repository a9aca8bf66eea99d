"""What a node process asks of the thing that runs units, free of Spark.

The node program sends heartbeats and takes commands; it must not know how a unit is executed, so
that it can be tested with a fake and so that a stuck Spark session never blocks a heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.deployment import UnitId

UnitState = Literal["starting", "running", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One unit as its host sees it now."""

    unit: UnitId
    generation: int
    state: UnitState
    batch: int = -1
    """Number of the last batch published or delivered by anyone; -1: none yet."""
    epoch: int = -1
    """End epoch of that batch; -1: none yet."""
    rows_in: int = 0
    """Rows read since this generation started."""
    rows_out: int = 0
    """Rows published or delivered since this generation started."""
    batch_ms: float = 0.0
    """Duration of the last batch, milliseconds."""
    waiting: int = 0
    """Epochs published by every input, or due by the clock for a source, and not yet processed."""
    state_bytes: int = 0
    """Memory the unit's state stores use, bytes."""
    error: str | None = None
    """Traceback text when failed."""
    operator: str | None = None
    """The operator whose function failed, if known."""


class UnitHost(Protocol):
    """Runs units; every call returns quickly, what happened is told by `poll`."""

    def start(self, unit: UnitId, generation: int, clone_from: int | None) -> None:
        """Begin to run a unit as this generation, with the checkpoint of `clone_from` if given."""
        ...

    def stop(self, unit: UnitId) -> None:
        """Begin to stop a unit; unknown units are ignored."""
        ...

    def poll(self) -> list[UnitStatus]:
        """The status of every unit started and not yet forgotten."""
        ...

    def open(self) -> None:
        """Get what every unit needs, such as a session, or raise; blocks until it is there."""
        ...

    def warm(self) -> None:
        """Make a spare hot: open, and run a query of a similar shape once.

        Like `open` and unlike the others it blocks until it is done; run it on a thread.
        """
        ...

    def close(self) -> None:
        """Stop everything and let go of the session."""
        ...
