"""Who of a unit's replicas publishes: the leader at once, its followers after a head start.

Nobody is told to lead. Whoever published the last batch publishes the next one at once; the others
have computed it too, and publish it if it is not there a head start later. So a follower goes on in
place of a dead or hanging leader without anyone having to notice, and a leader that comes back, or
wakes up, finds the slice of another and follows. That both believe to lead costs one lost put.

The head start is a little above what the leader usually needs longer than its follower, so it is
short where both are equally fast, and a slow leader is left its lead. Where the storage shows that
the leader's process has ended, nobody waits for it; a hint, as all of this is only about time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.clock import Clock
from holdfast.runtime.log.watch import Watch

LEAST_S = 0.05
"""The shortest head start: clocks, threads and file systems are not more punctual."""
MOST_S = 1.0
"""The longest: a leader that needs so much longer is better replaced."""
FIRST_S = 0.3
"""While nothing is known of the leader."""
FACTOR = 1.5
LIFE_S = 0.02
"""How often one who waits looks whether the leader lives."""
MEMORY = 32
"""Batches by which the lag of a leader is judged."""


@dataclass(slots=True)
class HeadStart:
    """How long a follower waits for its leader's slice, by how long it had to wait before."""

    _lags: deque[float] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def observe(self, lag_s: float) -> None:
        """The leader's slice appeared so long after the follower had computed its own, or later."""
        self._lags.append(lag_s)

    @property
    def value_s(self) -> float:
        if not self._lags:
            return FIRST_S
        return min(MOST_S, max(LEAST_S, FACTOR * max(self._lags)))


class Marks(Protocol):
    """By what one sees that a batch is published or delivered."""

    def by(self, number: int) -> str | None:
        """Who has published it; None: nobody yet."""
        ...

    def lives(self, writer: str) -> bool:
        """Whether one who has published before may still do so."""
        ...

    def path(self, number: int) -> str:
        """What appears when it is, as a watch takes it."""
        ...


class Lead(Protocol):
    """A replica's part in publishing."""

    @property
    def leads(self) -> bool: ...

    @property
    def shared(self) -> bool:
        """Whether there are other replicas."""
        ...

    def give_way(self, number: int) -> bool:
        """Wait until the leader has published a batch, for its head start at most.

        Whether it has. At once for a leader, and the second time for a batch.
        """
        ...

    def settle(self, *, mine: bool) -> None:
        """A batch is published, by this replica or another."""
        ...

    def let_go(self) -> None:
        """This replica ends: nobody need wait for it."""
        ...


class Alone:
    """The only replica."""

    leads, shared = True, False

    def give_way(self, number: int) -> bool:  # noqa: ARG002 - there is nobody to wait for
        return False

    def settle(self, *, mine: bool) -> None:
        """Nothing depends on it."""

    def let_go(self) -> None:
        """Nobody waits."""


class Shared:
    """One of several replicas."""

    shared = True

    def __init__(
        self,
        marks: Marks,
        *,
        leads: bool,
        watch: Watch,
        clock: Clock,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        """Args as the types say; `leads`: it begins as the leader; `let_go`: tells others of its
        end.
        """
        self._let_go = let_go
        self._marks, self._watch, self._clock = marks, watch, clock
        self._leads = leads
        self._head_start = HeadStart()
        self._leader: str | None = None
        """Who published the last batch that was waited for."""
        self._waited: tuple[int, bool] | None = None
        """The batch that was waited for last, and whether it was published meanwhile."""
        self._wake = threading.Event()

    @property
    def leads(self) -> bool:
        return self._leads

    def give_way(self, number: int) -> bool:
        if self._leads:
            return False
        if self._waited is None or self._waited[0] != number:
            self._waited = (number, self._wait(number))
        return self._waited[1]

    def _wait(self, number: int) -> bool:
        start = self._clock.now()
        deadline = start + self._head_start.value_s
        while (by := self._marks.by(number)) is None:
            now = self._clock.now()
            if now >= deadline:
                # Should the leader be slow and not dead, it is given more time when it leads again.
                self._head_start.observe(now - start)
                return False
            if self._leader is not None and not self._marks.lives(self._leader):
                self._leader = None
                return False
            path = self._marks.path(number)
            self._wake.clear()  # rung for an earlier batch, it would end this wait at once
            self._watch.wait((path,), min(LIFE_S, deadline - now), self._wake)
        self._leader = by
        self._head_start.observe(self._clock.now() - start)
        return True

    def settle(self, *, mine: bool) -> None:
        self._leads = mine

    def let_go(self) -> None:
        self._let_go()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBy:
    """Marks that are records, found by name."""

    writer: Callable[[int], str | None]
    alive: Callable[[str], bool]
    address: Callable[[int], str]

    def by(self, number: int) -> str | None:
        return self.writer(number)

    def lives(self, writer: str) -> bool:
        return self.alive(writer)

    def path(self, number: int) -> str:
        return self.address(number)
