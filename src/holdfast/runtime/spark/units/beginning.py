"""Checkpoints that a unit begins with, and those it leaves for others to begin with."""

from __future__ import annotations

from holdfast.runtime.checkpoint.clone import next_batch
from holdfast.runtime.checkpoint.kept import drop_kept, keep
from holdfast.runtime.log.start import rebuilt_start, require_start
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams.repair import KEEP_EVERY


def refuse_or_rebuild(context: UnitContext, checkpoint: Storage | None, *, rows: int) -> int | None:
    """Refuse what would wait for ever: a start from a checkpoint that the log has left behind.

    Before anything is made of it, so that a checkpoint put back later is still the newest. A native
    source holds its checkpoint against the records by itself. Gives the batch that a new checkpoint
    is to go on with, if that will do instead. `rows` of the clock source stand for one batch.
    """
    if context.segment.kind != "inner":
        return None
    kept = None if checkpoint is None else next_batch(checkpoint, rows)
    if kept is None and checkpoint is not None:
        return None
    where = context.log, context.deployment, context.unit
    rebuilt = rebuilt_start(*where, first=kept)
    if rebuilt is None:
        require_start(*where, first=kept or 0, checkpointed=True)
    return rebuilt


def keep_commit(context: UnitContext, folder: Storage, number: int) -> None:
    """While batch `number` runs: keep the state before it, now and then, for who repairs slices.

    Spark keeps the newest few commits. With several levels of acknowledgement, slices live longer.
    """
    if context.trimmer.levels == 1 or not context.segment.stateful or number % KEEP_EVERY:
        return
    keep(folder, context.generation, number - 1, unit=context.name, crash=context.crash)
    epoch = context.trimmer.keep_epoch(context.name)
    if epoch is not None:
        log, name = context.log, context.name
        drop_kept(folder, lambda batch: log.range(name, batch), epoch, new_id=context.new_id)
