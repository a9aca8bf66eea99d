"""Which nodes are in: join, return, silence, loss.

A node is lost when its process ends, when its connection breaks and does not come back in time,
when its heartbeats stop, or when someone says so. A lost incarnation never comes back: if its
process wakes up and connects, it is dismissed. The fence command that goes with a loss frees
resources; nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.control import units
from holdfast.control.commands import Dismiss, Fence, StartUnit
from holdfast.control.events import (
    Heartbeat,
    KillRequested,
    LauncherTroubled,
    LaunchOpened,
    NodeDisconnected,
    NodeExited,
    NodeHello,
)
from holdfast.control.facts import (
    Deployed,
    DomainLost,
    LaunchTrouble,
    LossReason,
    NodeJoined,
    NodeLost,
    Opened,
)
from holdfast.control.state import NodeRecord, UnitRecord
from holdfast.control.turn import Turn
from holdfast.deployment import UnitId

CORRELATED_S = 10.0
"""Losses of one domain within this time are told as one loss of the domain."""
MAX_CHECKS = 256
"""Nodes, and units, looked at in one tick: however many are due at once, heartbeats get through."""
UNREPORTED = "its node does not report it any more"


def open_launch(turn: Turn, event: LaunchOpened, wanted: tuple[UnitId, ...]) -> None:
    """The coordinator (re)started. In the same launch everything may still be running."""
    if event.launch == turn.state.launch:
        for node in turn.state.nodes:
            turn.vitals.await_return(node, turn.policy.heartbeat, turn.policy.reconnect_s, turn.now)
        return
    for record in list(turn.state.nodes.values()):
        lose(turn, record, reason="relaunched", failed_at=turn.now)
    for unit in turn.state.units.values():
        if unit.phase == "waiting" and unit.down is not None:
            units.park(turn, unit)
    if list(turn.state.units) != [str(unit) for unit in wanted]:
        turn.record(Deployed(at=turn.now, cause=turn.cause, units=wanted))
    turn.record(Opened(at=turn.now, cause=turn.cause, launch=event.launch))


def hello(turn: Turn, event: NodeHello) -> None:
    """A node connected: join it, take it back, or send it away."""
    foreign = bool(event.launch) and event.launch != turn.state.launch
    if turn.state.stopping or foreign or event.incarnation in turn.state.fenced:
        turn.send(
            Dismiss(
                cause=turn.cause,
                node=event.node,
                incarnation=event.incarnation,
                reason="stop" if turn.state.stopping else "fenced",
            )
        )
        return
    known = turn.state.nodes.get(event.node)
    if known is not None and known.incarnation != event.incarnation:
        lose(turn, known, reason="replaced", failed_at=_last_sign(turn, known))
        known = None
    if known is None:
        turn.record(
            NodeJoined(
                at=turn.now,
                cause=turn.cause,
                node=event.node,
                incarnation=event.incarnation,
                launch=event.launch,
                domain=event.domain,
                pid=event.pid,
                spare=event.spare,
            )
        )
    turn.vitals.connect(event.node, turn.policy.heartbeat, turn.now)
    turn.refresh(event.node)
    record = turn.state.nodes[event.node]
    for report in event.reports:
        units.report(turn, record, report)
    for unit in units.unreported(turn, record, event.reports):
        if unit.phase == "placed":
            # The start was decided and journaled but never arrived.
            turn.send(start_command(turn, unit, event.node))
        else:
            units.down(turn, unit, reason="stopped by itself", error=UNREPORTED)
    for unit in turn.state.on_node(event.node):
        units.expect(turn, unit)


def heartbeat(turn: Turn, event: Heartbeat) -> None:
    """A node is alive."""
    record = turn.state.nodes.get(event.node)
    vitals = turn.vitals.nodes.get(event.node)
    if record is None or vitals is None or record.incarnation != event.incarnation:
        if event.incarnation in turn.state.fenced:
            turn.send(
                Dismiss(
                    cause=turn.cause,
                    node=event.node,
                    incarnation=event.incarnation,
                    reason="fenced",
                )
            )
        return
    if not vitals.connected:
        return
    vitals.detector.beat(turn.now)
    vitals.gauges = event.gauges
    if vitals.ready != event.ready:
        vitals.ready = event.ready
        turn.refresh(event.node)
    for report in event.reports:
        units.report(turn, record, report)
    for unit in units.unreported(turn, record, event.reports):
        if unit.phase == "running":
            # A start may still be on its way; a unit that ran and is not there any more is gone.
            units.down(turn, unit, reason="stopped by itself", error=UNREPORTED)
    if vitals.told_to_stop:
        # What has gone from the reports has stopped; should it come back, it is told again.
        vitals.told_to_stop &= {(str(told.unit), told.generation) for told in event.reports}


def disconnected(turn: Turn, event: NodeDisconnected) -> None:
    """A connection broke: the end of the process, or a moment's trouble."""
    record = turn.state.nodes.get(event.node)
    vitals = turn.vitals.nodes.get(event.node)
    if record is None or vitals is None or record.incarnation != event.incarnation:
        return
    if turn.state.stopping:
        lose(turn, record, reason="left", failed_at=turn.now)
    elif vitals.connected:
        turn.vitals.disconnect(event.node, turn.policy.disconnect_grace_s, turn.now)
        sweep(turn)


