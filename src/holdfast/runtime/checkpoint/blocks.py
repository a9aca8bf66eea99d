"""The checkpoint of a shard made of others' by giving whole state partitions away.

Problem: units hand over state of blocks of partitions (`deployment.blocks`), one to several or
several to one. Partition p of an operator is a folder in the checkpoint of whoever owns it, under
its place in the owner's block, so the heir's checkpoint is the same folders under other numbers:
links, whatever their size.

What Spark keeps beside them is written anew: how many partitions there are (in the newest offsets
and in the metadata of each operator), which version of which partition counts (by unique id, in the
newest commit), how far the sources have been read, and the query's id. Where owners have run
different numbers of batches, the versions of some are counted on (`changelog`). Watermarks are the
smallest of the owners': an heir may keep state a little longer, never drop it early.

Cost: a link per file of state, plus the changelogs since the last snapshot where versions differ.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.deployment.blocks import Block
from holdfast.errors import CorruptLogError
from holdfast.runtime.checkpoint.changelog import empty_changelog, read_head, shift_changelog
from holdfast.runtime.checkpoint.clone import move_schema_paths
from holdfast.storage import Storage
from holdfast.storage.identity import new_id

_PARTITION = re.compile(r"(?P<operator>\d+)/(?P<partition>\d+)/(?P<rest>.+)")
_VERSIONED = re.compile(r"(?P<folder>(?:.*/)?)(?P<version>\d+)_(?P<rest>[^/]+\.(?P<kind>\w+))")
_OPERATOR_METADATA = re.compile(r"\d+/_metadata/(metadata|v2/\d+)")
_SHUFFLE = "spark.sql.shuffle.partitions"
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
_CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A checkpoint that gives state away."""

    checkpoint: str
    """Its name in the storage."""
    block: Block
    spark_batch: int
    """Spark's number of the committed batch whose state is taken."""


@dataclass(slots=True)
class _Heir:
    """What the new checkpoint is made of."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    """Names in it to stored files to link, or to what is written."""


def compose_checkpoint(
    storage: Storage,
    target: str,
    parts: Sequence[Part],
    block: Block,
    *,
    source_offset: str,
    step: Callable[[int], None] = lambda _: None,
) -> None:
    """Make the checkpoint of a block out of those of its owners; whole or not at all.

    Its query goes on as one that has committed a batch which ended at `source_offset` of each of
    its sources.

    Args:
        storage: what all of them are in.
        target: name of the new checkpoint; nothing is done if it is there.
        parts: owners whose blocks hold, or are held by, the new one; together they cover it.
        block: what the new unit owns.
        source_offset: as Spark writes it.
        step: called with the number of files done so far, before the checkpoint appears.
    """
    owners = {
        partition: part for part in parts for partition in range(part.block.first, part.block.stop)
    }
    missing = [number for number in range(block.first, block.stop) if number not in owners]
    if missing:
        raise ValueError(f"nobody owns partitions {missing} of {target}")
    newest = max(part.spark_batch for part in parts)
    heir = _Heir()
    taken = [
        part for part in parts if any(owners[n] == part for n in range(block.first, block.stop))
    ]
    for part in taken:
        _take_partitions(heir, storage, part, block, newest - part.spark_batch)
    heir.files |= operator_metadata(storage, taken[0].checkpoint, target, block.count)
    _write_logs(heir, storage, taken, block, newest, source_offset)
    heir.files["metadata"] = json.dumps({"id": str(uuid.UUID(new_id()))}).encode()
    storage.assemble(target, heir.files, step=step)


# State


def _take_partitions(heir: _Heir, storage: Storage, part: Part, block: Block, by: int) -> None:
    """Link the partitions that fall into the block, their versions counted on by a number."""
    state = f"{part.checkpoint}/state"
    chains: dict[str, list[tuple[int, str]]] = {}
    for name in storage.sizes(state):
        found = _PARTITION.fullmatch(name)
        if found is None:
            continue
        local = part.block.first + int(found["partition"]) - block.first
        if not 0 <= local < block.count:
            continue
        store = f"state/{found['operator']}/{local}"
        versioned = _VERSIONED.fullmatch(found["rest"])
        if versioned is None:
            heir.files[f"{store}/{found['rest']}"] = f"{state}/{name}"
            continue
        version = int(versioned["version"])
        if version > part.spark_batch + 1:
            continue  # of a batch that was not committed
        fresh = f"{store}/{versioned['folder']}{version + by}_{versioned['rest']}"
        if by and versioned["kind"] == _CHANGELOG:
            chains.setdefault(f"{store}/{versioned['folder']}", []).append(
                (version + by, f"{state}/{name}")
            )
        else:
            heir.files[fresh] = f"{state}/{name}"
    for folder, changelogs in chains.items():
        _shift(heir, storage, folder, changelogs, by)


def _shift(
    heir: _Heir, storage: Storage, folder: str, changelogs: list[tuple[int, str]], by: int
) -> None:
    """Write the changelogs of one store under their new versions.

    Without a snapshot Spark begins at version 1. Versions before a store's first are then empty.
    """
    before: list[dict[str, Any]] = []
    for version, name in sorted(changelogs):
        data = storage.read(name)
        if data is None:
            continue  # removed meanwhile, so older than what the commit needs
        path = storage.address(name)
        lineage = read_head(data, path=path).lineage
        first = lineage[0]["version"] if lineage else version - by
        if first == 1 and not before:
            for number in range(1, by + 1):
                identity = str(uuid.UUID(new_id()))
                heir.files[f"{folder}{number}_{identity}.{_CHANGELOG}"] = empty_changelog(
                    data, before, path=path
                )
                before.append({"version": number, "checkpointUniqueId": identity})
        last = name.rpartition("/")[2].partition("_")[2]
        heir.files[f"{folder}{version}_{last}"] = shift_changelog(
            data, by, before=before if first == 1 else (), path=path
        )


def operator_metadata(
    storage: Storage, checkpoint: str, target: str, partitions: int
) -> dict[str, str | bytes]:
    """What operators say about their stores, and their schema, which Spark keeps with the first.

    All owners have the same; `target` is the checkpoint that it is for, with so many partitions.
    """
    state = f"{checkpoint}/state"
    home = storage.address(target)
    files: dict[str, str | bytes] = {}
    for name in storage.sizes(state):
        words = name.split("/")
        source, place = f"{state}/{name}", f"state/{name}"
        if _OPERATOR_METADATA.fullmatch(name):
            data = storage.read(source)
            if data is not None:
                where = storage.address(source)
                moved = move_schema_paths(data, where=where, checkpoint=home)
                files[place] = _with_partitions(moved, partitions, path=where)
        elif words[1].startswith("_") or (words[1] == "0" and words[-2] == "_metadata"):
            files[place] = source
    return files


def _with_partitions(data: bytes, count: int, *, path: str) -> bytes:
    version, _, body = data.decode().partition("\n")
    metadata = _json(body, path)
    for store in metadata.get("stateStoreInfo", ()):
        if "numPartitions" in store:
            store["numPartitions"] = count
    return f"{version}\n{_text(metadata)}".encode()


# Spark's logs


def _write_logs(
    heir: _Heir,
    storage: Storage,
    parts: Sequence[Part],
    block: Block,
    newest: int,
    source_offset: str,
) -> None:
    """The newest commit and its offsets, and the offsets before, which Spark asks for."""
    merged = merge_logs(storage, parts, block, source_offset)
    for number in range(max(0, newest - 1), newest + 1):
        heir.files[f"offsets/{number}"] = merged.offsets
    heir.files[f"commits/{newest}"] = merged.commit(_unique_ids(parts, merged.commits, block))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedLogs:
    """What Spark's logs say of the last batch of several owners, as one."""

    offsets: bytes
    commits: tuple[_Entry, ...]
    """Those of the owners."""

    def commit(self, unique_ids: Mapping[str, list[Any]]) -> bytes:
        """The commit, with the version of every store that counts, by operator and partition."""
        first = self.commits[0]
        content = {
            **first.content,
            "nextBatchWatermarkMs": min(
                item.content.get("nextBatchWatermarkMs", 0) for item in self.commits
            ),
            "stateUniqueIds": unique_ids,
        }
        return f"{first.version}\n{_text(content)}".encode()


