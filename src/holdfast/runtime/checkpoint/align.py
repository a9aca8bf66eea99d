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
from typing import Literal

from holdfast.deployment import UnitId
from holdfast.errors import CheckFailedError
from holdfast.storage import Storage

Alignment = Literal["past", "known", "planned"]
"""Spark goes on behind the recorded end; will run up to it again; was told to do so."""

_NO_OFFSET = "-"
"""Spark's mark for a source without an offset."""
_SOURCE_LOG = "sources/0"
"""Folder of the log that a source may keep in the checkpoint."""


def align(
    checkpoint: Storage, *, unit: str, end: str | None, start: str | None, now: float
) -> Alignment:
    """See that Spark goes on after `end`, or reads from `start` to `end` again.

    None is the source's beginning. Only for a checkpoint that no query uses. `now` is in wall-clock
    seconds: the first batch of a query is told when it was planned.
    """
    _remove_torn(checkpoint)
    planned = _offsets(checkpoint)
    newest = max(planned, default=-1)
    last, before = planned.get(newest), planned.get(newest - 1)
    done = checkpoint.exists(f"commits/{newest}")
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
            f"start again with --reset {UnitId.parse(unit).segment}"
        )
    _check_log(checkpoint, unit, end)
    if last == end:
        return "known"
    _plan(checkpoint, newest + 1 if follows else newest, end, now)
    return "planned"


def plan_again(checkpoint: Storage, *, unit: str, start: str | None, end: str, now: float) -> None:
    """Have Spark read one recorded range again, with a clone of a checkpoint that nobody uses."""
    _check_log(checkpoint, unit, end)
    for folder in ("offsets", "commits"):
        for number in _numbers(checkpoint, folder):
            _remove(checkpoint, folder, number)
    first = 0
    if start is not None:
        _plan(checkpoint, 0, start, now)
        commit = ["v1", json.dumps({"nextBatchWatermarkMs": 0})]
        checkpoint.replace("commits/0", "\n".join(commit).encode())
        first = 1
    _plan(checkpoint, first, end, now)


def sync_plan(checkpoint: Storage, spark_batch: int) -> None:
    """Make durable what Spark needs to run a batch again: its offset and the source's own log."""
    _sync(checkpoint, "offsets", str(spark_batch))
    # A source writes one entry per batch at most, some only their first: the newest is what is new.
    entries = checkpoint.names(_SOURCE_LOG)
    numbered = [name for name in entries if name.partition(".")[0].isdigit()]
    if numbered:
        newest = max(numbered, key=lambda name: int(name.partition(".")[0]))
        _sync(checkpoint, _SOURCE_LOG, newest)


def _sync(checkpoint: Storage, folder: str, name: str) -> None:
    checkpoint.sync(folder, name, f".{name}.crc")


def _plan(checkpoint: Storage, number: int, end: str, now: float) -> None:
    _remove(checkpoint, "offsets", number)
    before = _lines(checkpoint, f"offsets/{number - 1}")
    # Format version and settings, as Spark wrote them for the batch before.
    head = _first_head(now) if before is None else before[:2]
    checkpoint.replace(f"offsets/{number}", "\n".join([*head, end]).encode())


def _remove_torn(checkpoint: Storage) -> None:
    """A torn file is as good as none, but Spark would fail on it."""
    for folder, least in (("offsets", 3), ("commits", 1)):
        for number in _numbers(checkpoint, folder):
            if len(_lines(checkpoint, f"{folder}/{number}") or ()) < least:
                _remove(checkpoint, folder, number)


def _offsets(checkpoint: Storage) -> dict[int, str]:
    """Planned batches and their end offsets."""
    found = {}
    for number in _numbers(checkpoint, "offsets"):
        lines = _lines(checkpoint, f"offsets/{number}")
        if lines is not None and lines[2] != _NO_OFFSET:
            found[number] = lines[2]
    return found


def _numbers(checkpoint: Storage, folder: str) -> list[int]:
    return sorted(int(name) for name in checkpoint.names(folder) if name.isdigit())


def _lines(checkpoint: Storage, name: str) -> list[str] | None:
    data = checkpoint.read(name)
    return None if data is None else data.decode().splitlines()


def _remove(checkpoint: Storage, folder: str, number: int) -> None:
    for name in (str(number), f".{number}.crc"):
        checkpoint.delete(f"{folder}/{name}")


def _first_head(now: float) -> list[str]:
    settings = {"batchWatermarkMs": 0, "batchTimestampMs": round(now * 1000), "conf": {}}
    return ["v1", json.dumps(settings)]


def _check_log(checkpoint: Storage, unit: str, end: str) -> None:
    """A source that keeps a log of its own must still have the entry that an offset means."""
    try:
        entry = json.loads(end)["logOffset"]
    except (ValueError, KeyError, TypeError):
        return
    names = (f"{_SOURCE_LOG}/{entry}{kind}" for kind in ("", ".compact"))
    if entry >= 0 and not any(map(checkpoint.exists, names)):
        raise CheckFailedError(
            f"{unit}: a batch was recorded up to entry {entry} of the source's own log, and no "
            f"checkpoint has it: put it back, or start again with --reset "
            f"{UnitId.parse(unit).segment}"
        )
