"""The life of a unit after its placement: runs, fails, stalls, is held.

An exception is retried within a budget; beyond it the unit is held, with the operator's name and
the traceback, while all other units go on. One that a full disk explains is nobody's fault, and is
retried ever more slowly until there is room. A stall takes the whole node down, because Spark
cannot stop a stuck batch; the node's other units recover elsewhere, only the culprit is charged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.control.commands import StartUnit, StopUnit
from holdfast.control.events import RetryRequested, UnitReport
from holdfast.control.facts import (
    DownReason,
    UnitDown,
    UnitFact,
    UnitHeld,
    UnitParked,
    UnitReleased,
    UnitRunning,
)
from holdfast.control.handover import HandoverLife
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.recovery import RecoveryLife
from holdfast.control.replication import Replication
from holdfast.control.state.unit_state import UnitRecord, UnitState
from holdfast.control.vitals import UnitSigns, UnitVitals
from holdfast.health.policy import Policy
from holdfast.health.stall import MAX_DOUBLINGS, StallDetector

_NO_SPACE = re.compile(
    r"\[Errno (?:27|28|30|122)\]"  # EFBIG, ENOSPC, EROFS, EDQUOT
    r"|No space left on device|File too large|Disk quota exceeded|Read-only file system"
)
"""What Python and Java say when nothing can be written."""
UNREPORTED = "its node does not report it any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A unit that is stuck."""

    record: UnitRecord
    node: str
    reason: DownReason
    since: float
    why: str


class Run(Protocol):
    """What this machine sees of the run."""

    @property
    def stopping(self) -> bool: ...


class Connections(Protocol):
    """What it sees of nodes."""

    def connected_since(self, node: str) -> float | None: ...


class Paths(Protocol):
    """Whom it tells that a unit has failed: of a path, another one may take its place."""

    def failed(
        self, moment: Moment, record: UnitRecord, reason: DownReason, why: str | None
    ) -> None: ...


class Loads(Protocol):
    """Whom it tells that a node has room again."""

    def give_back(self, node: str, load: int) -> None: ...


