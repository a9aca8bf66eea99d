"""One call of `Coordinator.handle`: what the machines may see and the only two things they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.control.commands import Command, Record
from holdfast.control.facts import Fact
from holdfast.control.pool import Candidate
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
    intervals: Mapping[str, float] = field(default_factory=dict)
    """Batch interval of each segment, seconds."""
    commands: list[Command] = field(default_factory=list)

    def record(self, fact: Fact) -> None:
        """Decide something for good."""
        self.state.apply(fact)
        self.commands.append(Record(fact=fact))

    def refresh(self, node: str) -> None:
        """Tell placement what has become of a node: its load, its warmth, its connection."""
        record, vitals = self.state.nodes.get(node), self.vitals.nodes.get(node)
        if record is None or vitals is None or not vitals.connected:
            self.vitals.pool.drop(node)
            return
        self.vitals.pool.put(
            Candidate(
                node=node,
                incarnation=record.incarnation,
                domain=record.domain,
                spare=record.spare,
                ready=vitals.ready,
                load=self.state.index.load(node),
            )
        )

    def send(self, command: Command) -> None:
        self.commands.append(command)
