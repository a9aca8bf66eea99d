"""What a decision asks of the record store, one operation at a time.

A decision is a generator: it yields an operation and is sent its result. Whoever drives it may let
anything happen in between, which is just what happens to a process. Nothing else is shared, so an
order of operations is all there is to a protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from holdfast.streams.records import Floor, Record

T = TypeVar("T")
OperationT = TypeVar("OperationT")


@dataclass(frozen=True, slots=True)
class Get:
    """The record of a number in a folder, or None."""

    folder: str
    number: int


@dataclass(frozen=True, slots=True)
class Put:
    """Create a record unless the number is taken; gives what is stored afterwards."""

    folder: str
    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class Newest:
    """The largest number in a folder, -1 for none; costs time in the records kept there."""

    folder: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a record that no longer counts."""

    folder: str
    number: int


@dataclass(frozen=True, slots=True)
class GetFloor:
    """What of a folder was trimmed; it only rises."""

    folder: str


@dataclass(frozen=True, slots=True)
class RaiseFloor:
    """Announce what is about to be removed; a floor that is higher already stays."""

    folder: str
    floor: Floor


Operation: TypeAlias = Get | Put | Newest | Delete | GetFloor | RaiseFloor
Steps: TypeAlias = Generator[Operation, Any, T]


def drive(steps: Generator[OperationT, Any, T], execute: Callable[[OperationT], Any]) -> T:
    """Run a decision to its end, every operation as soon as it is asked for."""
    try:
        operation = next(steps)
        while True:
            operation = steps.send(execute(operation))
    except StopIteration as done:
        result: T = done.value
        return result


# Folders of numbered records. A unit's name is never used twice for other content, so neither is a
# folder's; where it lies is the store's affair.


def changes(stream: str) -> str:
    return f"{stream}/changes"


def closings(stream: str) -> str:
    return f"{stream}/closings"


def ranges(unit: str) -> str:
    return f"{unit}/ranges"


def slices(unit: str) -> str:
    return f"{unit}/slices"


def repairs(unit: str) -> str:
    return f"{unit}/repairs"


def skips(unit: str) -> str:
    return f"{unit}/skips"


def claims(unit: str, replica: int) -> str:
    return f"{unit}/claims-{replica}"


def branches(unit: str) -> str:
    return f"{unit}/branch"


TERMS = "coordinator/terms"
FORKS = "coordinator/forks"
FORK_ENDS = "coordinator/fork-ends"
RESTARTS = "run/restarts"
