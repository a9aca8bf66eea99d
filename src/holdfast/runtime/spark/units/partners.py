"""A replica that begins from the checkpoint of another one of its unit."""

from __future__ import annotations

from holdfast.deployment import UnitId
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.clone import clone_between, generations, next_batch
from holdfast.runtime.units.threads import UnitContext


def clone_partner(context: UnitContext, own: int | None, *, rows: int) -> bool:
    """Clone the newest checkpoint of another replica, which may be running.

    Not if this replica's own, of generation `own`, has come as far. `rows` of the clock source
    stand for one batch. Whether it has.
    """
    log, layout = context.log, context.log.layout
    best = 0 if own is None else _reached(context, context.unit, own, rows)
    found: tuple[UnitId, int] | None = None
    for other in context.unit.replicas:
        there = generations(log.store.below(layout.checkpoints(str(other))))
        if other == context.unit or not there:
            continue
        reached = _reached(context, other, there[-1], rows)
        if reached > best:
            best, found = reached, (other, there[-1])
    if found is None:
        return False
    clone_between(
        log.store,
        layout.checkpoint(*found),
        layout.checkpoint(context.unit, context.generation),
        unit=context.name,
        crash=context.crash,
    )
    return True


def _reached(context: UnitContext, unit: UnitId, generation: int, rows: int) -> int:
    """The batch that a checkpoint goes on with."""
    folder = context.log.layout.checkpoints(str(unit))
    checkpoint = context.log.store.below(folder).below(generation_word(generation))
    return next_batch(checkpoint, rows) or 0
