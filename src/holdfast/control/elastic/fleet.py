"""How many nodes a run takes for the units that it has, and which of them it can do without.

Reading: a run that begins with so many units on so many nodes has said how many units a node is to
have. More shards get nodes in the same proportion, before they are started; when units have become
fewer, nodes that were added and have none left are retired. Nodes that the run began with stay, and
so do spares: those are for failures. O(nodes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """One node that is no spare."""

    node: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPolicy:
    """What a run began with."""

    nodes: int
    units: int

    @property
    def per_node(self) -> int:
        """Units that a node is to have at most."""
        return max(1, -(-self.units // max(1, self.nodes)))

    def wanted(self, units: int) -> int:
        """Nodes for so many units; never fewer than at the beginning."""
        return max(self.nodes, -(-units // self.per_node))

    def missing(self, units: int, there: Iterable[NodeLoad]) -> int:
        """How many nodes to add before there are so many units."""
        return max(0, self.wanted(units) - len(list(there)))

    def idle(self, there: Iterable[NodeLoad], added: Collection[str]) -> list[str]:
        """Nodes to retire: added ones without units, as far as those left are enough."""
        nodes = list(there)
        surplus = len(nodes) - self.wanted(sum(node.units for node in nodes))
        empty = [node.node for node in nodes if node.node in added and not node.units]
        return empty[: max(0, surplus)]
