"""The life of a unit after its placement: runs, fails, stalls, is held.

An exception is retried within a budget; beyond it the unit is held, with the operator's name and
the traceback, while all other units go on. One that a full disk explains is nobody's fault, and is
retried ever more slowly until there is room. A stall takes the whole node down, because Spark
cannot stop a stuck batch; the node's other units recover elsewhere, only the culprit is charged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.control import recovery
from holdfast.control.commands import StopUnit
from holdfast.control.events import RetryRequested, UnitReport
from holdfast.control.facts import (
    DownReason,
    UnitDown,
    UnitHeld,
    UnitParked,
    UnitReleased,
    UnitRunning,
)
from holdfast.control.state import NodeRecord, UnitRecord
from holdfast.control.turn import Turn
from holdfast.control.vitals import UnitVitals
from holdfast.health.stall import MAX_DOUBLINGS, StallDetector

_NO_SPACE = re.compile(
    r"\[Errno (?:27|28|30|122)\]"  # EFBIG, ENOSPC, EROFS, EDQUOT
    r"|No space left on device|File too large|Disk quota exceeded|Read-only file system"
)
"""What Python and Java say when nothing can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A unit that is stuck."""

    record: UnitRecord
    node: str
    reason: DownReason
    since: float
    why: str


def report(turn: Turn, node: NodeRecord, told: UnitReport) -> None:
    """A connected node reported one of its units."""
    record = turn.state.unit(told.unit)
    current = (
        record is not None
        and record.node == node.node
        and record.incarnation == node.incarnation
        and record.generation == told.generation
    )
    if record is None or not current:
        _stop_stale(turn, node, told)
        return
    match told.state:
        case "running":
            _observe(turn, record, told)
        case "starting":
            vitals = turn.vitals.units.get(str(record.unit))
            if vitals is not None and vitals.generation == told.generation:
                vitals.prepare(turn.policy.search_s, turn.now, told.doing)
        case "failed":
            reason: DownReason = "no space" if _NO_SPACE.search(told.error or "") else "error"
            down(turn, record, reason=reason, operator=told.operator, error=told.error)
        case "stopped" if not turn.state.stopping:
            down(
                turn,
                record,
                reason="stopped by itself",
                operator=told.operator,
                error=told.error,
            )
        case "stopped":
            pass


def unreported(turn: Turn, node: NodeRecord, reports: Iterable[UnitReport]) -> list[UnitRecord]:
    """Units that belong to a node and of which it says nothing."""
    missing = set(turn.state.index.by_node.get(node.node, ()))
    for report in reports:
        name = str(report.unit)
        if name in missing and turn.state.units[name].generation == report.generation:
            missing.remove(name)
    return [turn.state.units[name] for name in turn.state.index.in_order(missing)]


def down(
    turn: Turn,
    record: UnitRecord,
    *,
    reason: DownReason,
    failed_at: float | None = None,
    operator: str | None = None,
    error: str | None = None,
) -> None:
    """A placed unit has failed: charge its budget, begin a recovery, or hold it."""
    node = record.node
    if node is None:
        return
    if turn.state.stopping:
        park(turn, record)
        return
    match reason:
        case "node lost":
            budget, before = turn.policy.crashes, record.crashes
        case "no space":
            budget, before = turn.policy.shortages, record.shortages
        case _:
            budget, before = turn.policy.retries, record.errors
    failures = (*before, turn.now)
    generation = record.generation
    turn.record(
        UnitDown(
            at=turn.now,
            cause=turn.cause,
            unit=record.unit,
            generation=generation,
            node=node,
            reason=reason,
            retry_at=turn.now + budget.delay(failures, turn.now),
            operator=operator,
            error=error,
        )
    )
    recovery.begin(
        turn,
        record,
        reason=reason,
        node=node,
        failed_at=turn.now if failed_at is None else failed_at,
    )
    turn.vitals.unit_gone(record.unit)
    turn.refresh(node)
    if not budget.allows(failures, turn.now):
        turn.record(
            UnitHeld(
                at=turn.now,
                cause=turn.cause,
                unit=record.unit,
                generation=generation,
                failures=len(budget.recent(failures, turn.now)),
                operator=operator,
                error=error,
            )
        )


def park(turn: Turn, record: UnitRecord) -> None:
    """Take a unit off its node without calling it a failure."""
    node = record.node
    turn.vitals.unit_gone(record.unit)
    turn.record(UnitParked(at=turn.now, cause=turn.cause, unit=record.unit))
    if node is not None:
        turn.refresh(node)


def release(turn: Turn, event: RetryRequested) -> None:
    """Someone repaired what a held unit failed of."""
    record = turn.state.unit(event.unit)
    if record is not None and record.phase == "held":
        turn.record(UnitReleased(at=turn.now, cause=turn.cause, unit=record.unit))


def expect(turn: Turn, record: UnitRecord) -> None:
    """Note when a unit that is on a node will have been stuck for too long."""
    at = _deadline(turn, record)
    if at is not None:
        turn.vitals.unit_checks.set(str(record.unit), at)


def overdue(turn: Turn, most: int) -> list[Overdue]:
    """Units whose node must be killed for them to go on, of at most so many that are due."""
    found: list[Overdue] = []
    for name in turn.vitals.unit_checks.due(turn.now, most):
        record = turn.state.units.get(name)
        if record is None or record.node is None:
            continue
        at = _deadline(turn, record)
        if at is None:
            # Nothing waits for it, or its node is away: its next report sets the time anew.
            continue
        if turn.now < at:
            turn.vitals.unit_checks.set(name, at)
        else:
            found.append(_overdue(turn, record, record.node))
    return found


def _overdue(turn: Turn, record: UnitRecord, node: str) -> Overdue:
    if record.phase == "placed":
        since = _start_since(turn, record, node)
        return Overdue(
            record=record,
            node=node,
            reason="never started",
            since=since,
            why=f"no sign of it for {turn.now - since:.0f} s after its start was ordered",
        )
    stall = turn.vitals.units[str(record.unit)].stall
    return Overdue(
        record=record,
        node=node,
        reason="stalled",
        since=stall.since,
        why=stall.describe(turn.now, record.stalls),
    )


def _deadline(turn: Turn, record: UnitRecord) -> float | None:
    """When a unit counts as stuck unless something happens; None: not for now."""
    node = record.node
    if node is None or not turn.vitals.is_connected(node):
        return None
    if record.phase == "placed":
        limit = turn.policy.start_timeout_s * 2.0 ** min(record.stalls, MAX_DOUBLINGS)
        return _start_since(turn, record, node) + limit
    vitals = turn.vitals.units.get(str(record.unit))
    return None if vitals is None else vitals.stall.deadline(record.stalls)


def _start_since(turn: Turn, record: UnitRecord, node: str) -> float:
    return max(record.placed_at, turn.vitals.nodes[node].connected_at)


def _observe(turn: Turn, record: UnitRecord, told: UnitReport) -> None:
    name = str(record.unit)
    vitals = turn.vitals.units.get(name)
    if vitals is None or vitals.generation != told.generation:
        vitals = UnitVitals(
            generation=told.generation,
            stall=StallDetector(
                policy=turn.policy.stall,
                now=turn.now,
                interval_s=turn.intervals.get(record.unit.segment, 0.0),
                longest_s=turn.vitals.longest_s.get(name, 0.0),
            ),
            report=told,
            heard_at=turn.now,
        )
        turn.vitals.units[name] = vitals
    vitals.observe(told, turn.now)
    if record.phase == "placed":
        turn.record(
            UnitRunning(
                at=turn.now, cause=turn.cause, unit=record.unit, generation=record.generation
            )
        )
    recovery.observe(turn, record, told)
    expect(turn, record)


def _stop_stale(turn: Turn, node: NodeRecord, told: UnitReport) -> None:
    """A generation that is not current here must not use the node's time; it can do no harm."""
    if told.state not in ("starting", "running"):
        return
    stopped = turn.vitals.nodes[node.node].told_to_stop
    key = (str(told.unit), told.generation)
    if key in stopped:
        return
    stopped.add(key)
    turn.send(
        StopUnit(cause=turn.cause, node=node.node, unit=told.unit, generation=told.generation)
    )
