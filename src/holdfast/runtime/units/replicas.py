"""By what the replicas of a unit see that one of them has published or delivered a batch.

Who publishes leaves a slice. Who delivers leaves nothing that the others could see in time, as the
next range is recorded only when there is input for it; so an exporter with a follower notes every
batch that it has delivered.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.rundir.layout import unit_folder
from holdfast.runtime.units.lead import SeenBy, Shared
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.steps import Newest, slices

ALIVE = "alive"
"""Folder of a unit with a file for each replica, locked while its process lives."""
KEPT_MARKS = 64
"""Batches for which it stays noted that they were delivered."""


def lead_of(context: UnitContext) -> Shared:
    """The part of one of several replicas; the first of them leads as long as nothing is there."""
    log, name, store = context.log, context.name, context.log.store

    def alive(writer: str) -> bool:
        return store.is_held(_sign(context, writer))

    def published_by(number: int) -> str | None:
        found = log.slice(name, number)
        return None if found is None else found.writer

    def delivered_by(number: int) -> str | None:
        found = store.get(_delivered(context, number))
        return None if found is None else found.decode()

    if context.segment.kind == "exporter":
        marks = SeenBy(
            writer=delivered_by,
            alive=alive,
            address=lambda number: store.address(_delivered(context, number)),
        )
        begun = log.newest_batch(name) >= 0
    else:
        marks = SeenBy(
            writer=published_by,
            alive=alive,
            address=lambda number: log.records.address(slices(name), number),
        )
        begun = log.records.execute(Newest(slices(name))) >= 0
    return Shared(
        marks,
        leads=context.replica == 0 and not begun,
        watch=context.watch,
        clock=context.clock,
        let_go=_show_life(context),
    )


def _show_life(context: UnitContext) -> Callable[[], None]:
    """Let the other replicas see when this process ends; remove what those left that have."""
    store = context.log.store
    for writer in store.names(f"{unit_folder(context.name)}/{ALIVE}"):
        store.is_held(_sign(context, writer))
    return store.hold(_sign(context, context.log.writer))


def _sign(context: UnitContext, writer: str) -> str:
    return f"{unit_folder(context.name)}/{ALIVE}/{writer}"


def mark_delivered(context: UnitContext, number: int) -> bool:
    """Tell the other replicas that a batch is delivered; whether this one was the first to."""
    mine, store = context.log.writer.encode(), context.log.store
    first = store.put_if_absent(_delivered(context, number), mine) == mine
    if number >= KEPT_MARKS:
        store.delete(_delivered(context, number - KEPT_MARKS))
    return first


def _delivered(context: UnitContext, number: int) -> str:
    return f"{unit_folder(context.name)}/delivered/{number:010d}"
