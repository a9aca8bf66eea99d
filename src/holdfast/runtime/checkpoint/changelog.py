"""A changelog of Spark's state store under another version.

State of version v is the newest snapshot in its *lineage* and the changelogs since; the lineage
stands at the head of the changelog of v, as versions with unique ids. Where partitions of several
checkpoints meet in one, they must be of the same version, so that some are counted on: their files
get other names, and their changelogs another lineage. Only the head is written anew, as blocks that
are not compressed; all behind it stays byte for byte.

Format (Spark's `StateStoreChangelogWriter`, versions 3 and 4): blocks of LZ4BlockOutputStream; in
them two strings with their length in two bytes, the format and the lineage as JSON, then changes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast.errors import CorruptLogError

_MAGIC = b"LZ4Block"
_HEAD = struct.Struct("<8sBIII")
"""Magic, method and level, compressed size, size, checksum."""
_RAW, _LZ4 = 0x10, 0x20
_LEVEL = 0x0F
_SEED = 0x9747B28C
_CHECK = 0x0FFFFFFF
_ID = "checkpointUniqueId"
_ENDS = {"v3": b"\xff\xff\xff\xff", "v4": b"\x00"}
"""Formats with a lineage, and the mark that ends their changes."""
_BLOCK_BITS = 10
"""A block of level n holds at most 2^(10 + n) bytes."""

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_WORD = 0xFFFFFFFF


Lineage: TypeAlias = Sequence[Mapping[str, Any]]
"""Versions with their unique ids, as Spark writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a changelog."""

    name: str
    """Format."""
    lineage: Lineage
    """Of all versions before its own, since the last snapshot."""
    rest: bytes
    """Changes that share a block with it."""
    place: int
    """Where the next block begins, bytes."""
    level: int
    """Of its blocks."""


def read_head(data: bytes, *, path: str) -> Head:
    """What a changelog begins with; raises CorruptLogError naming `path` if it is none."""
    try:
        found, place, level = _head(data)
        name, lineage, rest = _strings(found)
        items = json.loads(lineage)
        known = [{"version": int(item["version"]), _ID: str(item[_ID])} for item in items]
    except (struct.error, ValueError, KeyError, TypeError, OSError, UnicodeDecodeError):
        raise CorruptLogError("is no changelog of a state store", path=path) from None
    if name not in _ENDS:
        raise CorruptLogError(f"is a changelog of format {name}, which has no lineage", path=path)
    return Head(name=name, lineage=known, rest=rest, place=place, level=level)


def shift_changelog(data: bytes, by: int, *, before: Lineage = (), path: str) -> bytes:
    """A changelog with all versions of its lineage counted on by a number, and some before them."""
    head = read_head(data, path=path)
    moved = [{**item, "version": item["version"] + by} for item in head.lineage]
    return _begin(head, [*before, *moved], head.rest) + data[head.place :]


def empty_changelog(like: bytes, before: Lineage, *, path: str) -> bytes:
    """A changelog without changes, in the format of another one."""
    head = read_head(like, path=path)
    return _begin(head, before, _ENDS[head.name]) + _block(b"", head.level)


def _begin(head: Head, lineage: Lineage, rest: bytes) -> bytes:
    text = json.dumps(list(lineage), separators=(",", ":")).encode()
    return _blocks(_string(head.name.encode()) + _string(text) + rest, head.level)


def _head(data: bytes) -> tuple[bytes, int, int]:
    """Enough blocks to hold both strings; where the next one begins; their level."""
    found, place, level = b"", 0, 0
    while not _complete(found):
        magic, token, packed, size, check = _HEAD.unpack_from(data, place)
        if magic != _MAGIC or size == 0:
            raise ValueError("no block")
        level = token & _LEVEL
        place += _HEAD.size
        body = data[place : place + packed]
        if token & ~_LEVEL == _LZ4:
            body = pa.decompress(body, size, codec="lz4_raw", asbytes=True)
        if len(body) != size or _xxhash32(body) & _CHECK != check:
            raise ValueError("torn")
        found += body
        place += packed
    return found, place, level


def _complete(head: bytes) -> bool:
    try:
        _strings(head)
    except ValueError:
        return False
    return True


def _strings(head: bytes) -> tuple[str, str, bytes]:
    words, place = [], 0
    for _ in range(2):
        if len(head) < place + 2:
            raise ValueError("too short")
        size = int.from_bytes(head[place : place + 2], "big")
        place += 2
        if len(head) < place + size:
            raise ValueError("too short")
        words.append(head[place : place + size].decode())
        place += size
    return words[0], words[1], head[place:]


def _string(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def _blocks(data: bytes, level: int) -> bytes:
    most = 1 << (_BLOCK_BITS + level)
    parts = [data[at : at + most] for at in range(0, len(data), most)]
    return b"".join(_block(part, level) for part in parts)


def _block(part: bytes, level: int) -> bytes:
    # One without content ends the stream, and has no checksum.
    check = _xxhash32(part) & _CHECK if part else 0
    return _HEAD.pack(_MAGIC, _RAW | level, len(part), len(part), check) + part


def _xxhash32(data: bytes) -> int:
    """XXH32 with the seed that LZ4BlockOutputStream uses."""
    size, place = len(data), 0
    if size >= 16:
        lanes = [(_SEED + add) & _WORD for add in (_P1 + _P2, _P2, 0, -_P1)]
        for words in struct.iter_unpack("<4I", data[: size - size % 16]):
            lanes = [
                _turned((lane + word * _P2) & _WORD, 13) * _P1 & _WORD
                for lane, word in zip(lanes, words, strict=True)
            ]
        place = size - size % 16
        total = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = _SEED + _P5
    total = (total + size) & _WORD
    while size - place >= 4:
        word = int.from_bytes(data[place : place + 4], "little")
        total = _turned((total + word * _P3) & _WORD, 17) * _P4 & _WORD
        place += 4
    for byte in data[place:]:
        total = _turned((total + byte * _P5) & _WORD, 11) * _P1 & _WORD
    total = (total ^ total >> 15) * _P2 & _WORD
    total = (total ^ total >> 13) * _P3 & _WORD
    return total ^ total >> 16


def _turned(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD
