"""Which node gets a unit.

First starts spread over the nodes that are not spares, least loaded first; units that a plan puts
together go where the first of them went. After a failure the
units of one lost node stay together: they go to one warm spare, so that the others are kept for the
next failure; without a spare they go to survivors, least loaded first. No node, spare or not, ever
gets more than `max_units_per_node`; a unit for which there is no room waits for a node to join. A
unit that failed with an exception is retried on its own node, whose session is warm; one that found
no room to write twice is tried elsewhere, where there may be some. A replica never shares a failure
domain with another one of its unit: without a node elsewhere it waits. A unit of a split has a node
to itself, so that its processor time and memory are its own: without an empty one it waits. Where a
path is probed a unit goes only if no node like that has room, and the probe is put off first.

With too few places for all that failed, `Policy.recovery_order` says who goes first: it is planned
so that results reflect as much of the input as possible, as soon as possible.

Greedy; a pass costs what it places, and nothing while no unit waits or no node has room.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

from holdfast.control.commands import StartUnit
from holdfast.control.facts import PlacementFact, PlaceReason, UnitPlaced, UnitWaiting
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.pool import Elsewhere, Pool
from holdfast.control.state.unit_state import UnitRecord
from holdfast.control.units import start_command
from holdfast.health.policy import Policy


class Run(Protocol):
    """What placement sees of the run."""

    @property
    def stopping(self) -> bool: ...

    @property
    def begun(self) -> bool: ...

    @property
    def opened_at(self) -> float: ...


class Waiting(Protocol):
    """What placement sees of the units' state: those that wait."""

    def ripen(self, now: float) -> None: ...

    @property
    def ready(self) -> AbstractSet[str]: ...

    @property
    def stuck(self) -> AbstractSet[str]: ...

    def in_order(self, names: Iterable[str]) -> list[UnitRecord]: ...

    def load(self, node: str) -> int: ...

    def node_of(self, unit: str) -> str | None: ...


class UnitKeeper(Protocol):
    """Who takes care of a unit from its placement on."""

    def expect(self, record: UnitRecord) -> None: ...


class Apart(Protocol):
    """Who knows what must not share a place."""

    def elsewhere(self, record: UnitRecord) -> Elsewhere | None: ...


class Guests(Protocol):
    """Who may be on a node that has no unit: probes of paths, and units that were left."""

    @property
    def restless(self) -> AbstractSet[str]: ...

    def make_way(self, moment: Moment, node: str) -> None: ...


class Placement:
    """Sees waiting units and the pool; decides placements, and starts what it has placed."""

    def __init__(
        self,
        *,
        waiting: Waiting,
        pool: Pool,
        run: Run,
        units: UnitKeeper,
        replicas: Apart,
        guests: Guests,
        policy: Policy,
        out: Outlet[PlacementFact, StartUnit],
    ) -> None:
        self._waiting = waiting
        self._pool = pool
        self._run = run
        self._units = units
        self._replicas = replicas
        self._guests = guests
        self._policy = policy
        self._rank = {name: place for place, name in enumerate(policy.recovery_order)}
        self._out = out
        self._together = {name: group for group in policy.together for name in group}

    def place(self, moment: Moment) -> None:
        """Give every unit that waits a node, as far as there is room."""
        if self._run.stopping:
            return
        seen, pool = self._waiting, self._pool
        seen.ripen(moment.now)
        waiting = seen.ready | seen.stuck if seen.stuck and pool.has_room() else seen.ready
        if not waiting or not self._gathered(moment.now):
            return
        stand_ins: dict[str, str] = {}
        for record in self._in_order(waiting):
            if record.announced and not pool.has_room():
                continue
            home = record.home or ""
            retry = _retry(record)
            shun = home if record.down == "no space" and not retry else None
            elsewhere, beside = self._replicas.elsewhere(record), self._beside(record)
            if record.unit.segment in self._policy.alone:
                chosen = pool.choose_empty(
                    first=not self._run.begun,
                    keep_on=home if retry else None,
                    shun=shun,
                    restless=self._guests.restless,
                )
            elif elsewhere is not None:
                chosen = pool.choose_apart(
                    elsewhere,
                    spread=record.down is None,
                    keep_on=home if retry else beside,
                    shun=shun,
                )
            else:
                chosen = pool.choose(
                    spread=record.down is None,
                    beside=beside,
                    keep_on=home if retry else None,
                    stand_in=stand_ins.get(home),
                    avoid_domain=record.home_domain,
                    shun=shun,
                )
            if chosen is None:
                if not record.announced:
                    self._out.record(
                        UnitWaiting(at=moment.now, cause=moment.cause, unit=record.unit)
                    )
                continue
            if elsewhere is None and record.unit.segment not in self._policy.alone:
                stand_ins[home] = chosen.node
            self._out.record(
                UnitPlaced(
                    at=moment.now,
                    cause=moment.cause,
                    unit=record.unit,
                    generation=record.generation + 1,
                    node=chosen.node,
                    incarnation=chosen.incarnation,
                    reason=_reason(record, retry=retry),
                )
            )
            pool.take(chosen.node, seen.load(chosen.node))
            self._units.expect(record)
            self._guests.make_way(moment, chosen.node)
            self._out.send(start_command(moment, record, chosen.node))

    def _beside(self, record: UnitRecord) -> str | None:
        """The node of a unit that this one is to share a node with."""
        if record.generation == 0 and record.home is not None:
            return record.home
        group = self._together.get(str(record.unit), ())
        return next((node for name in group if (node := self._waiting.node_of(name))), None)

    def _in_order(self, names: AbstractSet[str]) -> list[UnitRecord]:
        """Who needs a whole node, then upstream first; of those that failed, as the policy says."""
        found = self._waiting.in_order(names)
        if self._rank:
            last = len(self._rank)
            found.sort(
                key=lambda one: -1 if one.down is None else self._rank.get(str(one.unit), last)
            )
        if self._policy.alone:
            found.sort(key=lambda one: one.unit.segment not in self._policy.alone)
        return found

    def _gathered(self, now: float) -> bool:
        """Whether enough nodes have joined for a first placement to be balanced."""
        if self._run.begun or now - self._run.opened_at >= self._policy.gather_s:
            return True
        return self._pool.workers >= self._policy.workers


def _retry(record: UnitRecord) -> bool:
    """Whether to try again where it was."""
    return record.down in ("error", "stopped by itself", "left behind") or (
        record.down == "no space" and len(record.shortages) == 1
    )


def _reason(record: UnitRecord, *, retry: bool) -> PlaceReason:
    if record.generation == 0:
        return "first start"
    if record.down is None:
        return "resume"
    return "retry" if retry else "recovery"
