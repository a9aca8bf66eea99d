"""What the coordinator knows only for the moment: connections, heartbeats, progress.

None of it is journaled. A restarted coordinator learns it again from the nodes within a heartbeat;
until then every node has the benefit of the doubt (`Policy.reconnect_s`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from holdfast.control.events import Gauges, UnitReport
from holdfast.control.pool import Pool
from holdfast.deployment import UnitId
from holdfast.health.agenda import Agenda
from holdfast.health.heartbeat import HeartbeatDetector, HeartbeatPolicy, detector
from holdfast.health.stall import StallDetector

LOSSES_LENGTH = 100


@dataclass(slots=True, kw_only=True)
class NodeVitals:
    """One live node."""

    detector: HeartbeatDetector
    connected: bool
    connected_at: float = 0.0
    away_since: float = 0.0
    away_limit_s: float = 0.0
    ready: bool = False
    gauges: Gauges = field(default_factory=Gauges)


@dataclass(slots=True, kw_only=True)
class UnitVitals:
    """One generation of one unit."""

    generation: int
    stall: StallDetector
    report: UnitReport
    heard_at: float
    rate_in: float = 0.0
    """Rows read per second, smoothed."""
    rate_out: float = 0.0
    preparing_since: float | None = None
    """Since when a unit that ran says that it is starting."""
    least_behind: int | None = None
    """Of a follower: how few batches it has been behind its leader; None: it has made none."""

    def prepare(self, limit_s: float, now: float, doing: str | None = None) -> None:
        """It is not stalled, only busy, unless that takes too long."""
        self.report = replace(self.report, doing=doing)
        if self.preparing_since is None:
            self.preparing_since = now
        if now - self.preparing_since < limit_s:
            self.stall.forgive(now)

    def observe(self, report: UnitReport, now: float) -> None:
        self.preparing_since = None
        gap = now - self.heard_at
        if gap > 0:
            weight = min(1.0, gap / RATE_SECONDS)
            rows_in = max(0, report.rows_in - self.report.rows_in) / gap
            rows_out = max(0, report.rows_out - self.report.rows_out) / gap
            self.rate_in += weight * (rows_in - self.rate_in)
            self.rate_out += weight * (rows_out - self.rate_out)
        self.report, self.heard_at = report, now
        self.stall.observe(
            batch=report.batch,
            batch_s=report.batch_ms / 1000.0,
            waiting=report.waiting,
            work=report.work,
            now=now,
        )


RATE_SECONDS = 5.0
"""Rates are averaged over about this long."""


@dataclass(slots=True, kw_only=True)
class Loss:
    """A node lost lately, to tell a lost domain from single failures."""

    node: str
    domain: str
    at: float


@dataclass(slots=True, kw_only=True)
class NodeSigns:
    """Signs of life of nodes: membership's."""

    nodes: dict[str, NodeVitals] = field(default_factory=dict)
    checks: Agenda = field(default_factory=Agenda)
    """When a node may have been silent or away for too long."""
    losses: list[Loss] = field(default_factory=list)

    def connect(self, node: str, policy: HeartbeatPolicy, now: float) -> None:
        vitals = NodeVitals(detector=detector(policy, now), connected=True, connected_at=now)
        self.nodes[node] = vitals
        self.checks.set(node, vitals.detector.trusts_until())

    def disconnect(self, node: str, limit_s: float, now: float) -> None:
        """A connection broke: the node has `limit_s` to come back."""
        vitals = self.nodes[node]
        vitals.connected = False
        vitals.away_since, vitals.away_limit_s = now, limit_s
        self.checks.set(node, now + limit_s)

    def leave(self, node: str) -> None:
        """A node is about to be given up: it is not connected from now on."""
        vitals = self.nodes.get(node)
        if vitals is not None:
            vitals.connected = False

    def await_return(self, node: str, policy: HeartbeatPolicy, limit_s: float, now: float) -> None:
        """A node known from the journal: it has `limit_s` to come back."""
        self.nodes[node] = NodeVitals(
            detector=detector(policy, now), connected=False, away_since=now, away_limit_s=limit_s
        )
        self.checks.set(node, now + limit_s)

    def connected_since(self, node: str) -> float | None:
        """None: it is not."""
        vitals = self.nodes.get(node)
        return vitals.connected_at if vitals is not None and vitals.connected else None

    def broke(self, node: str) -> bool:
        """Whether it was connected to this coordinator and is not any more."""
        vitals = self.nodes.get(node)
        return vitals is not None and not vitals.connected and vitals.connected_at > 0.0

    def forgive(self, now: float) -> None:
        """The coordinator stood still: silence until now says nothing."""
        for node in self.nodes.values():
            node.detector.forgive(now)
            node.away_since = max(node.away_since, now)

    def lost(self, node: str, domain: str, now: float) -> None:
        self.nodes.pop(node, None)
        self.checks.drop(node)
        self.losses.append(Loss(node=node, domain=domain, at=now))
        del self.losses[:-LOSSES_LENGTH]


@dataclass(slots=True, kw_only=True)
class UnitSigns:
    """Signs of life of units: those of the machine `units`."""

    units: dict[str, UnitVitals] = field(default_factory=dict)
    longest_s: dict[str, float] = field(default_factory=dict)
    """The longest batch that a unit's last generation was seen to make lately."""
    checks: Agenda = field(default_factory=Agenda)
    """When a unit may have been stuck for too long."""
    told_to_stop: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """By node: stale generations already sent a stop on its connection."""

    def gone(self, unit: UnitId) -> None:
        """A generation ended; how long its batches took is worth knowing for the next one."""
        name = str(unit)
        vitals = self.units.pop(name, None)
        self.checks.drop(name)
        if vitals is not None:
            self.longest_s[name] = vitals.stall.longest_s

    def epoch(self, unit: UnitId) -> int:
        """Progress as last reported; -1: unknown."""
        vitals = self.units.get(str(unit))
        return vitals.report.epoch if vitals is not None else -1

    def forgive(self, now: float) -> None:
        """The coordinator stood still: silence until now says nothing."""
        for unit in self.units.values():
            unit.stall.forgive(now)


@dataclass(slots=True, kw_only=True)
class Vitals:
    """All of it, for those who look at the whole."""

    pool: Pool
    """Connected nodes as placement wants them."""
    node_signs: NodeSigns = field(default_factory=NodeSigns)
    unit_signs: UnitSigns = field(default_factory=UnitSigns)

    @property
    def nodes(self) -> dict[str, NodeVitals]:
        return self.node_signs.nodes

    @property
    def units(self) -> dict[str, UnitVitals]:
        return self.unit_signs.units

    def is_connected(self, node: str) -> bool:
        return self.node_signs.connected_since(node) is not None

    def epoch(self, unit: UnitId) -> int:
        """Progress as last reported; -1: unknown."""
        return self.unit_signs.epoch(unit)
