"""Which nodes are in: join, return, silence, loss.

A node is lost when its process ends, when its connection breaks and does not come back in time,
when its heartbeats stop, or when someone says so. A lost incarnation never comes back: if its
process wakes up and connects, it is dismissed. The fence command that goes with a loss frees
resources; nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from holdfast.control.commands import Dismiss, Fence
from holdfast.control.events import (
    Heartbeat,
    KillRequested,
    NodeDisconnected,
    NodeExited,
    NodeHello,
    UnitReport,
)
from holdfast.control.facts import DomainLost, LossReason, NodeFact, NodeJoined, NodeLost
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.pool import Candidate
from holdfast.control.state.node_state import NodeRecord, NodeState
from holdfast.control.units import Overdue
from holdfast.control.vitals import NodeSigns, NodeVitals
from holdfast.health.policy import Policy

CORRELATED_S = 10.0
"""Losses of one domain within this time are told as one loss of the domain."""
MAX_CHECKS = 256
"""Nodes, and units, looked at in one tick: however many are due at once, heartbeats get through."""


class Run(Protocol):
    """What membership sees of the run."""

    @property
    def launch(self) -> str: ...

    @property
    def stopping(self) -> bool: ...


class Units(Protocol):
    """Who takes care of the units of a node."""

    def load(self, node: str) -> int: ...

    def connected(
        self, moment: Moment, node: str, incarnation: str, reports: tuple[UnitReport, ...]
    ) -> None: ...

    def heard(
        self, moment: Moment, node: str, incarnation: str, reports: tuple[UnitReport, ...]
    ) -> None: ...

    def node_left(self, moment: Moment, node: str) -> None: ...

    def node_lost(
        self, moment: Moment, node: str, *, failed_at: float, culprits: Mapping[str, Overdue]
    ) -> None: ...

    def overdue(self, moment: Moment, most: int) -> list[Overdue]: ...


class Candidates(Protocol):
    """Whom membership tells which nodes are connected."""

    def put(self, candidate: Candidate) -> None: ...

    def drop(self, node: str) -> None: ...


class Membership:
    """Sees nodes and their signs of life; decides who is in, and has the others killed."""

    def __init__(
        self,
        *,
        state: NodeState,
        signs: NodeSigns,
        units: Units,
        candidates: Candidates,
        run: Run,
        policy: Policy,
        out: Outlet[NodeFact, Dismiss | Fence],
    ) -> None:
        self._state = state
        self._signs = signs
        self._units = units
        self._candidates = candidates
        self._run = run
        self._policy = policy
        self._out = out

    def __len__(self) -> int:
        """How many nodes are in."""
        return len(self._state.nodes)

    def await_return(self, moment: Moment) -> None:
        """The coordinator restarted within a launch: every node may still be running."""
        policy = self._policy
        for node in self._state.nodes:
            self._signs.await_return(node, policy.heartbeat, policy.reconnect_s, moment.now)

    def relaunch(self, moment: Moment) -> None:
        """Another launch begins: nodes of the one before cannot come back."""
        for record in list(self._state.nodes.values()):
            self._lose(moment, record, reason="relaunched", failed_at=moment.now)

    def dismiss_all(self, moment: Moment) -> None:
        """The run is to end."""
        for record in self._state.nodes.values():
            if self._signs.connected_since(record.node) is not None:
                self._dismiss(moment, record.node, record.incarnation, reason="stop")

    def hello(self, moment: Moment, event: NodeHello) -> None:
        """A node connected: join it, take it back, or send it away."""
        foreign = bool(event.launch) and event.launch != self._run.launch
        if self._run.stopping or foreign or event.incarnation in self._state.fenced:
            reason: Literal["stop", "fenced"] = "stop" if self._run.stopping else "fenced"
            self._dismiss(moment, event.node, event.incarnation, reason=reason)
            return
        known = self._state.nodes.get(event.node)
        if known is not None and known.incarnation != event.incarnation:
            failed_at = self._last_sign(known, moment.now)
            self._lose(moment, known, reason="replaced", failed_at=failed_at)
            known = None
        if known is None:
            self._out.record(
                NodeJoined(
                    at=moment.now,
                    cause=moment.cause,
                    node=event.node,
                    incarnation=event.incarnation,
                    launch=event.launch,
                    domain=event.domain,
                    pid=event.pid,
                    spare=event.spare,
                )
            )
        self._signs.connect(event.node, self._policy.heartbeat, moment.now)
        self._offer(self._state.nodes[event.node], self._signs.nodes[event.node])
        self._units.connected(moment, event.node, event.incarnation, event.reports)

    def heartbeat(self, moment: Moment, event: Heartbeat) -> bool:
        """A node is alive; whether it is one that is in."""
        record = self._state.nodes.get(event.node)
        vitals = self._signs.nodes.get(event.node)
        if record is None or vitals is None or record.incarnation != event.incarnation:
            if event.incarnation in self._state.fenced:
                self._dismiss(moment, event.node, event.incarnation, reason="fenced")
            return False
        if not vitals.connected:
            return False
        vitals.detector.beat(moment.now)
        vitals.gauges = event.gauges
        if vitals.ready != event.ready:
            vitals.ready = event.ready
            self._offer(record, vitals)
        self._units.heard(moment, event.node, event.incarnation, event.reports)
        return event.node in self._state.nodes

    def disconnected(self, moment: Moment, event: NodeDisconnected) -> None:
        """A connection broke: the end of the process, or a moment's trouble."""
        record = self._state.nodes.get(event.node)
        vitals = self._signs.nodes.get(event.node)
        if record is None or vitals is None or record.incarnation != event.incarnation:
            return
        if self._run.stopping:
            self._lose(moment, record, reason="left", failed_at=moment.now)
        elif vitals.connected:
            self._signs.disconnect(event.node, self._policy.disconnect_grace_s, moment.now)
            self._candidates.drop(event.node)
            self.sweep(moment)

    def exited(self, moment: Moment, event: NodeExited) -> None:
        """The launcher saw a node's process end."""
        record = self._state.nodes.get(event.node)
        if record is None or record.pid != event.pid:
            return
        reason: LossReason = "left" if self._run.stopping or event.retired else "exited"
        vitals = self._signs.nodes.get(event.node)
        away = vitals is not None and not vitals.connected
        failed_at = min(moment.now, vitals.away_since) if vitals and away else moment.now
        self._lose(moment, record, reason=reason, failed_at=failed_at)

    def kill(self, moment: Moment, event: KillRequested) -> None:
        """Someone asks for a node's death."""
        record = self._state.nodes.get(event.node)
        if record is not None:
            self._lose(moment, record, reason="killed", failed_at=moment.now)

    def give_up(self, moment: Moment, node: str, why: str) -> None:
        """Something on a node does not end, and only a kill helps."""
        record = self._state.nodes.get(node)
        if record is not None:
            self._lose(moment, record, reason="stalled", failed_at=moment.now, detail=why)

    def sweep(self, moment: Moment) -> None:
        """Look for nodes that have been silent or away for too long, and for stuck units.

        Only at those whose time has come: what a tick costs does not depend on how many there are.
        """
        now = moment.now
        for name in self._signs.checks.due(now, MAX_CHECKS):
            record, vitals = self._state.nodes.get(name), self._signs.nodes.get(name)
            if record is None or vitals is None:
                continue
            back_by = vitals.away_since + vitals.away_limit_s
            if vitals.connected and vitals.detector.suspects(now):
                silence = vitals.detector.silence_s(now)
                self._lose(
                    moment,
                    record,
                    reason="silent",
                    failed_at=now - silence,
                    detail=f"no heartbeat for {silence:.2f} s",
                )
            elif vitals.connected:
                self._signs.checks.set(name, vitals.detector.trusts_until())
            elif now >= back_by:
                reason: LossReason = "left" if self._run.stopping else "disconnected"
                self._lose(moment, record, reason=reason, failed_at=vitals.away_since)
            else:
                self._signs.checks.set(name, back_by)
        culprits: dict[str, dict[str, Overdue]] = {}
        for found in self._units.overdue(moment, MAX_CHECKS):
            culprits.setdefault(found.node, {})[str(found.record.unit)] = found
        for node, stuck in culprits.items():
            self._lose(
                moment,
                self._state.nodes[node],
                reason="stalled",
                failed_at=now,
                detail="; ".join(
                    f"{unit} {found.reason}: {found.why}" for unit, found in stuck.items()
                ),
                culprits=stuck,
            )

    def _lose(
        self,
        moment: Moment,
        record: NodeRecord,
        *,
        reason: LossReason,
        failed_at: float,
        detail: str = "",
        culprits: Mapping[str, Overdue] | None = None,
    ) -> None:
        """Give a node up; its units wait for another place."""
        # Nothing may be placed on it from now on.
        self._signs.leave(record.node)
        self._candidates.drop(record.node)
        if reason in ("left", "relaunched"):
            self._units.node_left(moment, record.node)
        else:
            self._units.node_lost(moment, record.node, failed_at=failed_at, culprits=culprits or {})
        self._out.record(
            NodeLost(
                at=moment.now,
                cause=moment.cause,
                node=record.node,
                incarnation=record.incarnation,
                reason=reason,
                detail=detail,
            )
        )
        self._signs.lost(record.node, record.domain, moment.now)
        if reason in ("disconnected", "silent", "stalled", "killed"):
            self._out.send(Fence(cause=moment.cause, node=record.node, pid=record.pid))
        if reason not in ("left", "relaunched", "replaced"):
            self._tell_lost_domain(moment, record.domain)

    def _offer(self, record: NodeRecord, vitals: NodeVitals) -> None:
        """Tell placement of a connected node, or that it is warm."""
        self._candidates.put(
            Candidate(
                node=record.node,
                incarnation=record.incarnation,
                domain=record.domain,
                spare=record.spare,
                ready=vitals.ready,
                load=self._units.load(record.node),
            )
        )

    def _dismiss(
        self, moment: Moment, node: str, incarnation: str, *, reason: Literal["stop", "fenced"]
    ) -> None:
        self._out.send(
            Dismiss(cause=moment.cause, node=node, incarnation=incarnation, reason=reason)
        )

    def _last_sign(self, record: NodeRecord, now: float) -> float:
        vitals = self._signs.nodes.get(record.node)
        if vitals is None:
            return now
        silence = vitals.detector.silence_s(now)
        return now - silence if vitals.connected else vitals.away_since

    def _tell_lost_domain(self, moment: Moment, domain: str) -> None:
        if not domain:
            return
        recent = [
            loss
            for loss in self._signs.losses
            if loss.domain == domain and moment.now - loss.at <= CORRELATED_S
        ]
        if len(recent) < 2:
            return
        if all(node.domain != domain for node in self._state.nodes.values()):
            names = tuple(sorted({loss.node for loss in recent}))
            self._out.record(
                DomainLost(at=moment.now, cause=moment.cause, domain=domain, nodes=names)
            )
