"""Names of what units and the slice log keep; docs/reference/slice-log.md is its other half."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdfast.deployment import UnitId
from holdfast.deployment.records import record_name

ORIGIN = "origin"
"""Name of the record of when epoch 0 began."""
STOP_MARK = "stop-"
"""Start of the name of a file in a unit's folder that tells a generation's tasks to give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Paths below one run directory; record names are relative to it."""

    root: Path

    def ranges(self, unit: str) -> str:
        return f"units/{word(unit)}/ranges"

    def skips(self, unit: str, version: int) -> str:
        return f"units/{word(unit)}/skips/{version}"

    def unit_floors(self, unit: str) -> str:
        return f"units/{word(unit)}/floors"

    def generations(self, unit: str) -> str:
        return f"units/{word(unit)}/generations"

    def life(self, unit: str) -> str:
        return f"units/{word(unit)}/life"

    def slices(self, boundary: str, shard: int) -> str:
        return f"log/{word(boundary)}/{shard}/slices"

    def slice_floors(self, boundary: str, shard: int) -> str:
        return f"log/{word(boundary)}/{shard}/floors"

    def data(self, boundary: str, shard: int) -> Path:
        return self.root / "log" / word(boundary) / str(shard) / "data"

    def late(self, unit: str) -> Path:
        return self.root / "units" / word(unit) / "late"

    def dead(self, unit: str) -> Path:
        return self.root / "units" / word(unit) / "dead"

    def stop_marker(self, unit: str, generation: int) -> Path:
        """A file that tells a generation's waiting tasks to give up."""
        return self.unit_path(unit) / f"{STOP_MARK}{generation}"

    def boundary_path(self, boundary: str) -> Path:
        """All that was published on a boundary."""
        return self.root / "log" / word(boundary)

    def unit_path(self, unit: str) -> Path:
        """All that a unit has on record; its state is in its checkpoints."""
        return self.root / unit_folder(unit)

    def checkpoints(self, unit: str) -> Path:
        """The checkpoints of all generations of a unit."""
        return self.root / "checkpoints" / word(unit)

    def checkpoint(self, unit: UnitId, generation: int) -> Path:
        return self.checkpoints(str(unit)) / f"{generation:06d}"


def unit_folder(unit: str) -> str:
    """Of a unit's records, relative to the run directory."""
    return f"units/{word(unit)}"


def word(name: str) -> str:
    """A name as one path component, readable where possible."""
    return quote(name, safe="@,#+= ")


def member(folder: str, number: int, timeline: int = 0) -> str:
    """Name of a numbered record in a folder."""
    return f"{folder}/{record_name(number, timeline)}"
