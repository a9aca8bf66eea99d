"""Spark checkpoint directories: one per generation of a unit, cloned at takeover, never edited.

A woken zombie writes only into its own directory. A clone links files instead of copying them:
Spark never changes a checkpoint file, it writes another and renames it, so a link is a snapshot.
The exception is the metadata of transformWithState, which names its schema files by absolute path:
a clone gets its own, or it would depend on a directory that is removed some takeovers later.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import CorruptLogError
from holdfast.runtime.log.crash import Crash

# In this order: whatever is in commits has its offsets and its state written already, so a clone
# of a directory that is still being written holds everything its last commit needs.
_ORDER = ("metadata", "commits", "offsets", "sources", "state")

_OPERATOR_METADATA = re.compile(r"state/\d+/_metadata/v2")
_SCHEMA_FILE = re.compile(r"(?P<scheme>(?:file:)?).*/(?P<inside>state/\d+/_stateSchema/.*)")


def clone_checkpoint(source: Path, target: Path, *, unit: str, crash: Crash) -> None:
    """Make `target` a snapshot of `source`; it appears whole or not at all."""
    if target.exists():
        return
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}.cloning")
    temporary.mkdir(parents=True)
    made: set[str] = {""}
    try:
        # Plain strings: a join that was not snapshotted for a while has thousands of files.
        for step, (folder, name) in enumerate(_files(source)):
            if folder not in made:
                (temporary / folder).mkdir(parents=True, exist_ok=True)
                made.add(folder)
            try:
                if _OPERATOR_METADATA.fullmatch(folder):
                    _move_schema_paths(source / folder / name, temporary / folder / name, target)
                else:
                    os.link(f"{source}/{folder}/{name}", f"{temporary}/{folder}/{name}")
            except FileNotFoundError:
                continue  # purged meanwhile, so older than what the newest commit needs
            if step == 2:
                crash.at("during-clone", unit)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move_schema_paths(source: Path, copy: Path, checkpoint: Path) -> None:
    """Copy an operator's metadata so that its schema files are those of `checkpoint`.

    The checksum that Hadoop keeps beside the file is left out: it would be that of the other one.
    """
    if source.name.startswith("."):
        return
    version, _, body = source.read_text().partition("\n")
    try:
        metadata = json.loads(body)
        stores = metadata["stateStoreInfo"]
    except (ValueError, KeyError, TypeError):
        raise CorruptLogError("holds no metadata of an operator", path=str(source)) from None

    def moved(path: str) -> str:
        found = _SCHEMA_FILE.fullmatch(path)
        home = checkpoint.absolute()
        return path if found is None else f"{found['scheme']}{home}/{found['inside']}"

    for store in stores:
        if store.get("stateSchemaFilePaths"):
            store["stateSchemaFilePaths"] = [moved(path) for path in store["stateSchemaFilePaths"]]
    copy.write_text(f"{version}\n{json.dumps(metadata, separators=(',', ':'))}")


def newest_generation(folder: Path, below: int) -> int | None:
    """The newest complete checkpoint of a generation before `below`."""
    if not folder.exists():
        return None
    known = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    return max((number for number in known if number < below), default=None)


def remove_older(folder: Path, keep_from: int) -> None:
    """Remove checkpoints of generations that no takeover will clone any more."""
    if not folder.exists():
        return
    for path in folder.iterdir():
        if path.name.isdigit() and int(path.name) < keep_from:
            shutil.rmtree(path, ignore_errors=True)


def batch_number(checkpoint: Path, spark_batch: int, rows: int) -> int:
    """Our number of one of Spark's batches: from the end offset that Spark logged for it.

    Not Spark's batch id, which other things than our batches can use up. `rows` is how many rows
    of the clock source stand for one batch.
    """
    offset = source_offset(checkpoint, spark_batch)
    try:
        return int(json.loads(offset)["offset"]) // rows - 1
    except (ValueError, KeyError, TypeError):
        path = checkpoint / "offsets" / str(spark_batch)
        raise CorruptLogError("holds no batch number", path=str(path)) from None


def source_offset(checkpoint: Path, spark_batch: int) -> str:
    """The end offset of a query's only source, as Spark logged it before running the batch."""
    path = checkpoint / "offsets" / str(spark_batch)
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        raise CorruptLogError("Spark's offset file is missing", path=str(path)) from None
    if len(lines) < 3:
        raise CorruptLogError("Spark's offset file is torn", path=str(path))
    return lines[2]


def _files(source: Path) -> Iterator[tuple[str, str]]:
    """Folder below `source`, and name, of every file that a clone needs."""
    names = [path.name for path in source.iterdir()]
    cut = len(str(source)) + 1
    for name in [*_ORDER, *sorted(set(names) - set(_ORDER))]:
        start = source / name
        if start.is_file():
            yield "", name
        elif start.is_dir():
            for folder, inner, files in os.walk(start):
                inner.sort()  # what names files (_metadata) before those files (_stateSchema)
                for file in sorted(files):
                    if not file.endswith(".tmp"):
                        yield folder[cut:], file
