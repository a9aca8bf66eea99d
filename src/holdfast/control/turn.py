"""One call of `Coordinator.handle`: what the machines may see and the only two things they do."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.control.commands import Command, Record
from holdfast.control.facts import Fact
from holdfast.control.state import State
from holdfast.control.vitals import Vitals
from holdfast.health.policy import Policy


@dataclass(slots=True, kw_only=True)
class Turn:
    """The state, the moment and the commands decided so far."""

    now: float
    cause: str
    policy: Policy
    state: State
    vitals: Vitals
    commands: list[Command] = field(default_factory=list)

    def record(self, fact: Fact) -> None:
        """Decide something for good."""
        self.state.apply(fact)
        self.commands.append(Record(fact=fact))

    def send(self, command: Command) -> None:
        self.commands.append(command)
