"""Rows that left the stream: late ones, and those a function failed on.

They are kept for people to look at, in files named by the batch, so that a redo replaces a file by
the same. Nobody may ever look, so what is kept is bounded: the newest `KEEP_FILES` files and
`KEEP_BYTES` bytes per folder. How many rows there were stays in the slice records of their batches.
With `--keep-input` everything is kept, as results can be checked only against the whole input.
"""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa

from holdfast.storage import Storage
from holdfast.storage.interface import LEFTOVER_S
from holdfast.streams.records import MOST_SKIPS

log = logging.getLogger("holdfast.node")

KEEP_FILES = 1000
KEEP_BYTES = 256 * 2**20


def put_aside(
    folder: Storage,
    number: int,
    rows: Any,
    *,
    keep_all: bool,
    now: float,
    version: int | None = None,
) -> str:
    """Keep rows as an Arrow IPC stream named by their batch, and forget the oldest; gives its name.

    `version` is that of the batch's skip record, where rows were left out by one. `now` is in
    wall-clock seconds.
    """
    name = f"{number:010d}.arrow" if version is None else _name(number, version)
    data = pa.BufferOutputStream()
    with pa.ipc.new_stream(data, rows.schema) as stream:
        stream.write_table(rows)
    folder.replace(name, memoryview(data.getvalue()))
    if not keep_all:
        forget_oldest(folder)
        folder.remove_leftovers("", now - LEFTOVER_S)
    return name


def keep_version(folder: Storage, number: int, version: int) -> None:
    """Remove what other versions of a batch's skip record than the one that counts put aside.

    Also what was put aside for a record that its writer did not live to put.
    """
    for boundary in folder.folders(""):
        for other in range(1, MOST_SKIPS + 1):
            if other != version:
                forget(folder.below(boundary), number, other)


def forget(folder: Storage, number: int, version: int) -> None:
    """Remove what one version of a batch's skip record put aside in a folder."""
    folder.delete(_name(number, version))


def _name(number: int, version: int) -> str:
    return f"{number:010d}-{version}.arrow"


def forget_oldest(folder: Storage, *, files: int = KEEP_FILES, size: int = KEEP_BYTES) -> int:
    """Remove the oldest files beyond the bounds, never the newest; tells how many."""
    found = folder.sizes("").items()
    known = sorted(((name, size) for name, size in found if name[0].isdigit()), reverse=True)
    total = removed = 0
    for index, (name, length) in enumerate(known):
        total += length
        if index and (index >= files or total > size):
            folder.delete(name)
            removed += 1
    if removed:
        where = folder.address("")
        log.info("removed the oldest %d files of rows put aside in %s", removed, where)
    return removed
