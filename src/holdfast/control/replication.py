"""Hot replicas: who leads, who must be apart, and who is too far behind to be of use.

Each replica of a unit has its own generations, is placed, fails and recovers like a unit of its
own. They need nobody to tell them who leads: whoever published the last slice publishes the next
one at once, and the others only if it is not there a head start later. So when a leader is lost its
follower has gone on before anyone has noticed. What is left to decide comes after the fact: to tell
it, to put a new follower where the leader is not, and to give up one that has fallen too far
behind, which starts again from a clone of the newest checkpoint there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Never, Protocol

from holdfast.control.events import UnitReport
from holdfast.control.facts import DownReason, ReplicaFact, UnitPromoted
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.pool import Elsewhere
from holdfast.control.state.node_state import NodeRecord
from holdfast.control.state.unit_state import UnitRecord
from holdfast.control.vitals import UnitVitals
from holdfast.deployment import UnitId
from holdfast.health.policy import Policy


class Units(Protocol):
    """What this machine sees of the units' state."""

    def partners(self, unit: UnitId) -> list[UnitRecord]: ...


class Signs(Protocol):
    """What it sees of their signs of life."""

    @property
    def units(self) -> Mapping[str, UnitVitals]: ...


class Nodes(Protocol):
    """What it sees of nodes."""

    @property
    def nodes(self) -> Mapping[str, NodeRecord]: ...


class Replication:
    """Sees units in several replicas; decides nothing about those in one."""

    def __init__(
        self,
        *,
        units: Units,
        signs: Signs,
        nodes: Nodes,
        policy: Policy,
        out: Outlet[ReplicaFact, Never],
    ) -> None:
        self._units = units
        self._signs = signs
        self._nodes = nodes
        self._policy = policy
        self._out = out

    def observe(self, moment: Moment, record: UnitRecord, node: str, told: UnitReport) -> None:
        """A running replica reported: tell if it has taken the lead.

        Of two that both say so the one that is further does: the other one has not yet come to the
        batch that it lost.
        """
        partners = self._units.partners(record.unit)
        leading = [report.batch for report in self._reports(partners) if report.leads]
        if partners and told.leads and not record.leads and told.batch > max(leading, default=-2):
            self._out.record(
                UnitPromoted(
                    at=moment.now,
                    cause=moment.cause,
                    unit=record.unit,
                    generation=record.generation,
                    node=node,
                    epoch=told.epoch,
                )
            )

    def left_behind(self, record: UnitRecord, told: UnitReport) -> str | None:
        """Why a follower is given up, None if it is not: not before it has made a batch.

        Nor for what it was behind at best: its leader went so far while it started, and would do so
        again, so that a clone would never live long enough to catch up.
        """
        vitals = self._signs.units.get(str(record.unit))
        if vitals is None or told.leads or record.leads or told.batch < 0:
            return None
        batches = [report.batch for report in self._reports(self._units.partners(record.unit))]
        behind = max(0, max(batches, default=told.batch) - told.batch)
        least = behind if vitals.least_behind is None else min(behind, vitals.least_behind)
        vitals.least_behind = least
        if behind - least <= self._policy.follower_batches:
            return None
        return f"{behind} batches behind its leader"

    def _reports(self, partners: Iterable[UnitRecord]) -> Iterator[UnitReport]:
        """What those that run have told last."""
        for partner in partners:
            vitals = self._signs.units.get(str(partner.unit))
            if partner.phase == "running" and vitals is not None:
                yield vitals.report

    def away_s(self, record: UnitRecord, reason: DownReason) -> float:
        """How long a replica that was lost is to stay away; 0: nobody goes on in its place.

        Should the other one be lost meanwhile, that one is started at once.
        """
        if reason == "left behind":
            return 0.0
        running = any(one.phase == "running" for one in self._units.partners(record.unit))
        return self._policy.rejoin_s if running else 0.0

    def elsewhere(self, record: UnitRecord) -> Elsewhere | None:
        """Where a replica must not be put; None: anywhere will do."""
        partners = self._units.partners(record.unit)
        if not partners:
            return None
        nodes = frozenset(partner.node for partner in partners if partner.node is not None)
        known = (self._nodes.nodes.get(name) for name in nodes)
        domains = frozenset(node.domain for node in known if node is not None and node.domain)
        return Elsewhere(nodes=nodes, domains=domains)
