"""The first checkpoint of a unit that takes over the state of others.

A `run` change names its parents, and their seals the batch whose committed state is handed over
(`holdfast.streams.handover`). Each parent has a checkpoint per generation; whichever has committed
that batch will do, as all of them have run the same ranges. So will one that was kept, or made by
running a batch again, whose unit had published it and died.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.deployment import Segment, UnitId
from holdfast.deployment.blocks import Block, block_of
from holdfast.errors import BadInputError
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.blocks import Part, compose_checkpoint
from holdfast.runtime.checkpoint.clone import batch_number, generations, make_checkpoint
from holdfast.runtime.checkpoint.kept import committed
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.handover import Birth

BIRTH = -1
"""Stands for the batch before a unit's first: the state that it was born with."""


def inherit(
    log: SliceLog,
    unit: UnitId,
    generation: int,
    parents: Sequence[tuple[str, int]],
    segment: Segment,
    *,
    rows: int,
    crash: Crash,
) -> None:
    """Make the checkpoint of a unit's generation out of those of its parents.

    Args:
        log: where all of them are.
        unit: whose it is.
        generation: of the unit.
        parents: units, each with the batch that has the state.
        segment: what all of them run.
        rows: of the clock source, which stand for one batch.
        crash: where to die.
    """
    name = unit.name
    folder = log.layout.checkpoints(str(unit))
    most, groups = segment.max_shards, log.child(name).groups
    if most == 1 and groups not in [log.child(parent).groups for parent, _ in parents]:
        names = ", ".join(parent for parent, _ in parents)
        raise BadInputError(
            f"it is to take over the state of {names}, which cannot be divided",
            where=name,
            hint="declare max_shards",
        )
    whole = Block(first=0, count=1, of=1)
    block = block_of(groups, most) if most > 1 else whole
    parts = []
    for parent, batch in parents:
        mine = log.child(parent).groups
        owned = block_of(mine, most) if most > 1 else whole
        if not (owned.holds(block) or block.holds(owned)) or (most == 1 and mine != groups):
            continue
        found = commit_of(log, parent, batch, rows)
        if found is None:
            if batch == BIRTH and not _given(log, parent):
                continue  # it was begun with no state, and has run nothing
            raise BadInputError(
                f"it is to take over the state of {parent} after batch {batch}, and no checkpoint "
                "of that has it",
                where=name,
                hint=f"put {log.layout.checkpoints(parent)} back",
            )
        checkpoint, spark_batch = found
        parts.append(Part(checkpoint=checkpoint, block=owned, spark_batch=spark_batch))
    if not parts:
        make_checkpoint(log.store.below(folder), generation, next_batch=0, rows=rows)
        return

    def step(done: int) -> None:
        if done == 2:
            crash.at("during-handover", name)

    compose_checkpoint(
        log.store,
        f"{folder}/{generation_word(generation)}",
        parts,
        block,
        source_offset=json.dumps({"offset": 0, "timestamp": 0}, separators=(",", ":")),
        step=step,
    )


def _given(log: SliceLog, unit: str) -> bool:
    """Whether a unit was to begin with the state of others."""
    born = log.run(log.steps().birth(unit))
    return isinstance(born, Birth) and bool(born.parents)


def committed_batches(log: SliceLog, unit: str, rows: int) -> set[int]:
    """Our numbers of the batches whose state some checkpoint of a unit has."""
    home = log.layout.checkpoints(unit)
    found: set[int] = set()
    for generation in generations(log.store.below(home)):
        checkpoint = log.store.below(f"{home}/{generation_word(generation)}")
        for name in checkpoint.names("commits"):
            if name.isdigit():
                found.add(batch_number(checkpoint, int(name), rows))
    return found


def commit_of(log: SliceLog, unit: str, batch: int, rows: int) -> tuple[str, int] | None:
    """The newest checkpoint that has committed a batch, and Spark's number of it."""
    return _newest(log, unit, batch, rows) or committed(log, unit, rows).get(batch)


def _newest(log: SliceLog, unit: str, batch: int, rows: int) -> tuple[str, int] | None:
    """The same among the checkpoints of generations."""
    home = log.layout.checkpoints(unit)
    for generation in reversed(generations(log.store.below(home))):
        name = f"{home}/{generation_word(generation)}"
        checkpoint = log.store.below(name)
        known = sorted((int(n) for n in checkpoint.names("commits") if n.isdigit()), reverse=True)
        for spark_batch in known:
            number = batch_number(checkpoint, spark_batch, rows)
            if number == batch:
                return name, spark_batch
            if number < batch:
                break
    return None
