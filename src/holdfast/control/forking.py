"""When results go on without an input that is gone, and when that ends.

A log is silent while its unit is down and no other replica of it runs. Once it has been so for
longer than `Tentative.after_s`, all units downstream of it, up to the sinks, go on in a fork: each
on the node of its exact unit, which waits for the input and so costs hardly anything. What a fork
is stands on record (`holdfast.streams.fork`); here is decided only when it begins and ends. When
several nodes fail at once they are not found dead at once: a fork also leaves out what runs where
the connection has just broken, and covers all that is silent above its sinks, so that one fork is
enough. What falls silent later, above the same sinks, is left out by the fork's units themselves;
what concerns other sinks as well, or leaves more than it covers to go on with, ends it, and a
larger one begins. What serves sinks of higher priority is started first; sinks of priority 0, and
what nobody else needs, wait for their input.

A fork ends when the exact sinks have come where it was when its input was back. It also ends, with
an explanation, when it is too old or too far ahead, when one of its units fails again and again,
when a stream that it forks changes hands, and with the launch. A coordinator that is killed finds
its fork in the journal, and gives the commands again that it may not have given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from holdfast.control.commands import EndFork, PutFork, StartUnit, StopUnit
from holdfast.control.concern import Concern
from holdfast.control.events import UnitReport
from holdfast.control.facts import (
    ForkBegan,
    ForkDown,
    ForkEnded,
    ForkFact,
    ForkPlaced,
    ForkRunning,
)
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.state.fork_state import ForkRecord, ForkState, ForkUnit
from holdfast.control.state.recovery_state import Recovery
from holdfast.control.state.unit_state import UnitRecord
from holdfast.deployment import UnitId
from holdfast.health.policy import Tentative

TOGETHER_S = 1.0
"""Losses that are found within this time of a fork's beginning count as one failure."""
MOST_FAILURES = 3
"""A unit of a fork that has failed so often ends it."""


class Units(Protocol):
    """What this machine sees of the exact units."""

    @property
    def units(self) -> Mapping[str, UnitRecord]: ...

    def partners(self, unit: UnitId) -> list[UnitRecord]: ...


class Recoveries(Protocol):
    """What it sees of their recoveries."""

    @property
    def under_way(self) -> Mapping[str, Recovery]: ...


class Signs(Protocol):
    """What it sees of their progress."""

    def epoch(self, unit: UnitId) -> int: ...


class Connections(Protocol):
    """What it sees of nodes."""

    def connected_since(self, node: str) -> float | None: ...

    def broke(self, node: str) -> bool: ...


class Run(Protocol):
    """What it sees of the run."""

    @property
    def stopping(self) -> bool: ...


