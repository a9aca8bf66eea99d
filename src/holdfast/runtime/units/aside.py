"""Rows that left the stream: late ones, and those a function failed on.

They are kept for people to look at, in files named by the batch, so that a redo replaces a file by
the same. Nobody may ever look, so what is kept is bounded: the newest `KEEP_FILES` files and
`KEEP_BYTES` bytes per folder. How many rows there were stays in the slice records of their batches.
With `--keep-input` everything is kept, as results can be checked only against the whole input.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.runtime.log.store import sync_folder

log = logging.getLogger("holdfast.node")

KEEP_FILES = 1000
KEEP_BYTES = 256 * 2**20


def put_aside(folder: Path, number: int, rows: Any, *, keep_all: bool) -> Path:
    """Keep rows as an Arrow IPC stream named by their batch, and forget the oldest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:010d}.arrow"
    temporary = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("wb") as file:
            with pa.ipc.new_stream(file, rows.schema) as stream:
                stream.write_table(rows)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if not keep_all:
        forget_oldest(folder)
    sync_folder(folder)
    return path


def forget_oldest(folder: Path, *, files: int = KEEP_FILES, size: int = KEEP_BYTES) -> int:
    """Remove the oldest files beyond the bounds, never the newest; tells how many."""
    known = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name[0].isdigit():
                # An older generation may be removing the same files.
                with contextlib.suppress(FileNotFoundError):
                    known.append((entry.name, entry.stat().st_size))
    known.sort(reverse=True)
    total = removed = 0
    for index, (name, length) in enumerate(known):
        total += length
        if index and (index >= files or total > size):
            (folder / name).unlink(missing_ok=True)
            removed += 1
    if removed:
        log.info("removed the oldest %d files of rows put aside in %s", removed, folder)
    return removed