def merge_logs(
    storage: Storage, parts: Sequence[Part], block: Block, source_offset: str
) -> MergedLogs:
    """The last batch of owners as that of one who owns a block."""
    plans = [_log(storage, part, "offsets") for part in parts]
    first = plans[0]
    settings = dict(first.content)
    settings["batchWatermarkMs"] = min(plan.content.get("batchWatermarkMs", 0) for plan in plans)
    strict = {} if block.of == 1 else {_STRICT: "false"}
    settings["conf"] = {**settings["conf"], _SHUFFLE: str(block.count), **strict}
    sources = [source_offset] * len(first.rest)
    return MergedLogs(
        offsets="\n".join([first.version, _text(settings), *sources]).encode(),
        commits=tuple(_log(storage, part, "commits") for part in parts),
    )


def _unique_ids(
    parts: Sequence[Part], commits: Sequence[_Entry], block: Block
) -> dict[str, list[Any]]:
    """Which version of every store counts, by operator and partition."""
    found: dict[str, list[Any]] = {}
    for operator in commits[0].content["stateUniqueIds"]:
        ids: list[Any] = [None] * block.count
        for part, commit in zip(parts, commits, strict=True):
            known = commit.content["stateUniqueIds"].get(operator, [])
            if len(known) != part.block.count:
                raise CorruptLogError(
                    f"has {len(known)} state partitions, not {part.block.count}", path=commit.path
                )
            for place, value in enumerate(known):
                local = part.block.first + place - block.first
                if 0 <= local < block.count:
                    ids[local] = value
        found[operator] = ids
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A file of one of Spark's logs: version, a line of JSON, and one per source."""

    version: str
    content: Mapping[str, Any]
    rest: tuple[str, ...]
    path: str


def _log(storage: Storage, part: Part, folder: str) -> _Entry:
    name = f"{part.checkpoint}/{folder}/{part.spark_batch}"
    path = storage.address(name)
    data = storage.read(name)
    if data is None:
        raise CorruptLogError("is missing: the state of this batch is gone", path=path)
    lines = data.decode().splitlines()
    if len(lines) < 2:
        raise CorruptLogError("is torn", path=path)
    content = _json(lines[1], path)
    return _Entry(version=lines[0], content=content, rest=tuple(lines[2:]), path=path)


def _json(text: str, path: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        raise CorruptLogError("is torn", path=path) from None
    return found


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))
