"""Probes of paths: each runs on a node that has no unit, and makes way for the first that comes.

What a probe shows would be wrong beside a unit, and so would what is judged of the unit: both use
the same processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Never, Protocol

from holdfast.control.commands import StartProbe, StopProbe
from holdfast.control.events import ProbeReport
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.pool import Candidate
from holdfast.health import breaker as b


class Places(Protocol):
    """What it sees of nodes."""

    @property
    def nodes(self) -> Mapping[str, Candidate]: ...

    def probe(self, node: str, *, begins: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    node: str
    number: int


class ProbeLife:
    """Which probe runs where; what it says of one that has ended is for its breaker."""

    def __init__(self, *, places: Places, out: Outlet[Never, StartProbe | StopProbe]) -> None:
        self._places = places
        self._out = out
        self._known: dict[tuple[str, str], _Probe] = {}
        """By split and path."""

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes on which a path is probed."""
        return frozenset(probe.node for probe in self._known.values())

    def free(self, restless: AbstractSet[str]) -> list[str]:
        """Warm nodes without a unit and without a probe, on which nothing has yet to end; spares
        first.
        """
        busy = self.nodes | restless
        found = [
            (not node.spare, node.node)
            for node in self._places.nodes.values()
            if node.load == 0 and node.ready and node.node not in busy
        ]
        return [name for _, name in sorted(found)]

    def start(
        self, moment: Moment, split: str, asked: b.StartProbe, restless: AbstractSet[str]
    ) -> None:
        """There is a free node: breakers ask for no more probes than there are."""
        node = self.free(restless)[0]
        self._known[split, asked.path] = _Probe(node=node, number=asked.probe)
        self._places.probe(node, begins=True)
        self._out.send(
            StartProbe(
                cause=moment.cause,
                node=node,
                split=split,
                path=asked.path,
                probe=asked.probe,
                share=asked.share,
            )
        )

    def stop(self, moment: Moment, split: str, path: str) -> None:
        """Nobody waits for a probe any more."""
        probe = self._forget(split, path)
        if probe is not None:
            self._tell_to_forget(moment, probe.node, split, path, probe.number)

    def heard(self, moment: Moment, node: str, told: ProbeReport) -> b.ProbeEnded | None:
        """A node has told how a probe does; gives its end, if it has come to it."""
        known = self._known.get((told.split, told.path))
        current = known is not None and (known.node, known.number) == (node, told.probe)
        if current and told.state == "running":
            return None
        # Else of a leader before, or one that nobody waits for any more.
        self._tell_to_forget(moment, node, told.split, told.path, told.probe)
        if not current:
            return None
        self._forget(told.split, told.path)
        good = told.state == "good"
        return b.ProbeEnded(path=told.path, probe=told.probe, good=good, why=told.why)

    def lost(self) -> list[tuple[str, b.ProbeEnded]]:
        """Splits with the ends of probes whose nodes are gone: nobody will hear of them."""
        gone = [key for key, probe in self._known.items() if probe.node not in self._places.nodes]
        found = []
        for split, path in gone:
            number = self._known.pop((split, path)).number
            ended = b.ProbeEnded(path=path, probe=number, good=False, why="its node was lost")
            found.append((split, ended))
        return found

    def in_the_way(self, node: str) -> list[tuple[str, b.ProbePutOff]]:
        """Splits with the probes on a node that is to run a unit."""
        return [
            (split, b.ProbePutOff(path=path, probe=probe.number))
            for (split, path), probe in self._known.items()
            if probe.node == node
        ]

    def _forget(self, split: str, path: str) -> _Probe | None:
        probe = self._known.pop((split, path), None)
        if probe is not None:
            self._places.probe(probe.node, begins=False)
        return probe

    def _tell_to_forget(
        self, moment: Moment, node: str, split: str, path: str, number: int
    ) -> None:
        self._out.send(
            StopProbe(cause=moment.cause, node=node, split=split, path=path, probe=number)
        )
