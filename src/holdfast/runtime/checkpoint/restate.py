"""State laid out over other partitions, by Spark's own rewriting of state.

Problem: an heir is to own key groups that are no whole partitions of its parents' state: their
operator declared no `max_shards`, or fewer than it is to have now. Nothing can be linked then.
Spark reads the state of the parents, takes the rows that fall to the heir and writes them anew,
placed as blocks are (`runtime.spark.units.restate`). What it has written is one more checkpoint
that gives state away (`blocks`).

Here is what lies around that: the *workplace* of a checkpoint that is being made, with a clone of
every parent's at the batch that is handed over, so that nobody removes files while they are read,
and the checkpoint that Spark writes. Nobody takes it for one: who is killed leaves it behind, the
next generation makes its own and removes it.

Cost: every heir reads all of its parents' state, and writes what falls to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.deployment.blocks import Block
from holdfast.errors import BadInputError
from holdfast.runtime.checkpoint.blocks import (
    MergedLogs,
    Part,
    compose_checkpoint,
    merge_logs,
    operator_metadata,
)
from holdfast.runtime.checkpoint.clone import clone_between
from holdfast.runtime.log.crash import Crash
from holdfast.storage import Storage

_JOINED = "field0"
"""Spark's name of the first column that a join is by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What Spark reads, and where it writes."""

    place: str
    """The workplace, by its name in the storage; whatever else is named lies in it."""
    sources: tuple[tuple[str, int], ...]
    """Checkpoints, each with Spark's number of the batch whose state is read."""
    target: str
    """The checkpoint that is written."""
    spark_batch: int
    """Spark's number of the batch that it is written as."""
    partitions: int


UniqueIds: TypeAlias = Mapping[str, list[Any]]
"""Which version of every store counts: by operator, a list by partition."""
Rewrite: TypeAlias = Callable[[Storage, Stage], UniqueIds]
"""Has Spark write the state of a stage."""


def restate(
    storage: Storage,
    target: str,
    parts: Sequence[Part],
    block: Block,
    rewrite: Rewrite,
    *,
    unit: str,
    source_offset: str,
    crash: Crash,
    step: Callable[[int], None] = lambda _: None,
) -> None:
    """Make the checkpoint of a block out of state that lies otherwise; whole or not at all.

    Args:
        storage: what all of them are in.
        target: name of the new checkpoint; nothing is done if it is there.
        parts: those who have the state.
        block: what the new unit owns.
        rewrite: has Spark do it.
        unit: the new one's name.
        source_offset: as Spark writes it.
        crash: where to die.
        step: called with the number of files done so far, before the checkpoint appears.
    """
    place = storage.workplace(target)
    try:
        stage, logs = _lay_out(storage, place, parts, block, unit, source_offset)
        crash.at("before-restating", unit)
        written = rewrite(storage, stage)
        crash.at("after-restating", unit)
        written_to = f"{place}/{stage.target}"
        storage.replace(f"{written_to}/commits/{stage.spark_batch}", logs.commit(written))
        made = Part(checkpoint=written_to, block=block, spark_batch=stage.spark_batch)
        compose_checkpoint(storage, target, [made], block, source_offset=source_offset, step=step)
    finally:
        storage.remove_folder(place, aside=f"{place.rpartition('.')[0]}.gone")


def _lay_out(
    storage: Storage,
    place: str,
    parts: Sequence[Part],
    block: Block,
    unit: str,
    source_offset: str,
) -> tuple[Stage, MergedLogs]:
    """Clone what is read, and write what Spark wants to find where it writes."""
    clones = []
    for number, part in enumerate(parts):
        clone = f"from-{number}"
        clone_between(
            storage,
            part.checkpoint,
            f"{place}/{clone}",
            unit=unit,
            crash=Crash(),
            newest=part.spark_batch,
            beside=True,
        )
        clones.append((clone, part.spark_batch))
    stage = Stage(
        place=place,
        sources=tuple(clones),
        target="to",
        spark_batch=parts[0].spark_batch + 1,
        partitions=block.count,
    )
    logs = merge_logs(storage, parts, block, source_offset)
    target = f"{place}/{stage.target}"
    files = operator_metadata(storage, f"{place}/{clones[0][0]}", target, block.count)
    storage.assemble(
        target,
        {
            **files,
            f"offsets/{parts[0].spark_batch}": logs.offsets,
            f"offsets/{stage.spark_batch}": logs.offsets,
        },
        step=lambda _: None,
    )
    return stage, logs


def key_fields(names: Sequence[str], key: Sequence[str], operator: str) -> list[str]:
    """Those of the columns by which Spark keeps state that are an operator's key, in its order."""
    if all(name in names for name in key):
        return list(key)
    if len(key) == 1 and list(names) == [_JOINED]:
        return [_JOINED]
    raise BadInputError(
        f"its state is kept by {', '.join(names)}, in which its key ({', '.join(key)}) cannot be "
        "told, so it cannot be divided",
        where=operator,
    )


def check_key(storage: Storage, checkpoint: str, key: Sequence[str], operator: str) -> None:
    """Raise if an operator's key cannot be told in the state of a checkpoint, as its schema says.

    It is what Spark will find when it lays the state out. A checkpoint without state is as good.
    """
    for name in storage.sizes(f"{checkpoint}/state"):
        words = name.split("/")
        schema = "_stateSchema" in words or words[-2:] == ["_metadata", "schema"]
        if not schema or words[-1].startswith("."):
            continue
        data = storage.read(f"{checkpoint}/state/{name}")
        columns = _key_columns(data) if data is not None else None
        if columns is not None:
            key_fields(columns, key, operator)


def _key_columns(schema: bytes) -> list[str] | None:
    """What the first store of a schema file is kept by; None: that is not to be read from it.

    The file has the schemas of keys and values as JSON between other things, that of a key first.
    Where a store has keys of its own within those of the operator, these are called `key`.
    """
    start = schema.find(b'{"type":"struct"')
    if start < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(schema[start:].decode("utf-8", "replace"))
        fields = {field["name"]: field["type"] for field in found["fields"]}
    except (ValueError, KeyError, TypeError):
        return None
    inner = fields.get("key")
    if isinstance(inner, dict) and "fields" in inner:
        return [field["name"] for field in inner["fields"]]
    return [name for name in fields if name != "index" or _JOINED not in fields]
