"""Removing what no retained batch of any consumer may still need, and what dead writers left.

First the floor is raised, then records are removed, then files: a reader that meets a missing
record below the floor knows it was left behind, and a crash in between leaves garbage that the
next trim removes, never a record without its files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.deployment import Deployment, Segment
from holdfast.deployment.records import parse_record_name
from holdfast.rundir.layout import STOP_MARK, unit_folder
from holdfast.runtime.log.protocol import RETAIN_BATCHES, retained_floor, slice_floor
from holdfast.runtime.log.slicelog import MAX_SKIPS, SliceLog
from holdfast.storage import Storage
from holdfast.storage.interface import LEFTOVER_S

TRIM_EVERY = 16
"""Batches between two trims of a unit: directory listings are paid for this rarely."""
WRITTEN = ("ranges", "floors", "generations", "files", "taken")
"""Folders of a unit with records in them, besides those of its skip records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmer:
    """Trims what one unit owns: its range records and its output slices."""

    log: SliceLog
    deployment: Deployment
    retain: int = RETAIN_BATCHES
    keep_input: bool = False
    """Never trim what sources published: for checking results against the whole input."""
    clock: Callable[[], float] = time.time
    """Wall-clock seconds, as files are stamped; tells what writers that died have left."""

    def trim_unit(self, unit: str, newest: int) -> int:
        """Remove range records and skips of batches no one can redo."""
        floor = retained_floor(newest, self.retain) - 1  # a batch needs the range before it
        layout = self.log.layout
        home = unit_folder(unit)
        skips = [layout.skips(unit, version) for version in range(1, MAX_SKIPS + 1)]
        self._sweep(home, *(f"{home}/{kind}" for kind in WRITTEN), *skips)
        if floor <= 0:
            return 0
        self.log.raise_floor(layout.unit_floors(unit), floor)
        removed = _remove(self.log, layout.ranges(unit), floor)
        for folder in skips:
            _remove(self.log, folder, floor)
        return removed

    def trim_outputs(self, segment: Segment, shard: int) -> int:
        """Remove published slices that every consumer has left behind for good."""
        layout = self.log.layout
        if self.keep_input and segment.kind == "source":
            return 0
        removed = 0
        for boundary in segment.outputs:
            floor = self._slice_floor(boundary.name, shard)
            if floor <= 0:
                continue
            self.log.raise_floor(layout.slice_floors(boundary.name, shard), floor)
            removed += _remove(self.log, layout.slices(boundary.name, shard), floor)
            # Also of batches that were written and never published: their number passes as well.
            _remove_files(self.log.data(boundary.name, shard), floor)
            self._sweep(layout.slices(boundary.name, shard))
            self._sweep(layout.slice_floors(boundary.name, shard))
        return removed

    def _sweep(self, *folders: str) -> None:
        """Remove temporary files that killed writers left."""
        for folder in folders:
            self.log.store.remove_leftovers(folder, self.clock() - LEFTOVER_S)

    def _slice_floor(self, boundary: str, shard: int) -> int:
        ranges = []
        for consumer in self.deployment.consumers(boundary):
            for index in range(consumer.shards):
                unit = f"{consumer.name}#{index}"
                oldest = retained_floor(self.log.newest_range(unit), self.retain)
                ranges.append(self.log.range(unit, oldest - 1) if oldest > 0 else None)
        # A range trimmed meanwhile reads as None, so as 0: the next trim will do.
        return slice_floor(boundary, shard, ranges)


def remove_stop_marks(log: SliceLog, unit: str, below: int) -> None:
    """Remove the stop marks of older generations: the claim of a newer one stops their tasks."""
    for name in log.store.names(unit_folder(unit)):
        number = name.removeprefix(STOP_MARK)
        if name.startswith(STOP_MARK) and number.isdigit() and int(number) < below:
            log.store.delete(f"{unit_folder(unit)}/{name}")


def _remove(log: SliceLog, folder: str, floor: int) -> int:
    doomed = [name for name in log.store.names(folder) if parse_record_name(name)[1] < floor]
    for name in doomed:
        log.store.delete(f"{folder}/{name}")
    return len(doomed)


def _remove_files(folder: Storage, floor: int) -> None:
    for name in folder.names(""):
        if name[:1].isdigit() and int(name.partition("-")[0]) < floor:
            folder.delete(name)
