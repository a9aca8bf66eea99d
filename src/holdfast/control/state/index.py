"""Ways into the state that spare a look at every unit.

All of it follows from the state alone and is kept up by `State.apply`, so it is neither journaled
nor compared; `invariants` checks it against the state after every event of every test. Without it
each heartbeat would cost as much as there are units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from holdfast.health.agenda import Agenda


class Placed(Protocol):
    """What the index asks of a unit's record."""

    @property
    def phase(self) -> str: ...

    @property
    def node(self) -> str | None: ...

    @property
    def retry_at(self) -> float: ...

    @property
    def announced(self) -> bool: ...


class Index:
    """Units by node, and those that wait."""

    def __init__(self, units: Mapping[str, Placed], at: float) -> None:
        self.position = {name: index for index, name in enumerate(units)}
        """Upstream first."""
        self.by_node: dict[str, set[str]] = {}
        self.ready: set[str] = set()
        """Wait for a node and may be given one."""
        self.later = Agenda()
        """Wait until their time for another try has come."""
        self.stuck: set[str] = set()
        """Wait, and were told to have found no room."""
        for name, record in units.items():
            if record.node is not None:
                self.by_node.setdefault(record.node, set()).add(name)
            self._await(name, record, at)

    def moved(self, name: str, record: Placed, before: str | None, at: float) -> None:
        """A unit has changed; `before` is the node it was on."""
        if before != record.node:
            if before is not None:
                left = self.by_node[before]
                left.discard(name)
                if not left:
                    del self.by_node[before]
            if record.node is not None:
                self.by_node.setdefault(record.node, set()).add(name)
        self.ready.discard(name)
        self.stuck.discard(name)
        self.later.drop(name)
        self._await(name, record, at)

    def load(self, node: str) -> int:
        """How many units a node has."""
        return len(self.by_node.get(node, ()))

    def in_order(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self.position.__getitem__)

    def ripen(self, now: float) -> None:
        """Units whose time for another try has come are ready."""
        self.ready.update(self.later.due(now))

    def _await(self, name: str, record: Placed, at: float) -> None:
        if record.phase != "waiting":
            return
        if record.announced:
            self.stuck.add(name)
        elif record.retry_at > at:
            self.later.set(name, record.retry_at)
        else:
            self.ready.add(name)
