"""Which of several paths a split takes: a circuit breaker per path, as one pure machine.

The problem, after Pathfinder: a split has alternative paths in an order. Each has a breaker. A path
whose breaker is closed may carry items, and the lowest in the order that may is **active**. A
failing operator opens its path's breaker; after a while the path is probed with a share of the
items, whose results nobody reads; a good probe closes the breaker, a bad one opens it again; too
many bad ones in a row, and the path has failed for good.

```
             failures reach the threshold
    closed ------------------------------> open <---------------+
    ^ ^  ^                                 |  ^                 | bad probe
    | |  |                     open_s or   |  | opened by hand, |
    | |  |              cooldown_s is over |  | from any state  |
    | |  |                                 v  |                 |
    | |  +------ good probes ---------- half-open --------------+
    | |          reach the threshold       |                 or put off
    | |                                    | the last of the bad probes
    | +------- closed by hand -------------)--------------------- open
    +--------- closed by hand ---------- failed for good
```

The reading where the paper is silent: a path that fails within `settled_s` of a good probe does so
on probation, which counts as a bad probe, or one that fails under load alone would be switched to
and fro for ever; a probe that does not end in time is a bad one; what a person opened, no probe
closes. A probe that has to make room for work is put off, and says nothing about its path.

Every call is O(paths).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from holdfast.errors import BadInputError

BreakerState: TypeAlias = Literal["closed", "open", "half-open", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When breakers open, probe and give up."""

    failures: int = 1
    """Failures within `window_s` that open a breaker; at least 1."""
    window_s: float = 60.0
    losses: int = 2
    """Losses of a path's process within `window_s` that count as a failure; fewer are repaired like
    any other."""
    open_s: float = 15.0
    """From opening to the first probe."""
    cooldown_s: float = 15.0
    """From a bad probe to the next one."""
    probe_s: float = 30.0
    """A probe that has not ended after this long is a bad one."""
    successes: int = 1
    """Good probes in a row that close a breaker; at least 1."""
    probes: int = 20
    """Bad probes, without a settled time in between, after which a path has failed for good."""
    settled_s: float = 120.0
    """How long a path that a probe closed is on probation; then its bad probes are forgotten."""
    share: float = 0.05
    """Share of the items that a probe takes, above 0, at most 1."""

    def __post_init__(self) -> None:
        if min(self.failures, self.losses, self.successes, self.probes) < 1:
            raise ValueError("failures, losses, successes and probes must be at least 1")
        if min(self.window_s, self.open_s, self.cooldown_s, self.probe_s, self.settled_s) <= 0:
            raise ValueError("times of a breaker must be greater than 0")
        if not 0 < self.share <= 1:
            raise ValueError("share must be greater than 0 and at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One path's breaker; a value, so that it can be journaled as it is."""

    path: str
    version: str
    """Fingerprint of what the path does: another one has another history."""
    state: BreakerState = "closed"
    since: float = 0.0
    why: str = ""
    """What led to this state; empty: nothing has happened yet."""
    by_hand: bool = False
    """A person has opened it: it stays open until a person closes it."""
    failures: tuple[float, ...] = ()
    """When it failed while closed, within the window."""
    on_probation: bool = False
    """A probe has closed it, not long ago."""
    bad_probes: int = 0
    """Since it was last sound."""
    good_probes: int = 0
    """In a row, since the breaker opened."""
    probe: int = 0
    """Number of the last probe; 0: none yet."""
    probe_at: float | None = None
    """When the next probe is due; None: none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFailed:
    """An operator of a path was found to fail."""

    path: str
    why: str
    given_up: bool = False
    """It is not tried again by itself, so that this counts whatever the threshold is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEnded:
    """A probe has shown how a path does."""

    path: str
    probe: int
    good: bool
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePutOff:
    """The place of a probe was needed for a unit: it is begun again where there is another."""

    path: str
    probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAsked:
    """A person wants a path not to be used."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseAsked:
    """A person says that a path is sound."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferAsked:
    """A person wants a path to be active whenever it may; empty: by order again."""

    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed."""


BreakerEvent: TypeAlias = (
    PathFailed | ProbeEnded | ProbePutOff | OpenAsked | CloseAsked | PreferAsked | Tick
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate:
    """Have a path carry the items from now on."""

    path: str
    before: str | None
    """The one that did; None: all were down."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllDown:
    """No path may carry items: they wait until one may."""

    before: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProbe:
    """Run a path on a share of the items for nobody to read; answered by `ProbeEnded`."""

    path: str
    probe: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StopProbe:
    """End a probe whose result does not count any more."""

    path: str
    probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutDown:
    """A path has failed for good: nothing of it need run any more."""

    path: str
    why: str


BreakerCommand: TypeAlias = Activate | AllDown | StartProbe | StopProbe | ShutDown


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitState:
    """All that is to be remembered of a split."""

    breakers: tuple[Breaker, ...]
    """In the order of the paths."""
    preferred: str = ""
    active: str | None = None


class Breakers:
    """The breakers of one split."""

    def __init__(
        self,
        paths: Mapping[str, str],
        *,
        now: float,
        policy: BreakerPolicy | None = None,
        before: SplitState | None = None,
    ) -> None:
        """Args:
        paths: name to fingerprint, in their order.
        now: seconds since 1970.
        policy: when to open, to probe and to give up.
        before: what was remembered: of a path that is still the same, its breaker goes on, and a
            probe of it is begun anew; others begin closed. The next event says what follows.
        """
        if not paths:
            raise BadInputError("a split needs at least one path")
        self.policy = policy or BreakerPolicy()
        known = {item.path: item for item in before.breakers} if before is not None else {}
        self._breakers = {
            path: _resumed(known[path], now)
            if path in known and known[path].version == version
            else Breaker(path=path, version=version, since=now)
            for path, version in paths.items()
        }
        self._commands: list[BreakerCommand] = []
        self._places: int | None = None
        self._preferred = ""
        self._active = self._choose()
        if before is not None:
            self._preferred = before.preferred if before.preferred in paths else ""
            self._active = before.active if before.active in paths else None

    @property
    def active(self) -> str | None:
        """The path that carries the items; None: none may."""
        return self._active

    @property
    def state(self) -> SplitState:
        return SplitState(
            breakers=tuple(self._breakers.values()),
            preferred=self._preferred,
            active=self._active,
        )

    def handle(
        self, event: BreakerEvent, now: float, *, places: int | None = None
    ) -> list[BreakerCommand]:
        """Decide what follows from one event; probes that are due wait while there is no place.

        None: there is one for each.
        """
        self._commands = []
        self._places = places
        match event:
            case PathFailed():
                self._failed(self._of(event.path), event, now)
            case ProbeEnded():
                self._probed(self._of(event.path), event, now)
            case ProbePutOff():
                self._put_off(self._of(event.path), event, now)
            case OpenAsked():
                self._open_by_hand(self._of(event.path), now)
            case CloseAsked():
                self._close_by_hand(self._of(event.path), now)
            case PreferAsked():
                if event.path:
                    self._of(event.path)
                self._preferred = event.path
            case Tick():
                pass
            case _:
                assert_never(event)
        for path in self._breakers:
            self._look(path, now)
        self._take_turns()
        return self._commands

    def _of(self, path: str) -> Breaker:
        found = self._breakers.get(path)
        if found is None:
            known = ", ".join(self._breakers)
            raise BadInputError(f"no path {path!r}", hint=f"there are: {known}")
        return found

    def counts_again(self, path: str, now: float) -> bool:
        """Whether a failure that lasts counts once more.

        So often that it alone reaches a threshold of several within the window.
        """
        breaker = self._of(path)
        last = breaker.failures[-1] if breaker.failures else breaker.since
        return now - last >= self.policy.window_s / (2 * self.policy.failures)

    def _failed(self, breaker: Breaker, event: PathFailed, now: float) -> None:
        if breaker.state != "closed":
            return  # a probe says so itself; of one that is open, nothing new
        recent = [at for at in breaker.failures if now - at < self.policy.window_s]
        breaker = replace(breaker, failures=(*recent, now)[-self.policy.failures :])
        self._breakers[breaker.path] = breaker
        if len(breaker.failures) < self.policy.failures and not event.given_up:
            return
        if breaker.on_probation:
            self._bad_probe(breaker, event.why, now)
        else:
            self._open(breaker, event.why, now, now + self.policy.open_s)

    def _probed(self, breaker: Breaker, event: ProbeEnded, now: float) -> None:
        if breaker.state != "half-open" or breaker.probe != event.probe:
            return  # an earlier one, which does not count any more
        if not event.good:
            self._bad_probe(breaker, event.why or "a probe failed", now)
        elif breaker.good_probes + 1 >= self.policy.successes:
            why = event.why or "a probe succeeded"
            self._put(breaker, "closed", why, now, on_probation=True)
        else:
            # The next one is due, and waits like any other while there is no place for it.
            counted = replace(breaker, good_probes=breaker.good_probes + 1)
            self._breakers[breaker.path] = replace(counted, state="open", since=now, probe_at=now)

    def _put_off(self, breaker: Breaker, event: ProbePutOff, now: float) -> None:
        if breaker.state == "half-open" and breaker.probe == event.probe:
            self._commands.append(StopProbe(path=breaker.path, probe=breaker.probe))
            self._breakers[breaker.path] = replace(breaker, state="open", since=now, probe_at=now)

    def _bad_probe(self, breaker: Breaker, why: str, now: float) -> None:
        worse = replace(breaker, bad_probes=breaker.bad_probes + 1)
        if worse.bad_probes < self.policy.probes:
            self._open(worse, why, now, now + self.policy.cooldown_s)
            return
        why = f"{worse.bad_probes} probes failed; the last: {why}"
        self._put(worse, "failed", why, now, probe_at=None)
        self._commands.append(ShutDown(path=breaker.path, why=why))

    def _open(self, breaker: Breaker, why: str, now: float, probe_at: float | None) -> None:
        self._put(breaker, "open", why, now, probe_at=probe_at)

    def _open_by_hand(self, breaker: Breaker, now: float) -> None:
        if breaker.state == "half-open":
            self._commands.append(StopProbe(path=breaker.path, probe=breaker.probe))
        self._open(replace(breaker, by_hand=True), "opened by hand", now, None)

    def _close_by_hand(self, breaker: Breaker, now: float) -> None:
        """Whoever says that a path is sound forgives all that is held against it."""
        if breaker.state == "half-open":
            self._commands.append(StopProbe(path=breaker.path, probe=breaker.probe))
        sound = replace(breaker, bad_probes=0, by_hand=False, on_probation=False, failures=())
        if breaker.state == "closed":
            self._breakers[breaker.path] = sound
        else:
            self._put(sound, "closed", "closed by hand", now)

    def _put(
        self,
        breaker: Breaker,
        state: BreakerState,
        why: str,
        now: float,
        probe_at: float | None = None,
        *,
        on_probation: bool = False,
    ) -> None:
        self._breakers[breaker.path] = replace(
            breaker,
            state=state,
            since=now,
            why=why,
            failures=(),
            on_probation=on_probation,
            good_probes=0,
            probe_at=probe_at,
        )

    def _look(self, path: str, now: float) -> None:
        """What is due of one path."""
        breaker = self._breakers[path]
        match breaker.state:
            case "closed":
                if breaker.on_probation and now - breaker.since >= self.policy.settled_s:
                    self._breakers[path] = replace(breaker, bad_probes=0, on_probation=False)
            case "open":
                due = breaker.probe_at is not None and now >= breaker.probe_at
                if due and self._places != 0:
                    self._start_probe(breaker, now)
            case "half-open":
                if now - breaker.since >= self.policy.probe_s:
                    self._commands.append(StopProbe(path=path, probe=breaker.probe))
                    self._bad_probe(breaker, "a probe did not end in time", now)
            case "failed":
                pass
            case _:
                assert_never(breaker.state)

    def _start_probe(self, breaker: Breaker, now: float) -> None:
        self._places = None if self._places is None else self._places - 1
        probing = replace(breaker, state="half-open", since=now, probe=breaker.probe + 1)
        self._breakers[breaker.path] = replace(probing, probe_at=None)
        started = StartProbe(path=breaker.path, probe=probing.probe, share=self.policy.share)
        self._commands.append(started)

    def _choose(self) -> str | None:
        """The preferred path if it may, else the first in order that may."""
        may = [path for path, breaker in self._breakers.items() if breaker.state == "closed"]
        return self._preferred if self._preferred in may else next(iter(may), None)

    def _take_turns(self) -> None:
        before, self._active = self._active, self._choose()
        if self._active == before:
            return
        left = self._breakers[before] if before is not None else None
        if self._active is None:
            self._commands.append(AllDown(before=before or "", why=left.why if left else ""))
            return
        if left is not None and left.state != "closed":
            why = f"{left.path}: {left.why}"
        elif self._active == self._preferred:
            why = f"{self._active} is preferred"
        else:
            why = f"{self._active}: {self._breakers[self._active].why or 'first in order'}"
        self._commands.append(Activate(path=self._active, before=before, why=why))


def forgiven(split: SplitState) -> SplitState:
    """What is remembered in another launch: what people have asked for."""
    kept = tuple(breaker for breaker in split.breakers if breaker.by_hand)
    return SplitState(breakers=kept, preferred=split.preferred)


def _resumed(breaker: Breaker, now: float) -> Breaker:
    """As a coordinator finds it that has taken over: nobody has an eye on its probe any more."""
    if breaker.state != "half-open":
        return breaker
    return replace(breaker, state="open", since=now, probe_at=now)
