"""The stored form that all records share: a line with format, kind, length and CRC-32, then a body.

What is shorter, longer or has another checksum is an error that names where it lies, never skipped.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

from holdfast.errors import CorruptLogError


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A record as it was found: its header read, its body not yet trusted."""

    magic: bytes
    """Format and version."""
    kind: str
    size: bytes
    crc: bytes
    body: bytes
    path: str

    def content(self) -> dict[str, Any]:
        """What the body says; raises if it is torn or altered."""
        try:
            size, crc = int(self.size), int(self.crc, 16)
        except ValueError:
            raise CorruptLogError("has an unreadable header", path=self.path) from None
        if len(self.body) != size:
            raise CorruptLogError(f"is torn: {len(self.body)} of {size} bytes", path=self.path)
        if zlib.crc32(self.body) != crc:
            raise CorruptLogError("was altered: its checksum does not fit", path=self.path)
        found: dict[str, Any] = json.loads(self.body)
        return found


def frame(magic: bytes, kind: str, content: dict[str, Any]) -> bytes:
    """The bytes to store."""
    body = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    return b"%s %s %d %08x\n%s" % (magic, kind.encode(), len(body), zlib.crc32(body), body)


def unframe(data: bytes, *, path: str) -> Frame:
    """The parts of a stored record; raises CorruptLogError naming `path` if it is none."""
    head, _, body = data.partition(b"\n")
    words = head.split(b" ")
    if len(words) != 5:
        raise CorruptLogError("is not a Holdfast record", path=path)
    return Frame(
        magic=b" ".join(words[:2]),
        kind=words[2].decode(errors="replace"),
        size=words[3],
        crc=words[4],
        body=body,
        path=path,
    )
