"""Names of what units and the slice log keep; docs/reference/slice-log.md is its other half."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from holdfast.deployment import UnitId

ORIGIN = "origin"
"""Name of the record of when epoch 0 began."""
SCHEMAS = "schemas.json"
"""Name of the record of what columns every operator puts out."""
TAKEN = ("files", "taken")
"""Folders of a unit that reads files: names that batches took, and snapshots of all of them."""
INHERITED = "inherited"
"""Name of a record in the folder of such a unit: what those had taken that handed over to it."""
STOP_MARK = "stop-"
"""Start of the name of a file in a unit's folder that tells a generation's tasks to give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Names in the storage of a run: relative paths, never those of a file system."""

    def life(self, unit: str) -> str:
        return f"units/{word(unit)}/life"

    def data(self, unit: str, boundary: str = "") -> str:
        """The slice files of a unit on a boundary, or on all of them."""
        return f"units/{word(unit)}/data{'/' if boundary else ''}{word(boundary)}"

    def late(self, unit: str) -> str:
        return f"units/{word(unit)}/late"

    def dead(self, unit: str) -> str:
        return f"units/{word(unit)}/dead"

    def stop_marker(self, unit: str, generation: int, replica: int = 0) -> str:
        """A record that tells a generation's waiting tasks to give up."""
        return f"{unit_folder(unit)}/{stop_mark(replica)}{generation}"

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


def stop_mark(replica: int) -> str:
    """Start of the name of a replica's stop marks."""
    return f"{STOP_MARK}{replica}-" if replica else STOP_MARK


def unit_folder(unit: str) -> str:
    """All that a unit has on record; its state is in its checkpoints."""
    return f"units/{word(unit)}"


def stream_folder(stream: str) -> str:
    """All that is on record of who carries a stream."""
    return f"streams/{word(stream)}"


def record_folder(folder: str) -> str:
    """Where the numbered records of a folder of `holdfast.streams` are: OWNER/KIND."""
    owner, _, kind = folder.rpartition("/")
    if kind in ("changes", "closings"):
        return f"{stream_folder(owner)}/{kind}"
    if owner == "run":
        return kind
    return folder if owner == "coordinator" else f"{unit_folder(owner)}/{kind}"


def generation_word(generation: int) -> str:
    """Name of a generation's checkpoint among those of its unit."""
    return f"{generation:06d}"


def word(name: str) -> str:
    """A name as one path component, readable where possible."""
    return quote(name, safe="@,#+= ")


def member(folder: str, number: int) -> str:
    """Name of a numbered record in a folder; names sort as numbers do."""
    return f"{folder}/{number:010d}"
