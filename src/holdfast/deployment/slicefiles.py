"""What a slice record says of the files that hold its rows.

A slice file is an Arrow IPC stream with one record batch per key group. A record tells where each
begins, so that a reader takes only its own groups, and what was in it, so that two runs of a batch
can be compared without reading a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from holdfast.deployment.keygroups import combine_digests


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """The rows of one key group in one file: one Arrow record batch."""

    group: int
    rows: int
    offset: int
    """Where the record batch message starts in the file, bytes."""
    size: int
    """Length of the message, bytes."""
    crc: int
    """CRC-32 of the message."""
    digest: int
    """Sum of the rows' 64-bit hashes modulo 2^64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFile:
    """One Arrow IPC stream: a schema message, then one record batch per key group."""

    name: str
    """File name in the folder of its unit and boundary."""
    schema_size: int
    schema_crc: int
    parts: tuple[GroupPart, ...]


Files = Mapping[str, tuple[SliceFile, ...]]
"""Boundary to the files that hold its rows."""


def slice_file(data: Mapping[str, Any]) -> SliceFile:
    """A file as JSON describes it."""
    return SliceFile(**{**data, "parts": tuple(GroupPart(**part) for part in data["parts"])})


def rows_in(files: Iterable[SliceFile]) -> int:
    """Rows in some files of one boundary."""
    return sum(part.rows for file in files for part in file.parts)


def bytes_in(files: Iterable[SliceFile]) -> int:
    """Size of their rows, bytes."""
    return sum(part.size for file in files for part in file.parts)


def group_digests(files: Iterable[SliceFile]) -> dict[int, int]:
    """Key group to the digest of all its rows, whatever file they are in."""
    groups: dict[int, list[int]] = {}
    for file in files:
        for part in file.parts:
            groups.setdefault(part.group, []).append(part.digest)
    return {group: combine_digests(parts) for group, parts in sorted(groups.items())}


def content_digest(files: Files) -> str:
    """What was published on all boundaries, whatever the order of rows and the files they are in.

    Empty if there are no rows.
    """
    content: dict[str, Sequence[Any]] = {
        boundary: [rows_in(found), *group_digests(found).items()]
        for boundary, found in sorted(files.items())
        if rows_in(found)
    }
    if not content:
        return ""
    return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()
