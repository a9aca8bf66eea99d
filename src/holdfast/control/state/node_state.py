"""The part of the state that is membership's: which nodes are in, and which never again."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.control.facts import NodeJoined, NodeLost
from holdfast.control.state.illegal import Illegal, expect

FENCED_LENGTH = 400
"""Lost incarnations remembered. One that returns after more losses than this joins as new and is
told to stop its stale units; records keep that safe."""


@dataclass(slots=True, kw_only=True)
class NodeRecord:
    """A node that has joined and is not lost."""

    node: str
    incarnation: str
    launch: str
    domain: str
    pid: int
    spare: bool
    """True until it gets its first unit."""
    joined_at: float


@dataclass(slots=True, kw_only=True)
class NodeState:
    """Nodes by name, and lost incarnations."""

    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    fenced: list[str] = field(default_factory=list)

    def live(self, node: str, incarnation: str) -> NodeRecord:
        """A node that units may be placed on."""
        record = self.nodes.get(node)
        if record is None or record.incarnation != incarnation:
            raise Illegal("node is not live")
        return record

    def join(self, fact: NodeJoined) -> None:
        known = fact.node in self.nodes or fact.incarnation in self.fenced
        expect(not known, "node cannot join")
        self.nodes[fact.node] = NodeRecord(
            node=fact.node,
            incarnation=fact.incarnation,
            launch=fact.launch,
            domain=fact.domain,
            pid=fact.pid,
            spare=fact.spare,
            joined_at=fact.at,
        )

    def lose(self, fact: NodeLost) -> None:
        record = self.nodes.get(fact.node)
        here = record is not None and record.incarnation == fact.incarnation
        expect(here, "node is not here to lose")
        del self.nodes[fact.node]
        self.fenced.append(fact.incarnation)
        del self.fenced[:-FENCED_LENGTH]
