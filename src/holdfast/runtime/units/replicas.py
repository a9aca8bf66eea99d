"""By what the replicas of a unit see that one of them has published or delivered a batch.

Who publishes leaves a slice. Who delivers leaves nothing that the others could see in time, as the
next range is recorded only when there is input for it; so an exporter with a follower notes every
batch that it has delivered.
"""

from __future__ import annotations

from holdfast.rundir.layout import unit_folder
from holdfast.runtime.units.lead import SeenBy, Shared
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.steps import Newest, slices

KEPT_MARKS = 64
"""Batches for which it stays noted that they were delivered."""


def lead_of(context: UnitContext) -> Shared:
    """The part of one of several replicas; the first of them leads as long as nothing is there."""
    log, name = context.log, context.name
    if context.segment.kind == "exporter":
        marks = SeenBy(
            exists=lambda number: log.store.exists(_delivered(context, number)),
            address=lambda number: log.store.address(_delivered(context, number)),
        )
        begun = log.newest_batch(name) >= 0
    else:
        marks = SeenBy(
            exists=lambda number: log.slice(name, number) is not None,
            address=lambda number: log.records.address(slices(name), number),
        )
        begun = log.records.execute(Newest(slices(name))) >= 0
    return Shared(
        marks, leads=context.replica == 0 and not begun, watch=context.watch, clock=context.clock
    )


def mark_delivered(context: UnitContext, number: int) -> bool:
    """Tell the other replicas that a batch is delivered; whether this one was the first to."""
    mine, store = context.log.writer.encode(), context.log.store
    first = store.put_if_absent(_delivered(context, number), mine) == mine
    if number >= KEPT_MARKS:
        store.delete(_delivered(context, number - KEPT_MARKS))
    return first


def _delivered(context: UnitContext, number: int) -> str:
    return f"{unit_folder(context.name)}/delivered/{number:010d}"