def exited(turn: Turn, event: NodeExited) -> None:
    """The launcher saw a node's process end."""
    record = turn.state.nodes.get(event.node)
    if record is None or record.pid != event.pid:
        return
    reason: LossReason = "left" if turn.state.stopping else "exited"
    vitals = turn.vitals.nodes.get(event.node)
    away = vitals is not None and not vitals.connected
    lose(
        turn,
        record,
        reason=reason,
        failed_at=min(turn.now, vitals.away_since) if vitals and away else turn.now,
    )


def troubled(turn: Turn, event: LauncherTroubled) -> None:
    """The launcher says what it cannot do; it says so again whenever it connects."""
    if event.trouble != turn.state.trouble:
        turn.record(LaunchTrouble(at=turn.now, cause=turn.cause, trouble=event.trouble))


def kill(turn: Turn, event: KillRequested) -> None:
    """Someone asks for a node's death."""
    record = turn.state.nodes.get(event.node)
    if record is not None:
        lose(turn, record, reason="killed", failed_at=turn.now)


def sweep(turn: Turn) -> None:
    """Look for nodes that have been silent or away for too long, and for stuck units.

    Only at those whose time has come: what a tick costs does not depend on how many there are.
    """
    for name in turn.vitals.node_checks.due(turn.now, MAX_CHECKS):
        record, vitals = turn.state.nodes.get(name), turn.vitals.nodes.get(name)
        if record is None or vitals is None:
            continue
        back_by = vitals.away_since + vitals.away_limit_s
        if vitals.connected and vitals.detector.suspects(turn.now):
            silence = vitals.detector.silence_s(turn.now)
            lose(
                turn,
                record,
                reason="silent",
                failed_at=turn.now - silence,
                detail=f"no heartbeat for {silence:.2f} s",
            )
        elif vitals.connected:
            turn.vitals.node_checks.set(name, vitals.detector.trusts_until())
        elif turn.now >= back_by:
            reason: LossReason = "left" if turn.state.stopping else "disconnected"
            lose(turn, record, reason=reason, failed_at=vitals.away_since)
        else:
            turn.vitals.node_checks.set(name, back_by)
    culprits: dict[str, dict[str, units.Overdue]] = {}
    for found in units.overdue(turn, MAX_CHECKS):
        culprits.setdefault(found.node, {})[str(found.record.unit)] = found
    for node, stuck in culprits.items():
        lose(
            turn,
            turn.state.nodes[node],
            reason="stalled",
            failed_at=turn.now,
            detail="; ".join(
                f"{unit} {found.reason}: {found.why}" for unit, found in stuck.items()
            ),
            culprits=stuck,
        )


def lose(
    turn: Turn,
    record: NodeRecord,
    *,
    reason: LossReason,
    failed_at: float,
    detail: str = "",
    culprits: Mapping[str, units.Overdue] | None = None,
) -> None:
    """Give a node up; its units wait for another place."""
    turn.vitals.leave(record.node)
    for unit in turn.state.on_node(record.node):
        if reason in ("left", "relaunched"):
            units.park(turn, unit)
        elif culprits and str(unit.unit) in culprits:
            found = culprits[str(unit.unit)]
            units.down(turn, unit, reason=found.reason, failed_at=found.since, error=found.why)
        else:
            units.down(turn, unit, reason="node lost", failed_at=failed_at)
    turn.record(
        NodeLost(
            at=turn.now,
            cause=turn.cause,
            node=record.node,
            incarnation=record.incarnation,
            reason=reason,
            detail=detail,
        )
    )
    turn.vitals.lost(record.node, record.domain, turn.now)
    if reason in ("disconnected", "silent", "stalled", "killed"):
        turn.send(Fence(cause=turn.cause, node=record.node, pid=record.pid))
    if reason not in ("left", "relaunched", "replaced"):
        _tell_lost_domain(turn, record.domain)


def start_command(turn: Turn, unit: UnitRecord, node: str) -> StartUnit:
    """The start of a unit's present generation."""
    return StartUnit(
        cause=turn.cause,
        node=node,
        unit=unit.unit,
        generation=unit.generation,
        clone_from=unit.generation - 1 if unit.generation > 1 else None,
    )


def _last_sign(turn: Turn, record: NodeRecord) -> float:
    vitals = turn.vitals.nodes.get(record.node)
    if vitals is None:
        return turn.now
    silence = vitals.detector.silence_s(turn.now)
    return turn.now - silence if vitals.connected else vitals.away_since


def _tell_lost_domain(turn: Turn, domain: str) -> None:
    if not domain:
        return
    recent = [
        loss
        for loss in turn.vitals.losses
        if loss.domain == domain and turn.now - loss.at <= CORRELATED_S
    ]
    if len(recent) < 2:
        return
    if all(node.domain != domain for node in turn.state.nodes.values()):
        names = tuple(sorted({loss.node for loss in recent}))
        turn.record(DomainLost(at=turn.now, cause=turn.cause, domain=domain, nodes=names))
