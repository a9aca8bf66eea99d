"""Spark checkpoint directories: one per generation of a unit, cloned at takeover, never edited.

A query without state can do with a new one, made from the records.

A woken zombie writes only into its own directory. A clone links files instead of copying them:
Spark never changes a checkpoint file, it writes another and renames it, so a link is a snapshot.
The exception is the metadata of transformWithState, which names its schema files by absolute path:
a clone gets its own, or it would depend on a directory that is removed some takeovers later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import CorruptLogError
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.store import sync_folder, write_durably

# In this order: whatever is in commits has its offsets and its state written already, so a clone
# of a directory that is still being written holds everything its last commit needs.
_ORDER = ("metadata", "commits", "offsets", "sources", "state")

_CLOCK_STEP_MS = 1000
"""What Spark's clock source adds to its time with every batch."""
_UNFINISHED = re.compile(r"\.(\d+)-[0-9a-f]{32}\.(?:cloning|gone)")
_OPERATOR_METADATA = re.compile(r"state/\d+/_metadata/v2")
_SCHEMA_FILE = re.compile(r"(?P<scheme>(?:file:)?).*/(?P<inside>state/\d+/_stateSchema/.*)")


def clone_checkpoint(source: Path, target: Path, *, unit: str, crash: Crash) -> None:
    """Make `target` a snapshot of `source`; it appears whole or not at all.

    Everything is made relative to the open directory. So if a newer generation takes this one for
    dead and removes the unfinished clone under our hands, nothing of it comes back: the last step
    finds no directory to rename.
    """
    if target.exists():
        return
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}.cloning")
    temporary.mkdir(parents=True)
    home = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
    made: set[str] = {""}
    try:
        # Plain strings: a join that was not snapshotted for a while has thousands of files.
        for step, (folder, name) in enumerate(_files(source)):
            if folder not in made:
                _make_folders(home, folder, made)
            inside = f"{folder}/{name}" if folder else name
            try:
                if _OPERATOR_METADATA.fullmatch(folder):
                    _move_schema_paths(source / inside, home, inside, target)
                else:
                    os.link(f"{source}/{inside}", inside, dst_dir_fd=home)
            except FileNotFoundError:
                continue  # purged meanwhile, so older than what the newest commit needs
            if step == 2:
                crash.at("during-clone", unit)
        temporary.rename(target)
    finally:
        os.close(home)
        shutil.rmtree(temporary, ignore_errors=True)


def make_checkpoint(target: Path, *, next_batch: int, rows: int) -> None:
    """A checkpoint of a query without state that goes on with a batch of ours; whole or not at all.

    Such a query needs nothing of its past but how far its clock source has come: Spark is told
    that it has planned and committed one batch, up to there. `rows` stand for one batch.
    """
    if next_batch == 0:
        target.mkdir(parents=True)
        return
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}.cloning")
    settings = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    reached = {"offset": next_batch * rows, "timestamp": next_batch * _CLOCK_STEP_MS}
    files = {
        "metadata": (json.dumps({"id": str(uuid.uuid4())}),),
        "offsets/0": ("v1", json.dumps(settings), json.dumps(reached)),
        "commits/0": ("v1", json.dumps({"nextBatchWatermarkMs": 0})),
    }
    try:
        for name, lines in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, "\n".join(lines).encode())
            sync_folder(path.parent)
        sync_folder(temporary)
        temporary.rename(target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _make_folders(home: int, folder: str, made: set[str]) -> None:
    parent = folder.rpartition("/")[0]
    if parent not in made:
        _make_folders(home, parent, made)
    os.mkdir(folder, dir_fd=home)
    made.add(folder)


def _move_schema_paths(source: Path, home: int, copy: str, checkpoint: Path) -> None:
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
        place = checkpoint.absolute()
        return path if found is None else f"{found['scheme']}{place}/{found['inside']}"

    for store in stores:
        if store.get("stateSchemaFilePaths"):
            store["stateSchemaFilePaths"] = [moved(path) for path in store["stateSchemaFilePaths"]]
    text = f"{version}\n{json.dumps(metadata, separators=(',', ':'))}"
    handle = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=home)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def newest_generation(folder: Path, below: int) -> int | None:
    """The newest complete checkpoint of a generation before `below`."""
    if not folder.exists():
        return None
    known = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    return max((number for number in known if number < below), default=None)


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of a unit."""
    found = sorted(path for path in folder.glob("[0-9]*") if path.name.isdigit())
    return found[-1] if found else None


def tidy(folder: Path, *, generation: int, keep_from: int) -> None:
    """Remove checkpoints older than `keep_from`, and clones that older generations left unfinished.

    To be called by a generation that has its own. Hard links keep old state alive for as long as
    any checkpoint has them, so nothing may stay behind. What is removed is moved away first: a
    directory that is half removed must never pass for a whole one.
    """
    if not folder.exists():
        return
    for path in folder.iterdir():
        unfinished = _UNFINISHED.fullmatch(path.name)
        if path.name.isdigit() and int(path.name) < keep_from:
            gone = path.with_name(f".{path.name}-{uuid.uuid4().hex}.gone")
        elif unfinished and int(unfinished[1]) < generation:
            gone = path.with_suffix(".gone")
        else:
            continue
        with contextlib.suppress(FileNotFoundError):  # someone else does the same
            path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def next_batch(checkpoint: Path, rows: int) -> int | None:
    """Our number of the batch that a query goes on with; None: that is for Spark to find out.

    `rows` is how many rows of the clock source stand for one batch.
    """
    commits = checkpoint / "commits"
    found = commits.iterdir() if commits.is_dir() else ()
    known = [int(path.name) for path in found if path.name.isdigit()]
    if not known:
        return 0
    try:
        return batch_number(checkpoint, max(known), rows) + 1
    except CorruptLogError:
        # Spark does not sync its files; after a power cut it tells what is torn better than we.
        return None


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
