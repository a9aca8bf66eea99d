"""Which node gets a unit.

First starts spread over the nodes that are not spares, least loaded first. After a failure the
units of one lost node stay together: they go to one warm spare, so that the others are kept for the
next failure; without a spare they go to survivors, least loaded first. No node, spare or not, ever
gets more than `max_units_per_node`; a unit for which there is no room waits for a node to join. A
unit that failed with an exception is retried on its own node, whose session is warm; one that found
no room to write twice is tried elsewhere, where there may be some.

Greedy; a pass costs what it places, and nothing while no unit waits or no node has room.
"""

from __future__ import annotations

from holdfast.control import units
from holdfast.control.facts import PlaceReason, UnitPlaced, UnitWaiting
from holdfast.control.membership import start_command
from holdfast.control.state import UnitRecord
from holdfast.control.turn import Turn


def place(turn: Turn) -> None:
    """Give every unit that waits a node, as far as there is room."""
    if turn.state.stopping:
        return
    index, pool = turn.state.index, turn.vitals.pool
    index.ripen(turn.now)
    waiting = index.ready | index.stuck if index.stuck and pool.has_room() else index.ready
    if not waiting or not _gathered(turn):
        return
    stand_ins: dict[str, str] = {}
    for name in index.in_order(waiting):
        record = turn.state.units[name]
        if record.announced and not pool.has_room():
            continue
        first = record.down is None
        home = record.home or ""
        retry = record.down in ("error", "stopped by itself") or (
            record.down == "no space" and len(record.shortages) == 1
        )
        chosen = pool.choose(
            spread=first,
            keep_on=home if retry else None,
            stand_in=stand_ins.get(home),
            avoid_domain=record.home_domain,
        )
        if chosen is None:
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
        turn.refresh(chosen.node)
        units.expect(turn, record)
        turn.send(start_command(turn, record, chosen.node))


def _gathered(turn: Turn) -> bool:
    """Whether enough nodes have joined for a first placement to be balanced."""
    if turn.state.begun or turn.now - turn.state.opened_at >= turn.policy.gather_s:
        return True
    return turn.vitals.pool.workers >= turn.policy.workers


def _reason(record: UnitRecord, *, retry: bool) -> PlaceReason:
    if record.generation == 0:
        return "first start"
    if record.down is None:
        return "resume"
    return "retry" if retry else "recovery"
