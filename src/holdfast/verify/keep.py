"""A copy of what the sources of a run publish, made from outside while the run trims its own.

Results can be checked only against the whole input. A run that keeps it (`--keep-input`) never
trims it, so it would never show whether trimming goes wrong under faults. So a thread of the
checker copies every slice as it appears, as a stranger would: from the documented files alone. A
slice counts as copied when the copy reads whole; one that is torn for the moment is tried again,
and one that is gone before it was copied makes the check fail, not pass.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from holdfast.errors import CheckFailedError, CorruptLogError
from holdfast.verify.slice_log import (
    UnitFolder,
    kept_folder,
    numbered,
    read_any,
    read_record,
    repaired,
    repairs,
    slice_rows,
    units,
)

POLL_S = 0.2
"""Slices are trimmed ten batches after they were read at the earliest."""


class InputKeeper:
    """Copies the logs of some sources into the place where `verify` looks for kept input."""

    def __init__(self, run_dir: Path, sources: Collection[str]) -> None:
        self._run_dir = run_dir
        self._sources = tuple(sources)
        self._next: dict[str, int] = {}
        """Unit to the number of its first slice not yet copied."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep-input", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Copy what is there by now and end; to be called when the run has stopped."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self.step()

    def step(self) -> int:
        """Copy what is new; tells how many slices."""
        return sum(self._copy_unit(unit) for unit in self._units())

    def require_whole(self) -> None:
        """Raise if a slice was gone before it could be copied."""
        for unit in self._units():
            first = self._next.get(unit.name, 0)
            there = [number for number, path in unit.slices().items() if _is_slice(path)]
            if max(there, default=-1) >= first:
                raise CheckFailedError(
                    f"slice {first} of {unit.name} could not be copied before it was trimmed or "
                    "torn"
                )

    def trimmed(self) -> dict[str, int]:
        """Per unit of a source, the first slice that is not trimmed."""
        return {
            unit.name: max(numbered(unit.path / "slices-floor"), default=0)
            for unit in self._units()
        }

    def _units(self) -> list[UnitFolder]:
        return [unit for source in self._sources for unit in units(self._run_dir, source)]

    def _run(self) -> None:
        while not self._closed.wait(POLL_S):
            self.step()

    def _copy_unit(self, unit: UnitFolder) -> int:
        start = number = self._next.get(unit.name, 0)
        path = kept_folder(self._run_dir) / unit.path.relative_to(self._run_dir)
        target = replace(unit, path=path)
        records = unit.slices()
        while number in records and _copy(records[number], unit, target):
            number += 1
        self._next[unit.name] = number
        return number - start


def _is_slice(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, CorruptLogError):
        return read_any(path)[0] == "slice"
    return True  # torn, or gone by now: it could not be copied


def _copy(path: Path, unit: UnitFolder, target: UnitFolder) -> bool:
    """Copy a slice with its repairs, its record last; whether it is there and whole."""
    with contextlib.suppress(FileNotFoundError, CorruptLogError):
        number = int(path.name)
        record = repaired(unit, number, read_record(path, "slice"))
        for boundary, files in record["files"].items():
            target.data(boundary).mkdir(parents=True, exist_ok=True)
            for file in files:
                source = unit.data(boundary) / file["name"]
                shutil.copyfile(source, target.data(boundary) / file["name"])
            for _ in slice_rows(record, boundary, target.data(boundary)):
                pass
        for repair, _ in repairs(unit, number):
            (target.path / "repairs").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repair, target.path / "repairs" / repair.name)
        (target.path / "slices").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target.path / "slices" / path.name)
        return True
    return False
