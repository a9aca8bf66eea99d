"""Which node gets a unit.

First starts spread over the nodes that are not spares, least loaded first. After a failure the
units of one lost node stay together: they go to one warm spare, so that the others are kept for the
next failure; without a spare they go to survivors, least loaded first. No node, spare or not, ever
gets more than `max_units_per_node`; a unit for which there is no room waits for a node to join. A
unit that failed with an exception is retried on its own node, whose session is warm; one that found
no room to write twice is tried elsewhere, where there may be some.

Greedy, O(units x nodes) a pass; a pass does nothing when no unit waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.control.facts import PlaceReason, UnitPlaced, UnitWaiting
from holdfast.control.membership import start_command
from holdfast.control.state import UnitRecord
from holdfast.control.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A connected node as placement sees it."""

    node: str
    incarnation: str
    domain: str
    spare: bool
    ready: bool
    load: int


def choose(
    candidates: Iterable[Candidate],
    *,
    room: int,
    spread: bool,
    keep_on: str | None = None,
    stand_in: str | None = None,
    avoid_domain: str = "",
    forbidden_domains: frozenset[str] = frozenset(),
) -> Candidate | None:
    """The best node with room, or None.

    Args:
        candidates: connected nodes with their present load.
        room: units a node may have.
        spread: a first start: leave spares alone if possible.
        keep_on: the node to stay on if it has room.
        stand_in: the node that took other units of the same lost node.
        avoid_domain: the failure domain just lost from; another one is better.
        forbidden_domains: those of the unit's other replicas; never used.
    """
    fitting = [
        candidate
        for candidate in candidates
        if candidate.load < room and candidate.domain not in forbidden_domains
    ]

    def rank(candidate: Candidate) -> tuple[bool | int | str, ...]:
        if spread:
            return (candidate.spare, candidate.load, candidate.node)
        return (
            candidate.node != keep_on,
            candidate.node != stand_in,
            not candidate.ready,
            not candidate.spare,
            bool(avoid_domain) and candidate.domain == avoid_domain,
            candidate.load,
            candidate.node,
        )

    return min(fitting, key=rank, default=None)


def place(turn: Turn) -> None:
    """Give every unit that waits a node, as far as there is room."""
    if turn.state.stopping:
        return
    due = [
        record
        for record in turn.state.units.values()
        if record.phase == "waiting" and record.retry_at <= turn.now
    ]
    if not due or not _gathered(turn):
        return
    stand_ins: dict[str, str] = {}
    for record in due:
        first = record.down is None
        home = record.home or ""
        retry = record.down in ("error", "stopped by itself") or (
            record.down == "no space" and len(record.shortages) == 1
        )
        chosen = choose(
            _candidates(turn),
            room=turn.policy.max_units_per_node,
            spread=first,
            keep_on=home if retry else None,
            stand_in=stand_ins.get(home),
            avoid_domain=record.home_domain,
        )
        if chosen is None:
            if not record.announced:
                turn.record(UnitWaiting(at=turn.now, cause=turn.cause, unit=record.unit))
            continue
        stand_ins[home] = chosen.node
        turn.record(
            UnitPlaced(
                at=turn.now,
                cause=turn.cause,
                unit=record.unit,
                generation=record.generation + 1,
                node=chosen.node,
                incarnation=chosen.incarnation,
                reason=_reason(record, retry=retry),
            )
        )
        turn.send(start_command(turn, record, chosen.node))


def _candidates(turn: Turn) -> list[Candidate]:
    return [
        Candidate(
            node=node.node,
            incarnation=node.incarnation,
            domain=node.domain,
            spare=node.spare,
            ready=turn.vitals.nodes[node.node].ready,
            load=len(turn.state.on_node(node.node)),
        )
        for node in turn.state.nodes.values()
        if turn.vitals.is_connected(node.node)
    ]


def _gathered(turn: Turn) -> bool:
    """Whether enough nodes have joined for a first placement to be balanced."""
    if turn.state.begun or turn.now - turn.state.opened_at >= turn.policy.gather_s:
        return True
    workers = sum(
        not node.spare and turn.vitals.is_connected(node.node) for node in turn.state.nodes.values()
    )
    return workers >= turn.policy.workers


def _reason(record: UnitRecord, *, retry: bool) -> PlaceReason:
    if record.generation == 0:
        return "first start"
    if record.down is None:
        return "resume"
    return "retry" if retry else "recovery"
