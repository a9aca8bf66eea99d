"""Names of what units and the slice log keep; docs/reference/slice-log.md is its other half."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from holdfast.deployment import UnitId
from holdfast.deployment.records import record_name

ORIGIN = "origin"
"""Name of the record of when epoch 0 began."""
SCHEMAS = "schemas.json"
"""Name of the record of what columns every operator puts out."""
STOP_MARK = "stop-"
"""Start of the name of a file in a unit's folder that tells a generation's tasks to give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Names in the storage of a run: relative paths, never those of a file system."""

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

    def data(self, boundary: str, shard: int) -> str:
        return f"log/{word(boundary)}/{shard}/data"

    def late(self, unit: str) -> str:
        return f"units/{word(unit)}/late"

    def dead(self, unit: str) -> str:
        return f"units/{word(unit)}/dead"

    def stop_marker(self, unit: str, generation: int) -> str:
        """A record that tells a generation's waiting tasks to give up."""
        return f"{unit_folder(unit)}/{STOP_MARK}{generation}"

    def boundary_folder(self, boundary: str) -> str:
        """All that was published on a boundary."""
        return f"log/{word(boundary)}"

    def checkpoints(self, unit: str) -> str:
        """The checkpoints of all generations of a unit."""
        return f"checkpoints/{word(unit)}"

    def checkpoint(self, unit: UnitId, generation: int) -> str:
        return f"{self.checkpoints(str(unit))}/{generation_word(generation)}"

    def tables(self, operator: str) -> str:
        """Static tables of one operator, as the run has read them."""
        return f"tables/{word(operator)}"

    def table(self, operator: str, table: str) -> str:
        """Copies of a table, folders of Parquet files, and the record of which one counts."""
        return f"{self.tables(operator)}/{word(table)}"

    def removed(self, identity: str) -> str:
        """Where what is removed as a whole lies meanwhile; a new start of the run removes it."""
        return f"scratch/reset-{identity}"


def unit_folder(unit: str) -> str:
    """All that a unit has on record; its state is in its checkpoints."""
    return f"units/{word(unit)}"


def generation_word(generation: int) -> str:
    """Name of a generation's checkpoint among those of its unit."""
    return f"{generation:06d}"


def word(name: str) -> str:
    """A name as one path component, readable where possible."""
    return quote(name, safe="@,#+= ")


def member(folder: str, number: int, timeline: int = 0) -> str:
    """Name of a numbered record in a folder."""
    return f"{folder}/{record_name(number, timeline)}"
