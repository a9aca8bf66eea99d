"""Spark checkpoint directories: one per generation of a unit, cloned at takeover, never edited.

A query without state can do with a new one, made from the records.

A woken zombie writes only into its own directory. A clone links files instead of copying them:
Spark never changes a checkpoint file, it writes another and renames it, so a link is a snapshot.
The exception is the metadata of transformWithState, which names its schema files by absolute path:
a clone gets its own, or it would depend on a directory that is removed some takeovers later.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable
from functools import partial

from holdfast.errors import CorruptLogError
from holdfast.rundir.layout import generation_word
from holdfast.runtime.log.crash import Crash
from holdfast.storage import Storage
from holdfast.storage.identity import new_id
from holdfast.storage.interface import Cloning, Edit

# In this order: whatever is in commits has its offsets and its state written already, so a clone
# of a directory that is still being written holds everything its last commit needs.
_ORDER = ("metadata", "commits", "offsets", "sources", "state")

_CLOCK_STEP_MS = 1000
"""What Spark's clock source adds to its time with every batch."""
_OPERATOR_METADATA = re.compile(r"state/\d+/_metadata/v2")
_SCHEMA_FILE = re.compile(r"(?P<scheme>(?:file:)?).*/(?P<inside>state/\d+/_stateSchema/.*)")


def clone_checkpoint(folder: Storage, source: int, target: int, *, unit: str, crash: Crash) -> None:
    """Clone a unit's checkpoint of one generation for another; it appears whole or not at all."""
    begin, end = generation_word(source), generation_word(target)
    clone_between(folder, begin, end, unit=unit, crash=crash)


def clone_between(
    folder: Storage,
    begin: str,
    end: str,
    *,
    unit: str,
    crash: Crash,
    newest: int | None = None,
    beside: bool = False,
) -> None:
    """The same for checkpoints given by name; the first may be in use.

    With `newest` the clone ends with that batch of Spark's, whatever was planned and run since. A
    clone that is to run `beside` the query it is made of is another query: Spark stops the one that
    runs when another with its id is started.
    """

    def edit(name: str) -> Edit | None:
        inside, _, last = name.rpartition("/")
        if beside and name == "metadata":
            return lambda _: _query_id()
        if beside and name == ".metadata.crc":
            return lambda _: None
        if newest is not None and inside in ("commits", "offsets"):
            number = last.removeprefix(".").partition(".")[0]
            if number.isdigit() and int(number) > newest:
                return lambda _: None
        if not _OPERATOR_METADATA.fullmatch(inside):
            return None
        if last.startswith("."):
            # Hadoop's checksum of the file beside it, which is another one in the clone.
            return lambda _: None
        where = folder.address(f"{begin}/{name}")
        return partial(move_schema_paths, where=where, checkpoint=folder.address(end))

    def step(done: int) -> None:
        if done == 2:
            crash.at("during-clone", unit)

    folder.clone(begin, end, Cloning(first=_ORDER, edit=edit, step=step))


def make_checkpoint(folder: Storage, generation: int, *, next_batch: int, rows: int) -> None:
    """A checkpoint of a query with one input and no state that goes on with a batch of ours."""
    make_stateless(folder, generation_word(generation), next_batch=next_batch, rows=rows)


def make_stateless(
    folder: Storage, checkpoint: str, *, next_batch: int, rows: int, inputs: int = 1
) -> None:
    """The same by name, of a query with so many inputs.

    Such a query needs nothing of its past but how far its sources have come, which is equally far:
    Spark is told that it has planned and committed one batch, up to there. `rows` stand for one
    batch. Without the commit, which comes last, it is one that has not begun, and is made once
    more.
    """
    folder.make_checkpoint(checkpoint)
    if next_batch == 0:
        return
    settings = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    reached = {"offset": next_batch * rows, "timestamp": next_batch * _CLOCK_STEP_MS}
    # As Spark writes it, without spaces: a source reads nothing else.
    offset = json.dumps(reached, separators=(",", ":"))
    files = {
        "metadata": (_query_id().decode(),),
        "offsets/0": ("v1", json.dumps(settings), *[offset] * inputs),
        "commits/0": ("v1", json.dumps({"nextBatchWatermarkMs": 0})),
    }
    for name, lines in files.items():
        folder.replace(f"{checkpoint}/{name}", "\n".join(lines).encode())


