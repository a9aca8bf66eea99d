"""Who of several coordinators is to lead: one follower, as a pure machine.

A follower hears beats of the leader over a connection. A leader that was killed shows as a broken
connection that cannot be made again, one that hangs or is cut off as silence. Then the follower
claims the next term; those of higher rank wait a little longer, so that mostly one of them does.
That is for speed alone: `streams.term` lets one claim of a number succeed, whoever else tries.

Nothing is unsafe about a claim that was not needed. The old leader finds the newer term before it
acts on anything it decides after that, and ends (`tenure`).

```
             beats                       Claimed
           +-------+                  +------------> leading
           v       |   lost, silent   |
        following -+---------------> claiming
         ^    |                       |
         |    +---- RunOver --> over  |
         +---------- Outrun ----------+
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from holdfast.errors import HoldfastError

Phase: TypeAlias = Literal["following", "claiming", "leading", "over"]
DEPOSED = 5
"""Exit code of a coordinator that another one has taken over from."""


class ImpossibleElectionError(HoldfastError):
    """An event that cannot come in this phase: a fault in the shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionPolicy:
    """When a follower takes over."""

    silence_s: float = 1.0
    """A leader that is connected and not heard for this long hangs or is cut off. It beats ten
    times as often."""
    lost_s: float = 0.1
    """A leader that cannot be reached for this long is gone."""
    stagger_s: float = 0.25
    """Every rank waits this much longer than the one before it: what a takeover takes."""
    pause_s: float = 0.5
    """A gap between two events longer than this means that the follower itself stood still, so
    silence in it says nothing about the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """There is a connection to a leader, from which nothing has been heard yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The leader of a term says that it leads."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """There is no leader to connect to, or the connection broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOver:
    """The leader says that the run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The term is ours, and so is its journal."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outrun:
    """Another one came first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed."""


Event: TypeAlias = Reached | Heard | Lost | RunOver | Claimed | Outrun | Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Try to begin the next term: answered by `Claimed` or `Outrun`."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """End the process: there is nothing to lead any more."""


Command: TypeAlias = Claim | Leave


class Election:
    """One coordinator's part in it."""

    def __init__(self, *, rank: int, now: float, policy: ElectionPolicy | None = None) -> None:
        """Args:
        rank: 0 claims first.
        now: seconds, of any clock that runs evenly.
        policy: when to take over.
        """
        self._policy = policy or ElectionPolicy()
        self._delay_s = rank * self._policy.stagger_s
        self.phase: Phase = "following"
        self.term = -1
        """The newest term heard of."""
        self._heard_at = now
        self._lost_at: float | None = now
        self._lost_before: float | None = None
        """When it was lost before the connection there is, as long as nothing is heard over it."""
        self._last_at = now

    def handle(self, event: Event, now: float) -> list[Command]:
        """Decide what follows from one event."""
        if now - self._last_at > self._policy.pause_s:
            self._forgive(now)
        self._last_at = now
        match event:
            case Tick():
                return self._look(now)
            case Heard():
                self._hear(event.term, now)
            case Reached():
                self._lost_before = self._lost_at
                self._heard_at, self._lost_at = now, None
            case Lost():
                self._lose(now)
            case RunOver():
                if self.phase == "following":
                    self.phase = "over"
                    return [Leave()]
            case Claimed():
                self._expect("claiming", event)
                self.phase, self.term = "leading", event.term
            case Outrun():
                self._expect("claiming", event)
                self.phase = "following"
                self._forgive(now)
            case _:
                assert_never(event)
        return []

    def _hear(self, term: int, now: float) -> None:
        # One of an older term has not noticed yet that it leads no more: it counts as silent.
        if term >= self.term:
            self.term, self._heard_at, self._lost_at = term, now, None
            self._lost_before = None

    def _lose(self, now: float) -> None:
        # Somebody else may listen where the leader did, and hang up on whoever connects: it stays
        # lost since when it was, or it would never be so for long enough.
        if self._lost_at is None:
            self._lost_at = now if self._lost_before is None else self._lost_before

    def _forgive(self, now: float) -> None:
        self._heard_at = now
        self._lost_at = now if self._lost_at is not None else None
        self._lost_before = now if self._lost_before is not None else None

    def _look(self, now: float) -> list[Command]:
        if self.phase != "following":
            return []
        if self._lost_at is not None and now - self._lost_at >= self._policy.lost_s + self._delay_s:
            return self._claim("no leader can be reached")
        silence_s = now - self._heard_at
        if self._lost_at is None and silence_s >= self._policy.silence_s + self._delay_s:
            return self._claim(f"the leader has been silent for {silence_s:.1f} s")
        return []

    def _claim(self, why: str) -> list[Command]:
        self.phase = "claiming"
        return [Claim(why=why)]

    def _expect(self, phase: Phase, event: Event) -> None:
        if self.phase != phase:
            raise ImpossibleElectionError(f"{event} while {self.phase}")
