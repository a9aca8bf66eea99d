"""Names of everything in a run directory; docs/reference/slice-log.md is its other half."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdfast.deployment import UnitId
from holdfast.deployment.records import record_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Paths below one run directory; record names are relative to it."""

    root: Path

    def ranges(self, unit: str) -> str:
        return f"units/{word(unit)}/ranges"

    def skips(self, unit: str) -> str:
        return f"units/{word(unit)}/skips"

    def unit_floors(self, unit: str) -> str:
        return f"units/{word(unit)}/floors"

    def generations(self, unit: str) -> str:
        return f"units/{word(unit)}/generations"

    def slices(self, boundary: str, shard: int) -> str:
        return f"log/{word(boundary)}/{shard}/slices"

    def slice_floors(self, boundary: str, shard: int) -> str:
        return f"log/{word(boundary)}/{shard}/floors"

    def data(self, boundary: str, shard: int) -> Path:
        return self.root / "log" / word(boundary) / str(shard) / "data"

    def side(self, unit: str) -> Path:
        """What a source notes while reading a batch: rows, late rows, the watermark it reached."""
        return self.root / "units" / word(unit) / "side"

    def late(self, unit: str) -> Path:
        return self.root / "units" / word(unit) / "late"

    def dead(self, unit: str) -> Path:
        return self.root / "units" / word(unit) / "dead"

    def checkpoint(self, unit: UnitId, generation: int) -> Path:
        return self.root / "checkpoints" / word(str(unit)) / f"{generation:06d}"


def word(name: str) -> str:
    """A name as one path component, readable where possible."""
    return quote(name, safe="@,#+= ")


def member(folder: str, number: int, timeline: int = 0) -> str:
    """Name of a numbered record in a folder."""
    return f"{folder}/{record_name(number, timeline)}"