class Forking:
    """Sees exact units; decides on forks, and starts and ends their units."""

    def __init__(
        self,
        *,
        state: ForkState,
        units: Units,
        recoveries: Recoveries,
        signs: Signs,
        connections: Connections,
        run: Run,
        policy: Tentative,
        reads: Mapping[str, tuple[str, ...]],
        intervals: Mapping[str, float],
        slack: int,
        out: Outlet[ForkFact, StartUnit | StopUnit | PutFork | EndFork],
    ) -> None:
        """Args as the types say.

        `reads`: segment to the segments that it reads, upstream first. `intervals`: the batch
        interval of each segment, seconds. `slack`: epochs that the exact sinks may lie behind the
        fork's and have caught up.
        """
        self._state = state
        self._units = units
        self._recoveries = recoveries
        self._signs = signs
        self._connections = connections
        self._run = run
        self._policy = policy
        self._reads = reads
        self._intervals = intervals
        self._concern = Concern(reads, policy.priorities)
        self._slack = slack
        self._out = out
        self.reports: dict[str, UnitReport] = {}
        """What the fork's units have said last; not journaled."""
        self._reached: dict[str, int] = {}
        """How far units of the fork have come, also those that are down now; not journaled."""
        self._target: dict[UnitId, int] | None = None
        """How far exact sinks have to come, since their input is back; None: it is not."""

    # What nodes say

    def connected(
        self, moment: Moment, node: str, incarnation: str, reports: Iterable[UnitReport]
    ) -> None:
        """A node connected: what was decided and never arrived is said again."""
        self.heard(moment, node, incarnation, reports)
        told = {(str(report.unit), report.generation) for report in reports}
        for unit in self._state.on_node(node):
            if (str(unit.unit), unit.generation) not in told:
                if unit.running:
                    self._down(moment, unit, failed=False, error=None)
                else:
                    self._out.send(_start(moment, unit, node))

    def heard(
        self, moment: Moment, node: str, incarnation: str, reports: Iterable[UnitReport]
    ) -> None:
        """A node told of the fork's units that it runs."""
        for told in reports:
            unit = self._state.unit(told.unit)
            if (
                unit is None
                or (unit.node, unit.incarnation) != (node, incarnation)
                or unit.generation != told.generation
            ):
                if told.state in ("starting", "running"):
                    self._out.send(
                        StopUnit(
                            cause=moment.cause,
                            node=node,
                            unit=told.unit,
                            generation=told.generation,
                        )
                    )
                continue
            self.reports[name := str(told.unit)] = told
            # One that was started again says nothing of what it had done before its next batch.
            if told.state == "running" and (told.epoch >= 0 or unit.generation == 1):
                self._reached[name] = max(told.epoch, self._reached.get(name, -1))
            match told.state:
                case "running" if not unit.running:
                    self._out.record(
                        ForkRunning(
                            at=moment.now,
                            cause=moment.cause,
                            unit=unit.unit,
                            generation=unit.generation,
                        )
                    )
                case "failed":
                    self._down(moment, unit, failed=True, error=told.error)
                case "stopped" | "ended" if not self._run.stopping:
                    self._down(moment, unit, failed=True, error=told.error)
                case _:
                    pass

    def node_gone(self, moment: Moment, node: str) -> None:
        """A node is lost or leaves: what it ran of a fork goes where the exact units go."""
        for unit in self._state.on_node(node):
            self._down(moment, unit, failed=False, error=None)

    def _down(self, moment: Moment, unit: ForkUnit, *, failed: bool, error: str | None) -> None:
        self.reports.pop(str(unit.unit), None)
        self._out.record(
            ForkDown(
                at=moment.now,
                cause=moment.cause,
                unit=unit.unit,
                generation=unit.generation,
                failed=failed,
                error=error,
            )
        )

    # Beginning and end

    def opened(self, moment: Moment, *, anew: bool) -> None:
        """A coordinator leads from now on; `anew`: in a launch of its own."""
        live = self._state.live
        if live is None:
            for fork in self._state.forks[-1:]:
                self._out.send(EndFork(cause=moment.cause, fork=fork.number, reason=fork.why))
        elif anew:
            self._end(moment, live, "the run was stopped", stop=False)
        else:
            self._put(moment, live)

    def look(self, moment: Moment) -> None:
        """See whether a fork is to begin or to end, and place what has no node."""
        if self._policy.after_s is None or self._run.stopping:
            return
        live = self._state.live
        silent = self._silent()
        if live is not None:
            why, hopeless = self._over(moment, live, silent)
            if why is None:
                self._place(moment, live)
                return
            self._end(moment, live, why, hopeless=hopeless)
            if hopeless:
                return
        # What ended the last one without hope ends the next one as well.
        over_at = self._state.forks[-1].ended_at if self._state.hopeless else None
        due = {
            unit
            for unit, since in silent.items()
            if self._due(unit, since, moment.now) and (over_at is None or since > over_at)
        }
        if due:
            self._begin(moment, due, silent)

    def _begin(self, moment: Moment, due: set[UnitId], silent: Mapping[UnitId, float]) -> None:
        suspects = self._suspects(silent)
        down = {*silent, *suspects}
        due = due | {unit for unit in suspects if unit.segment in self._policy.at_once}
        forked = self._concern.covers({u.segment for u in due}, {u.segment for u in down})
        exact = [
            record.unit
            for record in self._units.units.values()
            if record.unit.segment in forked and not record.unit.replica
        ]
        if not exact:
            return
        number = self._state.next_number
        first = min(silent[unit] for unit in due if unit in silent)
        names = ", ".join(map(str, sorted(due)))
        sinks = [name for name in self._concern.sinks if name in forked]
        shares = [(name, self._policy.predicted(name, map(str, down))) for name in sinks]
        self._out.record(
            ForkBegan(
                at=moment.now,
                cause=moment.cause,
                fork=number,
                units=tuple(unit.forked(number) for unit in exact),
                silent=tuple(sorted(down | self._without_input(down))),
                reason=f"{names} gone for {moment.now - first:.1f} s",
                fidelity=tuple((name, share) for name, share in shares if share is not None),
            )
        )
        live = self._state.live
        if live is not None:
            self._put(moment, live)
            self._place(moment, live)

    def _put(self, moment: Moment, live: ForkRecord) -> None:
        self._out.send(
            PutFork(
                cause=moment.cause,
                fork=live.number,
                units=tuple(unit.unit for unit in live.units.values()),
                silent=live.silent,
                patience_s=self._policy.after_s or 0.0,
                reason=live.reason,
            )
        )

    def _over(
        self, moment: Moment, live: ForkRecord, silent: Mapping[UnitId, float]
    ) -> tuple[str | None, bool]:
        """Why a fork ends, None if it does not; and whether none is to follow it for now."""
        policy = self._policy
        failed = next((u for u in live.units.values() if u.failures >= MOST_FAILURES), None)
        if failed is not None:
            why = (failed.error or "it stopped by itself").strip().splitlines()[-1]
            return f"{failed.unit} failed {failed.failures} times: {why}", True
        if moment.now - live.began_at > policy.most_s:
            return f"it has lived for {policy.most_s:g} s", True
        gone = [u.unit for u in live.units.values() if str(u.unit.exact) not in self._units.units]
        if gone:
            return f"{gone[0].exact} has handed its stream over", False
        segments = {unit.unit.exact.segment for unit in live.units.values()}
        ahead = max((fork - exact for _, fork, exact in self._sinks(live, segments)), default=0)
        if ahead > policy.most_epochs:
            return f"it is {ahead} epochs ahead of the exact results", True
        due = {unit for unit, since in silent.items() if self._due(unit, since, moment.now)}
        more = self._concern.uncovered({u.segment for u in due}, self._silenced(silent), segments)
        if more:
            names = ", ".join(map(str, sorted(due)))
            return f"{names} gone as well, which concerns {more}", False
        late = self._found_late(moment, live, due, segments)
        if late:
            return f"{', '.join(map(str, sorted(late)))} gone at the same time", False
        if any(self._downstream({unit}) & segments for unit in silent):
            self._target = None
            return None, False
        if self._target is None:
            self._target = self._aim(live, segments)
        aim = self._target
        if aim is None or any(to - self._signs.epoch(at) > self._slack for at, to in aim.items()):
            return None, False
        return "the exact results have caught up", False

    def _found_late(
        self, moment: Moment, live: ForkRecord, due: Iterable[UnitId], segments: set[str]
    ) -> set[UnitId]:
        """Units nobody is to wait for, which were lost with those of a fork that has just begun.

        Its own units would wait for them, for longer than another start takes.
        """
        if moment.now - live.began_at > TOGETHER_S or (self._policy.after_s or 0.0) <= TOGETHER_S:
            return set()
        return {
            unit
            for unit in due
            if unit.segment in self._policy.at_once
            and unit not in live.silent
            and self._downstream({unit}) & segments
        }

    def _aim(self, live: ForkRecord, segments: set[str]) -> dict[UnitId, int] | None:
        """How far exact sinks have to come; None: nobody has said yet how far the fork is.

        The fork goes on meanwhile: to come where it is now is enough, or it might never end on a
        machine that is too slow for both. Sinks that a new coordinator has not heard of are no
        further than those they read.
        """
        if not self._reached and any(u.running or u.was_down for u in live.units.values()):
            return None
        most = max(self._reached.values(), default=-1)
        ends = self._ends(live, segments)
        return {u.unit.exact: self._reached.get(str(u.unit), most) for u in ends}

    def _sinks(self, live: ForkRecord, segments: set[str]) -> list[tuple[UnitId, int, int]]:
        """The fork's sinks of which there are reports: how far each is, and its exact unit."""
        return [
            (unit.unit, self.reports[name].epoch, self._signs.epoch(unit.unit.exact))
            for unit in self._ends(live, segments)
            if (name := str(unit.unit)) in self.reports
        ]

    def _ends(self, live: ForkRecord, segments: set[str]) -> list[ForkUnit]:
        """The fork's sinks, or what comes next to them."""
        ends = [name for name in self._concern.sinks if name in segments]
        last = ends or [name for name in self._reads if name in segments][-1:]
        return [unit for unit in live.units.values() if unit.unit.exact.segment in last]

    def _end(
        self,
        moment: Moment,
        live: ForkRecord,
        why: str,
        *,
        hopeless: bool = False,
        stop: bool = True,
    ) -> None:
        self.reports.clear()
        self._reached.clear()
        self._target = None
        self._out.record(
            ForkEnded(
                at=moment.now, cause=moment.cause, fork=live.number, reason=why, hopeless=hopeless
            )
        )
        self._out.send(EndFork(cause=moment.cause, fork=live.number, reason=why))
        for unit in live.units.values():
            # They find the end by themselves; this is sooner.
            if stop and unit.node and self._connections.connected_since(unit.node) is not None:
                self._out.send(
                    StopUnit(
                        cause=moment.cause,
                        node=unit.node,
                        unit=unit.unit,
                        generation=unit.generation,
                    )
                )

    def _place(self, moment: Moment, live: ForkRecord) -> None:
        """Every unit of a fork runs where its exact one stands; first what is worth most."""
        worth = self._concern.worth
        for unit in sorted(live.units.values(), key=lambda one: -worth[one.unit.exact.segment]):
            if unit.node is not None:
                continue
            home = self._home(unit.unit.exact)
            if home is None or home.node is None or home.incarnation is None:
                continue
            self._out.record(
                ForkPlaced(
                    at=moment.now,
                    cause=moment.cause,
                    unit=unit.unit,
                    generation=unit.generation + 1,
                    node=home.node,
                    incarnation=home.incarnation,
                )
            )
            self._out.send(_start(moment, unit, home.node))

    def _home(self, exact: UnitId) -> UnitRecord | None:
        own = self._units.units.get(str(exact))
        for record in ([own] if own else []) + self._units.partners(exact):
            if record.node is not None and self._connections.connected_since(record.node):
                return record
        return None

    # Who is silent, and who reads it

    def _silent(self) -> dict[UnitId, float]:
        """Exact units whose log nobody writes, each with since when.

        One that runs again may have nothing to write before its next batch is due.
        """
        found: dict[UnitId, float] = {}
        for recovery in self._recoveries.under_way.values():
            runs = recovery.restored_at is not None
            wait_s = self._intervals.get(recovery.unit.segment, 0.0) if runs else 0.0
            self._note(found, recovery.unit, recovery.failed_at + wait_s)
        for record in self._units.units.values():
            if record.phase == "held":
                last = max((*record.errors, *record.crashes, *record.shortages), default=0.0)
                self._note(found, record.unit, last)
        return found

    def _note(self, found: dict[UnitId, float], unit: UnitId, since: float) -> None:
        own = UnitId(segment=unit.segment, shard=unit.shard, change=unit.change)
        others = self._units.partners(unit)
        if not any(other.phase == "running" for other in others):
            found[own] = min(since, found.get(own, since))

    def _suspects(self, silent: Collection[UnitId]) -> set[UnitId]:
        """Exact units of which nothing runs but where a connection has just broken.

        Their nodes may come back in a moment: then their logs are read again.
        """
        found = set()
        for record in self._units.units.values():
            unit = record.unit
            own = UnitId(segment=unit.segment, shard=unit.shard, change=unit.change)
            running = [
                one.node
                for one in (record, *self._units.partners(unit))
                if one.phase == "running" and one.node is not None
            ]
            if own not in silent and running and all(map(self._connections.broke, running)):
                found.add(own)
        return found

    def _without_input(self, down: Collection[UnitId]) -> set[UnitId]:
        """Exact units whose forks will give nothing, so that nobody waits for them as well."""
        mute = self._concern.mute(self._silenced(down)).difference(self._concern.sinks)
        return {
            record.unit
            for record in self._units.units.values()
            if record.unit.segment in mute and not record.unit.replica
        }

    def _silenced(self, silent: Collection[UnitId]) -> set[str]:
        """Segments all of whose units are silent."""
        loud = {
            record.unit.segment
            for record in self._units.units.values()
            if not record.unit.replica and record.unit not in silent
        }
        return set(self._reads) - loud

    def _due(self, unit: UnitId, since: float, now: float) -> bool:
        after = 0.0 if unit.segment in self._policy.at_once else self._policy.after_s
        return after is not None and bool(self._downstream({unit})) and now - since >= after

    def _downstream(self, units: Iterable[UnitId]) -> set[str]:
        return self._concern.downstream({unit.segment for unit in units})


def _start(moment: Moment, unit: ForkUnit, node: str) -> StartUnit:
    return StartUnit(
        cause=moment.cause,
        node=node,
        unit=unit.unit,
        generation=unit.generation,
        clone_from=None,
    )
