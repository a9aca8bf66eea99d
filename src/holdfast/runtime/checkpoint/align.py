"""Make a cloned checkpoint of a native source agree with the range records.

Problem: the newest record says up to which of Spark's offsets the last batch reads. Spark will run
that batch again only if its checkpoint has the same offset planned. The clone may have another one:
a generation that was suspended may record its batch after the next one has planned its own. Left
alone, Spark would go on with that: rows would be published twice or under another number.

Spark runs again what it finds planned and not committed. So if the checkpoint stands exactly where
the recorded batch began, the recorded end is written as the next planned batch. That needs offsets
that say all there is to say, as those of Kafka do; a source whose offsets are numbers of entries in
a log of its own (files) is replayed only if that entry is there too. Otherwise nothing is guessed.

Spark does not sync its files, and a power cut leaves empty ones; `sync_plan` makes durable what a
record is about to name, and empty files are removed.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Literal

from holdfast.errors import CheckFailedError
from holdfast.runtime.log.store import sync_folder, write_durably

Alignment = Literal["past", "known", "planned"]
"""Spark goes on behind the recorded end; will run up to it again; was told to do so."""

_NO_OFFSET = "-"
"""Spark's mark for a source without an offset."""


def align(checkpoint: Path, *, unit: str, end: str | None, start: str | None) -> Alignment:
    """See that Spark goes on after `end`, or reads from `start` to `end` again.

    None is the source's beginning. Only for a checkpoint that no query uses.
    """
    _remove_torn(checkpoint)
    planned = _offsets(checkpoint)
    newest = max(planned, default=-1)
    last, before = planned.get(newest), planned.get(newest - 1)
    done = (checkpoint / "commits" / str(newest)).exists()
    if end == (last if done else before):
        return "past"
    # What was recorded from `start` on shows that everything before was published: Spark may take
    # a batch up to there for committed, as it does with every one but the last that it planned.
    follows = last == start
    if end is None or not (follows or (before == start and not done)):
        recorded = f"a batch was recorded from Spark's offset {start} to {end}"
        raise CheckFailedError(
            f"{unit}: {recorded if end else 'nothing was recorded yet'}, and no checkpoint knows "
            f"it: this one has read up to {last if done else before}; put the checkpoint back, or "
            f"start again with --reset {unit.rpartition('#')[0]}"
        )
    _check_log(checkpoint, unit, end)
    if last == end:
        return "known"
    _plan(checkpoint / "offsets", newest + 1 if follows else newest, end)
    return "planned"


def sync_plan(checkpoint: Path, spark_batch: int) -> None:
    """Make durable what Spark needs to run a batch again: its offset and the source's own log."""
    offsets, log = checkpoint / "offsets", checkpoint / "sources" / "0"
    _sync(offsets, str(spark_batch))
    # A source writes one entry per batch at most, some only their first: the newest is what is new.
    entries = [path.name for path in log.iterdir()] if log.is_dir() else []
    numbered = [name for name in entries if name.partition(".")[0].isdigit()]
    if numbered:
        _sync(log, max(numbered, key=lambda name: int(name.partition(".")[0])))
    sync_folder(checkpoint)
    sync_folder(checkpoint.parent)


def _sync(folder: Path, name: str) -> None:
    for path in (folder / name, folder / f".{name}.crc"):
        if path.exists():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    sync_folder(folder)


def _plan(folder: Path, number: int, end: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _remove(folder, number)
    before = folder / str(number - 1)
    head = _head(before) if before.exists() else _first_head()
    temporary = folder / f".{number}.tmp"
    write_durably(temporary, "\n".join([*head, end]).encode())
    temporary.replace(folder / str(number))
    sync_folder(folder)


def _remove_torn(checkpoint: Path) -> None:
    """A torn file is as good as none, but Spark would fail on it."""
    for name, lines in (("offsets", 3), ("commits", 1)):
        folder = checkpoint / name
        for number in _numbers(folder):
            if len((folder / str(number)).read_text().splitlines()) < lines:
                _remove(folder, number)


def _offsets(checkpoint: Path) -> dict[int, str]:
    """Planned batches and their end offsets."""
    found = {}
    for number in _numbers(checkpoint / "offsets"):
        end = (checkpoint / "offsets" / str(number)).read_text().splitlines()[2]
        if end != _NO_OFFSET:
            found[number] = end
    return found


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def _remove(folder: Path, number: int) -> None:
    for name in (str(number), f".{number}.crc"):
        (folder / name).unlink(missing_ok=True)


def _head(path: Path) -> list[str]:
    """Format version and settings, as Spark wrote them for the batch before."""
    return path.read_text().splitlines()[:2]


def _first_head() -> list[str]:
    settings = {"batchWatermarkMs": 0, "batchTimestampMs": round(time.time() * 1000), "conf": {}}
    return ["v1", json.dumps(settings)]


def _check_log(checkpoint: Path, unit: str, end: str) -> None:
    """A source that keeps a log of its own must still have the entry that an offset means."""
    try:
        entry = json.loads(end)["logOffset"]
    except (ValueError, KeyError, TypeError):
        return
    log = checkpoint / "sources" / "0"
    if entry >= 0 and not any((log / f"{entry}{kind}").exists() for kind in ("", ".compact")):
        raise CheckFailedError(
            f"{unit}: a batch was recorded up to entry {entry} of the source's own log, and no "
            f"checkpoint has it: put it back, or start again with --reset {unit.rpartition('#')[0]}"
        )
