"""The stored form of the second edition's records.

A record is one line and a JSON body: format and version, kind, length and CRC-32 of the body. What
is shorter, longer or has another checksum is an error that names where it lies, never skipped.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from holdfast.errors import CorruptLogError
from holdfast.streams.records import (
    Change,
    Child,
    Claim,
    Closing,
    Floor,
    Range,
    Record,
    Seal,
    Skip,
    Slice,
    Term,
    Turn,
)

MAGIC = b"holdfast-record 2"
"""Format and version: the start of every record."""

KINDS: dict[str, Callable[..., Record]] = {
    kind.kind: kind
    for kind in (Change, Range, Turn, Slice, Seal, Closing, Skip, Claim, Term, Floor)
}


def encode(record: Record) -> bytes:
    """The bytes to store."""
    body = json.dumps(asdict(record), separators=(",", ":"), sort_keys=True).encode()
    head = b"%s %s %d %08x\n" % (MAGIC, record.kind.encode(), len(body), zlib.crc32(body))
    return head + body


def decode(data: bytes, *, path: str) -> Record:
    """The record in `data`; raises CorruptLogError naming `path` if it is none."""
    head, _, body = data.partition(b"\n")
    words = head.split(b" ")
    if words[:1] != MAGIC.split(b" ")[:1] or len(words) != 5:
        raise CorruptLogError("is not a Holdfast record", path=path)
    if words[1] != MAGIC.split(b" ")[1]:
        raise CorruptLogError(
            f"is a record of edition {words[1].decode(errors='replace')}, this is edition 2: "
            "begin in another run directory",
            path=path,
        )
    kind = words[2].decode(errors="replace")
    try:
        size, crc = int(words[3]), int(words[4], 16)
    except ValueError:
        raise CorruptLogError("has an unreadable header", path=path) from None
    if len(body) != size:
        raise CorruptLogError(f"is torn: {len(body)} of {size} bytes", path=path)
    if zlib.crc32(body) != crc:
        raise CorruptLogError("was altered: its checksum does not fit", path=path)
    if kind not in KINDS:
        raise CorruptLogError(f"is a record of unknown kind {kind!r}", path=path)
    return _build(kind, json.loads(body))


def _build(kind: str, data: dict[str, Any]) -> Record:
    """JSON knows lists only; records hold tuples, so that they can be compared and kept."""
    if kind == Change.kind:
        data["children"] = tuple(
            Child(unit=item["unit"], segment=item["segment"], groups=tuple(item["groups"]))
            for item in data["children"]
        )
        data["parents"] = tuple(data["parents"])
    for name in ("files", "rows"):
        if isinstance(data.get(name), dict):
            data[name] = {key: _tuples(values) for key, values in data[name].items()}
    return KINDS[kind](**data)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
