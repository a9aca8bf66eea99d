"""The connected nodes that have room, in the order in which placement wants them.

First starts want workers before spares, then the least loaded. Recoveries want warm nodes, spares
first, outside the failure domain just lost, then the least loaded. Both orders are heaps whose
entries are checked when they come up: whenever something about a node changes, its new entry is
added and the old one is passed over. O(log nodes) a change, O(domains) a choice. A node on which a
path is probed comes after its likes: whoever is put there ends the probe.
"""

from __future__ import annotations

import heapq
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

SLACK = 64
"""Entries out of date that may always lie around."""

_Class = tuple[bool, bool, bool]
"""Not warm, a path is probed there, no spare: the smaller the better."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A connected node as placement sees it."""

    node: str
    incarnation: str
    domain: str
    spare: bool
    ready: bool
    load: int
    probing: bool = False
    """A path is probed there: whoever comes puts that off."""

    @property
    def rank(self) -> _Class:
        return (not self.ready, self.probing, not self.spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where a replica must not be put: where another one of its unit is."""

    nodes: frozenset[str]
    domains: frozenset[str]
    """Of those nodes, as far as they have one."""


class Pool:
    """Connected nodes."""

    def __init__(self, *, room: int) -> None:
        self._room = room
        self._nodes: dict[str, Candidate] = {}
        self._spread: list[tuple[bool, bool, int, str]] = []
        self._classes: dict[_Class, dict[str, list[tuple[int, str]]]] = {}
        self._entries = 0
        self.workers = 0
        """Nodes that are not spares."""

    @property
    def nodes(self) -> dict[str, Candidate]:
        """All of them by name, with or without room."""
        return self._nodes

    def put(self, candidate: Candidate) -> None:
        """A node connected, or something about it changed."""
        known = self._nodes.get(candidate.node)
        probing = known is not None and known.probing
        self._put(replace(candidate, probing=probing), known)

    def _put(self, candidate: Candidate, known: Candidate | None) -> None:
        self._nodes[candidate.node] = candidate
        self.workers += (not candidate.spare) - (known is not None and not known.spare)
        if candidate.load < self._room and candidate != known:
            self._push(candidate)

    def take(self, node: str, load: int) -> None:
        """A node was given a unit; it is no spare any more."""
        self._change(node, load, taken=True)

    def give_back(self, node: str, load: int) -> None:
        """A node has lost a unit; nothing, if it is not connected."""
        self._change(node, load, taken=False)

    def _change(self, node: str, load: int, *, taken: bool) -> None:
        known = self._nodes.get(node)
        if known is not None:
            self._put(replace(known, spare=known.spare and not taken, load=load), known)

    def probe(self, node: str, *, begins: bool) -> None:
        """A path is probed on a node, or is no more; nothing, if it is not connected."""
        known = self._nodes.get(node)
        if known is not None:
            self._put(replace(known, probing=begins), known)

    def drop(self, node: str) -> None:
        known = self._nodes.pop(node, None)
        self.workers -= known is not None and not known.spare

    def has_room(self) -> bool:
        return self._first_start() is not None

    def choose(
        self,
        *,
        spread: bool,
        beside: str | None = None,
        keep_on: str | None = None,
        stand_in: str | None = None,
        avoid_domain: str = "",
        shun: str | None = None,
    ) -> Candidate | None:
        """The best node with room, or None.

        Args:
            spread: a first start: leave spares alone if possible.
            beside: at a first start, the node that has units it is to be together with.
            keep_on: the node to stay on if it has room.
            stand_in: the node that took other units of the same lost node.
            avoid_domain: the failure domain just lost from; another one is better.
            shun: the node that is taken only if no other has room.
        """
        if shun is not None:
            return self._choose_but(shun, stand_in, avoid_domain) or self._with_room(shun)
        if spread:
            return self._with_room(beside) or self._first_start()
        found = self._with_room(keep_on) or self._with_room(stand_in)
        if found is not None:
            return found
        for rank in sorted(self._classes):
            chosen = self._best(rank, avoid_domain)
            if chosen is not None:
                return chosen
        return None

    def _choose_but(self, shun: str, stand_in: str | None, avoid: str) -> Candidate | None:
        """The best node for a recovery but one. O(nodes); disks are rarely full."""
        found = self._with_room(stand_in)
        if found is not None and found.node != shun:
            return found

        def rank(one: Candidate) -> tuple[bool, bool, bool, bool, int, str]:
            return (*one.rank, bool(avoid) and one.domain == avoid, one.load, one.node)

        free = [one for one in self._nodes.values() if one.load < self._room and one.node != shun]
        return min(free, key=rank, default=None)

    def choose_apart(
        self,
        elsewhere: Elsewhere,
        *,
        spread: bool,
        keep_on: str | None = None,
        shun: str | None = None,
    ) -> Candidate | None:
        """The best node with room away from some, or None. O(nodes); followers are few."""

        def rank(found: Candidate) -> tuple[bool, bool, bool, bool, bool, int, str]:
            spare = found.spare if spread else not found.spare
            cold = not spread and not found.ready
            last = found.node == shun
            away = found.node != keep_on
            return (last, away, cold, found.probing, spare, found.load, found.node)

        free = [
            found
            for found in self._nodes.values()
            if found.load < self._room
            and found.node not in elsewhere.nodes
            and found.domain not in elsewhere.domains
        ]
        return min(free, key=rank, default=None)

    def choose_empty(
        self,
        *,
        first: bool,
        keep_on: str | None = None,
        shun: str | None = None,
        restless: AbstractSet[str] = frozenset(),
    ) -> Candidate | None:
        """The best node without a unit, or None: warm ones before others. O(nodes).

        Spares are left alone while a run begins, and come first later: they have rehearsed. On
        `restless` nodes something has yet to end; they come last.
        """

        def rank(found: Candidate) -> tuple[bool, bool, bool, bool, bool, str]:
            spare = found.spare if first else not found.spare
            last = found.node == shun or found.node in restless
            away = found.node != keep_on
            return (last, away, not found.ready, found.probing, spare, found.node)

        free = [found for found in self._nodes.values() if found.load == 0]
        return min(free, key=rank, default=None)

    def _with_room(self, name: str | None) -> Candidate | None:
        found = self._nodes.get(name) if name else None
        return found if found is not None and found.load < self._room else None

    def _first_start(self) -> Candidate | None:
        heap = self._spread
        while heap:
            probing, spare, load, name = heap[0]
            found = self._nodes.get(name)
            if found is not None and (found.probing, found.spare, found.load) == (
                probing,
                spare,
                load,
            ):
                return found
            heapq.heappop(heap)
        return None

    def _best(self, rank: _Class, avoid: str) -> Candidate | None:
        """The least loaded of a class, outside one domain if there is any."""
        best: tuple[bool, int, str] | None = None
        domains = self._classes[rank]
        for domain in list(domains):
            head = self._head(domains[domain], rank, domain)
            if head is None:
                del domains[domain]
                continue
            key = (bool(avoid) and domain == avoid, *head)
            best = key if best is None or key < best else best
        return None if best is None else self._nodes[best[2]]

    def _head(
        self, heap: list[tuple[int, str]], rank: _Class, domain: str
    ) -> tuple[int, str] | None:
        while heap:
            load, name = heap[0]
            found = self._nodes.get(name)
            if found is not None and (found.rank, found.domain, found.load) == (rank, domain, load):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _push(self, candidate: Candidate) -> None:
        self._entries += 1
        if self._entries > 2 * len(self._nodes) + SLACK:
            self._rebuild()
            return
        heapq.heappush(
            self._spread, (candidate.probing, candidate.spare, candidate.load, candidate.node)
        )
        domains = self._classes.setdefault(candidate.rank, {})
        heapq.heappush(domains.setdefault(candidate.domain, []), (candidate.load, candidate.node))

    def _rebuild(self) -> None:
        """Forget entries that are out of date."""
        self._spread, self._classes, self._entries = [], {}, 0
        for candidate in self._nodes.values():
            if candidate.load < self._room:
                self._push(candidate)
