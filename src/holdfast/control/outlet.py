"""The way out of a machine: the facts it may decide and the commands it may give, and no others.

All machines write to one ledger, so facts and commands stay in the order in which they were
decided. But each is given it as an `Outlet` of its own types: that a machine decides only what is
its own is checked before it runs, and costs nothing when it does.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from holdfast.control.commands import Command, Record
from holdfast.control.facts import Fact
from holdfast.control.state import State

FactT_contra = TypeVar("FactT_contra", contravariant=True)
CommandT_contra = TypeVar("CommandT_contra", contravariant=True)


class Moment(NamedTuple):
    """When it is, and what led to this decision."""

    now: float
    cause: str


class Outlet(Protocol[FactT_contra, CommandT_contra]):
    """What one machine can do: record facts of its kinds, send commands of its kinds."""

    def record(self, fact: FactT_contra, /) -> None:
        """Decide something for good."""

    def send(self, command: CommandT_contra, /) -> None:
        """Have something done."""


class Ledger:
    """The commands of one call of `Coordinator.handle`, in order."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._commands: list[Command] = []

    def record(self, fact: Fact, /) -> None:
        self._state.apply(fact)
        self._commands.append(Record(fact=fact))

    def send(self, command: Command, /) -> None:
        self._commands.append(command)

    def take(self) -> list[Command]:
        """All since the last time."""
        taken, self._commands = self._commands, []
        return taken
