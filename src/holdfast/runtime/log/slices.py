"""Slice files: Arrow IPC streams with one record batch per key group.

A reader takes only its key groups, so the slice record keeps where each record batch starts, how
long it is and its checksum; what is read is verified, and a torn or altered file is named. Files
are invisible until a slice record names them, so they need no atomic rename.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.deployment.keygroups import DIGEST_MODULUS
from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.errors import CorruptLogError
from holdfast.storage import Storage
from holdfast.storage.interface import Span
from holdfast.streams.records import Slice

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Ends an Arrow IPC stream, so that any Arrow reader can open a slice file."""


PART_ROWS = 1 << 15
"""Most rows of a record batch: who reads holds one at a time, and several tasks share them."""


def write_slice_file(folder: Storage, name: str, rows: Any, groups: Any, hashes: Any) -> SliceFile:
    """Write a table laid out by key group and describe it; the folder is synced by the caller.

    `groups` and `hashes` are the key group and the 64-bit hash of each row, as numpy arrays.
    """
    groups, hashes = groups.astype(np.uint8), hashes.astype(np.uint64)
    if np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")  # of single bytes: linear
        groups, hashes = groups[order], hashes[order]
        rows = rows.take(pa.array(order))
    rows = rows.combine_chunks()
    changes = (np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist()
    edges = sorted({*changes, *range(0, len(groups), PART_ROWS), len(groups)})
    schema = rows.schema.serialize()
    batches = rows.to_batches()
    whole = batches[0] if batches else None
    parts: list[GroupPart] = []

    def messages() -> Iterator[memoryview]:
        """One at a time: a batch may be large."""
        yield memoryview(schema)
        offset = schema.size
        for start, end in itertools.pairwise(edges):
            assert whole is not None  # noqa: S101 - a group exists only if a row does
            message = whole.slice(start, end - start).serialize()
            with np.errstate(over="ignore"):
                digest = int(hashes[start:end].sum(dtype=np.uint64)) % DIGEST_MODULUS
            parts.append(
                GroupPart(
                    group=int(groups[start]),
                    rows=end - start,
                    offset=offset,
                    size=message.size,
                    crc=zlib.crc32(message),
                    digest=digest,
                )
            )
            offset += message.size
            yield memoryview(message)
        yield memoryview(END_OF_STREAM)

    folder.put_data(name, messages())
    return SliceFile(
        name=name,
        schema_size=schema.size,
        schema_crc=zlib.crc32(schema),
        parts=tuple(parts),
    )


def files_on(item: Slice, boundary: str) -> tuple[SliceFile, ...]:
    """The files of a slice on a boundary; raises if it was published without that one."""
    found = item.files.get(boundary)
    if found is None and item.rows:
        raise CorruptLogError(
            f"has {item.rows} rows and none on boundary {boundary}: it was published by another "
            "layout of the pipeline",
            path=f"{item.unit}/slices/{item.number}",
        )
    return found or ()


def read_slice(
    folder: Storage, files: Iterable[SliceFile], groups: Collection[int]
) -> Iterator[Any]:
    """The record batches of a slice on one boundary that hold the given key groups, verified.

    Files are read in the order of the record and groups in ascending order, so that every reader
    of a batch sees the same rows in the same order.
    """
    for file in files:
        wanted = [part for part in file.parts if part.group in groups]
        if wanted:
            yield from read_slice_file(folder, file, wanted)


def read_slice_file(folder: Storage, file: SliceFile, parts: Iterable[GroupPart]) -> Iterator[Any]:
    """The record batches of some parts of one slice file, verified."""
    parts = list(parts)
    path = folder.address(file.name)
    spans = [(0, file.schema_size), *((part.offset, part.size) for part in parts)]
    found = folder.read_ranges(file.name, spans)
    if found is None or not len(found[0]):
        raise CorruptLogError("slice file is missing or empty", path=path)
    schema = pa.ipc.read_schema(_checked(found[0], spans[0], file.schema_crc, path))
    for part, span, data in zip(parts, spans[1:], found[1:], strict=True):
        batch = pa.ipc.read_record_batch(_checked(data, span, part.crc, path), schema)
        if batch.num_rows != part.rows:
            raise CorruptLogError(
                f"key group {part.group} has {batch.num_rows} rows, its record says {part.rows}",
                path=path,
            )
        yield batch


def _checked(message: memoryview, span: Span, crc: int, path: str) -> Any:
    offset, size = span
    if len(message) < size:
        raise CorruptLogError(
            f"slice file is torn: of bytes {offset}..{offset + size} {len(message)} are there",
            path=path,
        )
    if zlib.crc32(message) != crc:
        raise CorruptLogError(
            f"slice file was altered: bytes {offset}..{offset + size} do not fit their checksum",
            path=path,
        )
    return pa.py_buffer(message)
