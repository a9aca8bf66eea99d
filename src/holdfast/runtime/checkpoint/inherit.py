"""The first checkpoint of a unit that takes over the state of others.

A `run` change names its parents, and their seals the batch whose committed state is handed over
(`holdfast.streams.handover`). Each parent has a checkpoint per generation; whichever has committed
that batch will do, as all of them have run the same ranges. So will one that was kept, or made by
running a batch again, whose unit had published it and died.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.deployment import KEY_GROUPS, Segment, UnitId
from holdfast.deployment.blocks import Block, block_of, groups_between
from holdfast.errors import BadInputError
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.blocks import Part, compose_checkpoint
from holdfast.runtime.checkpoint.clone import batch_number, generations, make_checkpoint
from holdfast.runtime.checkpoint.kept import committed
from holdfast.runtime.checkpoint.restate import Rewrite, restate
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.handover import Birth
from holdfast.streams.records import Child

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
    rewrite: Rewrite | None = None,
) -> None:
    """Make the checkpoint of a unit's generation out of those of its parents.

    Where state lies in blocks of the same partitions it is linked, else Spark lays it out anew.

    Args:
        log: where all of them are.
        unit: whose it is.
        generation: of the unit.
        parents: units, each with the batch that has the state.
        segment: what all of them run, as the unit has it.
        rows: of the clock source, which stand for one batch.
        crash: where to die.
        rewrite: has Spark lay out state.
    """
    name = unit.name
    folder = log.layout.checkpoints(str(unit))
    mine = owned(log.child(name), segment)
    given = {parent: owned(log.child(parent), segment) for parent, _ in parents}
    linked = all(may_link(one, mine) for one in given.values())
    whole = mine.block.of == 1 and len(mine.groups) == KEY_GROUPS
    if not linked and (rewrite is None or not (segment.key or whole)):
        raise BadInputError(
            f"it is to take over the state of {', '.join(given)}, which cannot be divided",
            where=name,
            hint="declare max_shards",
        )
    parts = [
        part
        for parent, batch in parents
        if not mine.groups.isdisjoint(given[parent].groups)
        and (part := _part(log, name, parent, batch, given[parent].block, rows)) is not None
    ]
    if not parts:
        make_checkpoint(log.store.below(folder), generation, next_batch=0, rows=rows)
        return

    def step(done: int) -> None:
        if done == 2:
            crash.at("during-handover", name)

    target = f"{folder}/{generation_word(generation)}"
    offset = json.dumps({"offset": 0, "timestamp": 0}, separators=(",", ":"))
    if linked or rewrite is None:
        compose_checkpoint(log.store, target, parts, mine.block, source_offset=offset, step=step)
    else:
        restate(
            log.store,
            target,
            parts,
            mine.block,
            rewrite,
            unit=name,
            source_offset=offset,
            crash=crash,
            step=step,
        )


def _part(
    log: SliceLog, heir: str, parent: str, batch: int, block: Block, rows: int
) -> Part | None:
    """What a parent gives; None: it was begun with no state, and has run nothing."""
    found = commit_of(log, parent, batch, rows)
    if found is not None:
        checkpoint, spark_batch = found
        return Part(checkpoint=checkpoint, block=block, spark_batch=spark_batch)
    if batch == BIRTH and not _given(log, parent):
        return None
    raise BadInputError(
        f"it is to take over the state of {parent} after batch {batch}, and no checkpoint of that "
        "has it",
        where=heir,
        hint=f"put {log.layout.checkpoints(parent)} back",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What a unit has of its operator."""

    block: Block
    """State partitions; of one whose operator has a single one in every shard, that."""
    groups: frozenset[int]
    """Key groups."""


def owned(child: Child, segment: Segment) -> Owned:
    """What the change that made a unit gave it."""
    most = segment.max_shards if child.of is None else child.of
    block = block_of(child.groups, most) if most > 1 else Block(first=0, count=1, of=1)
    return Owned(block=block, groups=frozenset(groups_between(*child.groups, most)))


def may_link(given: Owned, mine: Owned) -> bool:
    """Whether what a parent has of a unit's state comes in whole partitions."""
    return given.block.of == mine.block.of and (mine.block.of > 1 or given.groups == mine.groups)


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
