"""What the processes of a world share, and what they may yield."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from holdfast.streams.records import Floor
from holdfast.streams.steps import Delete, Get, GetFloor, Newest, Operation, Put, RaiseFloor

Process = Generator[Any, Any, Any]
"""Yields operations on the records, and the three below; is sent results."""

NOTHING_TRIMMED = Floor()


class Local(NamedTuple):
    """A step that touches nothing shared: a place to be stopped at."""

    hurts: bool = False


class Idle(NamedTuple):
    """Nothing to do until something changes that the process has looked at since it last rested."""

    on: tuple[str, ...] = ()
    """What it looked at besides the records."""


class Rest(NamedTuple):
    """Others may do so many operations first."""

    operations: int


class Memory:
    """The record store: each operation is atomic, nothing else is."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[int, Any]] = {}
        self.floors: dict[str, Floor] = {}
        self.version = 0
        self.stamps: dict[str, int] = {}
        """Folder to the version at which it last changed."""
        self.changed: list[str] = []
        """Folders that have changed since somebody emptied this list."""

    def touch(self, folder: str) -> None:
        """Say that something has changed, a folder or what is watched under that name."""
        self.version += 1
        self.stamps[folder] = self.version
        self.changed.append(folder)

    def execute(self, operation: Operation) -> Any:
        # Called for every operation of every world: a chain of tests costs a third of a match.
        kind, folder = type(operation), operation.folder
        if kind is Get:
            known = self.folders.get(folder)
            return None if known is None else known.get(operation.number)  # type: ignore[union-attr]
        if kind is GetFloor:
            return self.floors.get(folder, NOTHING_TRIMMED)
        if kind is Newest:
            return max(self.folders.get(folder, ()), default=-1)
        return self._write(operation)

    def _write(self, operation: Operation) -> Any:
        match operation:
            case Put(folder, number, record):
                known = self.folders.setdefault(folder, {})
                if number not in known:
                    known[number] = record
                    self.touch(folder)
                return known[number]
            case Delete(folder, number):
                if self.folders.get(folder, {}).pop(number, None) is not None:
                    self.touch(folder)
            case RaiseFloor(folder, floor):
                if floor.number > self.floors.get(folder, NOTHING_TRIMMED).number:
                    self.floors[folder] = floor
                    self.touch(folder)
        return None
