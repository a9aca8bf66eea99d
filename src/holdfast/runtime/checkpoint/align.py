"""Make a cloned checkpoint of a native source agree with the range records.

Problem: the newest record says up to which of Spark's offsets a batch reads. Spark will run that
batch again only if its checkpoint has the same offset planned. After a power cut it may not, since
Spark does not sync its files, or the clone may be of a generation that had not come so far. Left
alone, Spark would plan another end: rows would be published twice or under another number.

Spark replays what it finds planned and not committed. So if the checkpoint has committed exactly
what was recorded before, the recorded end is written as the next planned batch. That needs offsets
that say all there is to say, as those of Kafka do; a source whose offsets are numbers of entries in
a log of its own (files) is replayed only if that entry is there too. Otherwise nothing is guessed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Literal

from holdfast.errors import CheckFailedError
from holdfast.runtime.log.store import sync_folder, write_durably

Alignment = Literal["known", "planned"]

_NO_OFFSET = "-"
"""Spark's mark for a source without an offset."""


def align(checkpoint: Path, *, unit: str, end: str, start: str | None) -> Alignment:
    """See that Spark will read up to `end`, and from `start` (None: the beginning) if again.

    Gives `known` if the checkpoint had it planned, `planned` if it was told. Only for a checkpoint
    that no query uses.
    """
    planned = _offsets(checkpoint)
    if end in planned.values():
        _check_log(checkpoint, unit, end)
        return "known"
    committed = max((n for n in _numbers(checkpoint / "commits") if n in planned), default=-1)
    reached = planned.get(committed)
    if reached != start:
        raise CheckFailedError(
            f"{unit}: a batch was recorded from Spark's offset {start} to {end}, and no checkpoint "
            f"knows it: this one has read up to {reached}; put the checkpoint back, or start again "
            f"with --reset {unit.rpartition('#')[0]}"
        )
    _check_log(checkpoint, unit, end)
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    for number in _numbers(folder):
        if number > committed:
            _remove(folder, number)
    head = _head(folder / str(committed)) if committed >= 0 else _first_head()
    temporary = folder / f".{committed + 1}.tmp"
    write_durably(temporary, "\n".join([*head, end]).encode())
    temporary.replace(folder / str(committed + 1))
    sync_folder(folder)
    return "planned"


def _offsets(checkpoint: Path) -> dict[int, str]:
    """Planned batches and their end offsets; a torn file is as good as none."""
    found = {}
    for number in _numbers(checkpoint / "offsets"):
        lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        if len(lines) > 2 and lines[2] != _NO_OFFSET:
            found[number] = lines[2]
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
