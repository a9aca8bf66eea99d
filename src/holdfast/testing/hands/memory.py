"""What the processes of a world share, and what they may yield."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from holdfast.streams.records import Floor
from holdfast.streams.steps import (
    Delete,
    Get,
    GetFloor,
    Newest,
    Operation,
    Put,
    RaiseFloor,
)

Process = Generator[Any, Any, Any]
"""Yields operations on the records, and the three below; is sent results."""


class Local(NamedTuple):
    """A step that touches nothing shared: a place to be stopped at."""

    hurts: bool = False


class Idle(NamedTuple):
    """Nothing to do until something changes."""


class Rest(NamedTuple):
    """Others may do so many operations first."""

    operations: int


class Memory:
    """The record store: each operation is atomic, nothing else is."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[int, Any]] = {}
        self.floors: dict[str, Floor] = {}
        self.version = 0

    def execute(self, operation: Operation) -> Any:
        match operation:
            case Get(folder, number):
                return self.folders.get(folder, {}).get(number)
            case Put(folder, number, record):
                known = self.folders.setdefault(folder, {})
                if number not in known:
                    known[number] = record
                    self.version += 1
                return known[number]
            case Newest(folder):
                return max(self.folders.get(folder, ()), default=-1)
            case Delete(folder, number):
                self.folders.get(folder, {}).pop(number, None)
                return None
            case GetFloor(folder):
                return self.floors.get(folder, Floor())
            case RaiseFloor(folder, floor):
                if floor.number > self.floors.get(folder, Floor()).number:
                    self.floors[folder] = floor
                    self.version += 1
                return None