class UnitLife:
    """Sees units and their signs of life; decides how they fail, and stops what is stale."""

    def __init__(
        self,
        *,
        state: UnitState,
        signs: UnitSigns,
        recovery: RecoveryLife,
        handover: HandoverLife,
        connections: Connections,
        loads: Loads,
        run: Run,
        replicas: Replication,
        paths: Paths,
        policy: Policy,
        intervals: Mapping[str, float],
        out: Outlet[UnitFact, StartUnit | StopUnit],
    ) -> None:
        """Args as the types say; `intervals`: the batch interval of each segment, seconds."""
        self._state = state
        self._signs = signs
        self._recovery = recovery
        self._handover = handover
        self._connections = connections
        self._loads = loads
        self._run = run
        self._replicas = replicas
        self._paths = paths
        self._policy = policy
        self._intervals = intervals
        self._out = out

    def deployed(self) -> list[str]:
        """The units that the run was begun with, upstream first: others may be in their places."""
        return self._state.deployed or list(self._state.units)

    def load(self, node: str) -> int:
        """How many units a node has."""
        return self._state.load(node)

    def connected(
        self, moment: Moment, node: str, incarnation: str, reports: tuple[UnitReport, ...]
    ) -> None:
        """A node connected: for the first time, or again with units running."""
        self._signs.told_to_stop.pop(node, None)
        for told in reports:
            self._report(moment, node, incarnation, told)
        for unit in self._unreported(node, reports):
            if unit.phase == "placed":
                # The start was decided and journaled but never arrived.
                self._out.send(start_command(moment, unit, node))
            else:
                self._down(moment, unit, node, reason="stopped by itself", error=UNREPORTED)
        for unit in self._state.on_node(node):
            self.expect(unit)

    def heard(
        self, moment: Moment, node: str, incarnation: str, reports: tuple[UnitReport, ...]
    ) -> None:
        """A node told of its units in a heartbeat."""
        for told in reports:
            self._report(moment, node, incarnation, told)
        for unit in self._unreported(node, reports):
            if unit.phase == "running":
                # A start may still be on its way; a unit that ran and is not there any more is
                # gone.
                self._down(moment, unit, node, reason="stopped by itself", error=UNREPORTED)
        stopped = self._signs.told_to_stop.get(node)
        if stopped:
            # What has gone from the reports has stopped; should it come back, it is told again.
            stopped &= {(str(told.unit), told.generation) for told in reports}

    def node_left(self, moment: Moment, node: str) -> None:
        """A node ends with the run or its launch: none of its units has failed."""
        self._signs.told_to_stop.pop(node, None)
        for unit in self._state.on_node(node):
            self._park(moment, unit)

    def node_lost(
        self, moment: Moment, node: str, *, failed_at: float, culprits: Mapping[str, Overdue]
    ) -> None:
        """A node failed, if there are culprits because of them; they are charged for it."""
        self._signs.told_to_stop.pop(node, None)
        for unit in self._state.on_node(node):
            found = culprits.get(str(unit.unit))
            if found is not None:
                self._down(
                    moment, unit, node, reason=found.reason, failed_at=found.since, error=found.why
                )
            else:
                self._down(moment, unit, node, reason="node lost", failed_at=failed_at)

    def park_failed(self, moment: Moment) -> None:
        """Another launch begins: what an earlier one had to repair is not owed any more."""
        for unit in self._state.units.values():
            if unit.phase == "waiting" and unit.down is not None:
                self._park(moment, unit)

    def release(self, moment: Moment, event: RetryRequested) -> None:
        """Someone repaired what a held unit failed of."""
        record = self._state.of(event.unit)
        if record is not None and record.phase == "held":
            self._out.record(UnitReleased(at=moment.now, cause=moment.cause, unit=record.unit))

    def expect(self, record: UnitRecord) -> None:
        """Note when a unit that is on a node will have been stuck for too long."""
        at = self._deadline(record)
        if at is not None:
            self._signs.checks.set(str(record.unit), at)

    def overdue(self, moment: Moment, most: int) -> list[Overdue]:
        """Units whose node must be killed for them to go on, of at most so many that are due."""
        found: list[Overdue] = []
        for name in self._signs.checks.due(moment.now, most):
            record = self._state.units.get(name)
            if record is None or record.node is None:
                continue
            at = self._deadline(record)
            if at is None:
                # Nothing waits for it, or its node is away: its next report sets the time anew.
                continue
            if moment.now < at:
                self._signs.checks.set(name, at)
            else:
                found.append(self._overdue(moment, record, record.node))
        return found

    def _report(self, moment: Moment, node: str, incarnation: str, told: UnitReport) -> None:
        """A connected node reported one of its units."""
        name = str(told.unit)
        record = self._state.units.get(name)
        if (
            record is None
            or record.node != node
            or record.incarnation != incarnation
            or record.generation != told.generation
        ):
            self._stop_stale(moment, node, told)
            return
        match told.state:
            case "running":
                self._observe(moment, name, record, node, told)
            case "starting":
                vitals = self._signs.units.get(name)
                if vitals is not None and vitals.generation == told.generation:
                    vitals.prepare(self._policy.search_s, moment.now, told.doing)
            case "failed":
                reason: DownReason = "no space" if _NO_SPACE.search(told.error or "") else "error"
                self._down(
                    moment, record, node, reason=reason, operator=told.operator, error=told.error
                )
            case "stopped" if not self._run.stopping:
                self._down(
                    moment,
                    record,
                    node,
                    reason="stopped by itself",
                    operator=told.operator,
                    error=told.error,
                )
            case "ended":
                self._handover.ended(moment, record, told)
            case "stopped":
                pass

    def _unreported(self, node: str, reports: Iterable[UnitReport]) -> list[UnitRecord]:
        """Units that belong to a node and of which it says nothing."""
        missing = set(self._state.index.by_node.get(node, ()))
        for report in reports:
            name = str(report.unit)
            if name in missing and self._state.units[name].generation == report.generation:
                missing.remove(name)
        return self._state.in_order(missing)

    def _down(
        self,
        moment: Moment,
        record: UnitRecord,
        node: str,
        *,
        reason: DownReason,
        failed_at: float | None = None,
        operator: str | None = None,
        error: str | None = None,
    ) -> None:
        """A unit has failed on its node: charge its budget, begin a recovery, or hold it."""
        if self._state.of(record.unit) is not record:
            return  # its path was left because of another shard
        if self._run.stopping:
            self._park(moment, record)
            return
        match reason:
            case "node lost" | "left behind":
                budget, before = self._policy.crashes, record.crashes
            case "no space":
                budget, before = self._policy.shortages, record.shortages
            case _:
                budget, before = self._policy.retries, record.errors
        failures = (*before, moment.now)
        generation = record.generation
        away_s = max(budget.delay(failures, moment.now), self._replicas.away_s(record, reason))
        self._out.record(
            UnitDown(
                at=moment.now,
                cause=moment.cause,
                unit=record.unit,
                generation=generation,
                node=node,
                reason=reason,
                retry_at=moment.now + away_s,
                operator=operator,
                error=error,
            )
        )
        self._recovery.begin(
            moment,
            record.unit,
            reason=reason,
            node=node,
            failed_at=moment.now if failed_at is None else failed_at,
            epoch=self._signs.epoch(record.unit),
        )
        self._signs.gone(record.unit)
        self._loads.give_back(node, self._state.load(node))
        if not budget.allows(failures, moment.now):
            self._out.record(
                UnitHeld(
                    at=moment.now,
                    cause=moment.cause,
                    unit=record.unit,
                    generation=generation,
                    failures=len(budget.recent(failures, moment.now)),
                    operator=operator,
                    error=error,
                )
            )
        self._paths.failed(moment, record, reason, error)

    def _park(self, moment: Moment, record: UnitRecord) -> None:
        """Take a unit off its node without calling it a failure."""
        node = record.node
        self._signs.gone(record.unit)
        self._out.record(UnitParked(at=moment.now, cause=moment.cause, unit=record.unit))
        if node is not None:
            self._loads.give_back(node, self._state.load(node))

    def _overdue(self, moment: Moment, record: UnitRecord, node: str) -> Overdue:
        if record.phase == "placed":
            since = max(record.placed_at, self._connections.connected_since(node) or 0.0)
            return Overdue(
                record=record,
                node=node,
                reason="never started",
                since=since,
                why=f"no sign of it for {moment.now - since:.0f} s after its start was ordered",
            )
        stall = self._signs.units[str(record.unit)].stall
        return Overdue(
            record=record,
            node=node,
            reason="stalled",
            since=stall.since,
            why=stall.describe(moment.now, record.stalls),
        )

    def _deadline(self, record: UnitRecord) -> float | None:
        """When a unit counts as stuck unless something happens; None: not for now."""
        node = record.node
        connected_at = None if node is None else self._connections.connected_since(node)
        if connected_at is None:
            return None
        if record.phase == "placed":
            limit_s = self._policy.start_timeout_s * 2.0 ** min(record.stalls, MAX_DOUBLINGS)
            return max(record.placed_at, connected_at) + limit_s
        vitals = self._signs.units.get(str(record.unit))
        return None if vitals is None else vitals.stall.deadline(record.stalls)

    def _observe(
        self, moment: Moment, name: str, record: UnitRecord, node: str, told: UnitReport
    ) -> None:
        vitals = self._signs.units.get(name)
        if vitals is None or vitals.generation != told.generation:
            vitals = UnitVitals(
                generation=told.generation,
                stall=StallDetector(
                    policy=self._policy.stall,
                    now=moment.now,
                    interval_s=self._intervals.get(record.unit.segment, 0.0),
                    longest_s=self._signs.longest_s.get(name, 0.0),
                ),
                report=told,
                heard_at=moment.now,
            )
            self._signs.units[name] = vitals
        vitals.observe(told, moment.now)
        if record.phase == "placed":
            self._out.record(
                UnitRunning(
                    at=moment.now,
                    cause=moment.cause,
                    unit=record.unit,
                    generation=record.generation,
                )
            )
        self._recovery.observe(
            moment, record.unit, generation=record.generation, node=node, epoch=told.epoch
        )
        self._replicas.observe(moment, record, node, told)
        behind = self._replicas.left_behind(record, told)
        if behind:
            self._down(moment, record, node, reason="left behind", error=behind)
            self._stop_stale(moment, node, told)
            return
        self.expect(record)

    def _stop_stale(self, moment: Moment, node: str, told: UnitReport) -> None:
        """A generation that is not current here must not use the node's time; it can do no harm."""
        if told.state not in ("starting", "running"):
            return
        stopped = self._signs.told_to_stop.setdefault(node, set())
        key = (str(told.unit), told.generation)
        if key in stopped:
            return
        stopped.add(key)
        self._out.send(
            StopUnit(cause=moment.cause, node=node, unit=told.unit, generation=told.generation)
        )


def start_command(moment: Moment, unit: UnitRecord, node: str) -> StartUnit:
    """The start of a unit's present generation."""
    return StartUnit(
        cause=moment.cause,
        node=node,
        unit=unit.unit,
        generation=unit.generation,
        clone_from=unit.generation - 1 if unit.generation > 1 else None,
    )