def _query_id() -> bytes:
    """What Spark calls a query in its checkpoint, for a new one."""
    return json.dumps({"id": str(uuid.UUID(new_id()))}).encode()


def move_schema_paths(data: bytes, *, where: str, checkpoint: str) -> bytes:
    """An operator's metadata with its schema files those of `checkpoint`."""
    version, _, body = data.decode().partition("\n")
    try:
        metadata = json.loads(body)
        stores = metadata["stateStoreInfo"]
    except (ValueError, KeyError, TypeError):
        raise CorruptLogError("holds no metadata of an operator", path=where) from None

    def moved(path: str) -> str:
        found = _SCHEMA_FILE.fullmatch(path)
        return path if found is None else f"{found['scheme']}{checkpoint}/{found['inside']}"

    for store in stores:
        if store.get("stateSchemaFilePaths"):
            store["stateSchemaFilePaths"] = [moved(path) for path in store["stateSchemaFilePaths"]]
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'))}".encode()


def generations(folder: Storage) -> list[int]:
    """The generations of a unit that have a complete checkpoint, in order."""
    return sorted(int(name) for name in folder.checkpoints("") if name.isdigit())


def newest_generation(known: Iterable[int], below: int) -> int | None:
    """The newest of some generations before `below`."""
    return max((number for number in known if number < below), default=None)


def newest_checkpoint(folder: Storage) -> Storage | None:
    """The newest complete checkpoint of a unit."""
    found = generations(folder)
    return folder.below(generation_word(found[-1])) if found else None


def tidy(
    folder: Storage, *, generation: int, keep_from: int, new_id: Callable[[], str] = new_id
) -> None:
    """Remove checkpoints older than `keep_from`, and clones that older generations left unfinished.

    To be called by a generation that has its own. Hard links keep old state alive for as long as
    any checkpoint has them, so nothing may stay behind. What is removed is moved away first: a
    directory that is half removed must never pass for a whole one.
    """
    for name in folder.checkpoints(""):
        if name.isdigit() and int(name) < keep_from:
            folder.remove_folder(name, aside=f".{name}-{new_id()}.gone")
    folder.remove_unfinished("", lambda name: name.isdigit() and int(name) < generation)


def next_batch(checkpoint: Storage, rows: int) -> int | None:
    """Our number of the batch that a query goes on with; None: that is for Spark to find out.

    `rows` is how many rows of the clock source stand for one batch.
    """
    known = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
    if not known:
        return 0
    try:
        return batch_number(checkpoint, max(known), rows) + 1
    except CorruptLogError:
        # Spark does not sync its files; after a power cut it tells what is torn better than we.
        return None


def batch_number(checkpoint: Storage, spark_batch: int, rows: int) -> int:
    """Our number of one of Spark's batches: from the end offset that Spark logged for it.

    Not Spark's batch id, which other things than our batches can use up. `rows` is how many rows
    of the clock source stand for one batch.
    """
    offset = source_offset(checkpoint, spark_batch)
    try:
        return int(json.loads(offset)["offset"]) // rows - 1
    except (ValueError, KeyError, TypeError):
        path = checkpoint.address(f"offsets/{spark_batch}")
        raise CorruptLogError("holds no batch number", path=path) from None


def source_offset(checkpoint: Storage, spark_batch: int) -> str:
    """The end offset of a query's only source, as Spark logged it before running the batch."""
    name = f"offsets/{spark_batch}"
    data = checkpoint.read(name)
    if data is None:
        raise CorruptLogError("Spark's offset file is missing", path=checkpoint.address(name))
    lines = data.decode().splitlines()
    if len(lines) < 3:
        raise CorruptLogError("Spark's offset file is torn", path=checkpoint.address(name))
    return lines[2]
