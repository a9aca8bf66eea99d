"""What a node process asks of the thing that runs units, free of Spark.

The node program sends heartbeats and takes commands; it must not know how a unit is executed, so
that it can be tested with a fake and so that a stuck Spark session never blocks a heartbeat.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.control.events import ProbeReport, UnitReport
from holdfast.deployment import UnitId


class UnitHost(Protocol):
    """Runs units; every call returns quickly, what happened is told by `poll`."""

    def start(self, unit: UnitId, generation: int, clone_from: int | None) -> None:
        """Begin to run a unit as this generation, with the checkpoint of `clone_from` if given."""
        ...

    def stop(self, unit: UnitId) -> None:
        """Begin to stop a unit; unknown units are ignored."""
        ...

    def poll(self) -> list[UnitReport]:
        """The report of every unit started and not yet forgotten."""
        ...

    def probe(self, split: str, path: str, probe: int, share: float) -> None:
        """Begin to run a path on a share of its input, for nobody to read."""
        ...

    def end_probe(self, split: str, path: str, probe: int) -> None:
        """Stop a probe, and forget it; unknown ones are ignored."""
        ...

    def probes(self) -> list[ProbeReport]:
        """How every probe does that was begun and not forgotten."""
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
