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
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.runtime.log.slicelog import MAX_SKIPS
from holdfast.runtime.log.store import (
    LEFTOVER_S,
    remove_temporaries,
    sync_folder,
    temporary_name,
)

log = logging.getLogger("holdfast.node")

KEEP_FILES = 1000
KEEP_BYTES = 256 * 2**20


def put_aside(
    folder: Path, number: int, rows: Any, *, keep_all: bool, version: int | None = None
) -> Path:
    """Keep rows as an Arrow IPC stream named by their batch, and forget the oldest.

    `version` is that of the batch's skip record, where rows were left out by one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{number:010d}.arrow" if version is None else _name(number, version))
    temporary = folder / temporary_name()
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
        remove_temporaries(folder, time.time() - LEFTOVER_S)
    sync_folder(folder)
    return path


def keep_version(folder: Path, number: int, version: int) -> None:
    """Remove what other versions of a batch's skip record than the one that counts put aside.

    Also what was put aside for a record that its writer did not live to put.
    """
    for boundary in folder.iterdir() if folder.is_dir() else ():
        for other in range(1, MAX_SKIPS + 1):
            if other != version:
                forget(boundary, number, other)


def forget(folder: Path, number: int, version: int) -> None:
    """Remove what one version of a batch's skip record put aside in a folder."""
    (folder / _name(number, version)).unlink(missing_ok=True)


def _name(number: int, version: int) -> str:
    return f"{number:010d}-{version}.arrow"


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
