"""The journal of one term: an append-only file of checksummed lines.

The format is documented in docs/reference/journal.md. The first line names it and its version, so
that a journal of another version is refused and not guessed at. It begins with a snapshot, and only
the leader of its term writes it; every append is one write and one fsync. A line without its
newline at the very end is what a crash in the middle of an append leaves: nothing was acted on
before the fsync returned, so it is left out. Damage of any other kind is never repaired: it is
reported.

Compaction rewrites the file as one snapshot of the state whenever `compact_after` facts have
followed the last one, or as many as there are units if those are more: so the file is bounded by
the state's own bounds, and what a snapshot costs, per fact, does not grow with the units.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.control import codec
from holdfast.control.facts import Fact
from holdfast.control.shell.lines import to_line
from holdfast.control.state import State
from holdfast.errors import BadInputError, CorruptLogError
from holdfast.rundir.contents import temporary_path

FORMAT = "holdfast-journal"
VERSION = 2
HEADER = f"{FORMAT} {VERSION}\n".encode()
COMPACT_AFTER = 2000
_HEADER = re.compile(rb"holdfast-journal (\S{1,40})\n")
_UNVERSIONED = re.compile(rb'[0-9a-f]{8} \{"seq":')
"""How journals began before they had a header."""
HINT = "resume with the holdfast that wrote it, or start in a new run directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a journal holds."""

    state: State | None
    """The last snapshot; None in a journal from before terms that was never compacted."""
    facts: tuple[Fact, ...]
    """What followed it, oldest first."""
    torn_bytes: int
    """Length of what a crash in the middle of an append left."""


def encode(seq: int, body: dict[str, Any]) -> bytes:
    """One line: eight hexadecimal digits of CRC-32 of the rest, a blank, JSON."""
    return _line(to_line({"seq": seq, **body}))


def read(path: Path) -> Replay | None:
    """What a journal holds; None: it is not there. Its writer may be writing meanwhile."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    state: State | None = None
    facts: list[Fact] = []
    offset, seq = _skip_header(data, path), 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        stop = len(data) if end < 0 else end + 1
        body = _decode(data[offset:stop])
        if body is None:
            if end >= 0:
                # A torn append is a prefix of its line and so lacks the newline; this is damage.
                raise CorruptLogError(f"altered line at byte {offset}", path=str(path))
            break
        if body.get("seq") != seq and seq > 0:
            raise CorruptLogError(
                f"line {body.get('seq')} at byte {offset} where {seq} is due", path=str(path)
            )
        try:
            if "snapshot" in body:
                state, facts = codec.state_from_json(body["snapshot"]), []
            else:
                facts.extend(codec.fact_from_json(item) for item in body["facts"])
        except (ValidationError, KeyError) as error:
            raise CorruptLogError(f"line {seq} at byte {offset}: {error}", path=str(path)) from None
        seq = int(body["seq"]) + 1
        offset = stop
    return Replay(
        state=state,
        facts=tuple(facts),
        torn_bytes=len(data) - offset,
    )


class Journal:
    """The journal of one term, to be written by its leader."""

    def __init__(self, path: Path, state: State, *, compact_after: int = COMPACT_AFTER) -> None:
        """Begin it with a snapshot; it appears whole or not at all."""
        self.path = path
        self._compact_after = compact_after
        path.parent.mkdir(parents=True, exist_ok=True)
        self._seq = 0
        self._file = self._begin(state)

    def append(self, facts: Sequence[Fact]) -> None:
        """Make facts durable, all or none; returns when they are.

        They share a line, so that a crash leaves at most one torn line, the last. An error (a full
        disk) may leave such a line too: the caller must give up and open the journal again.
        """
        if not facts:
            return
        _write(self._file, encode(self._seq, {"facts": [codec.fact_to_json(x) for x in facts]}))
        os.fsync(self._file)
        self._seq += 1
        self._since_snapshot += len(facts)

    def compact_if_long(self, state: State) -> bool:
        """Replace the file by one snapshot of `state` if enough facts followed the last one."""
        if self._since_snapshot < max(self._compact_after, len(state.units)):
            return False
        self.compact(state)
        return True

    def compact(self, state: State) -> None:
        fresh = self._begin(state)
        os.close(self._file)
        self._file = fresh

    def close(self) -> None:
        os.close(self._file)

    def _begin(self, state: State) -> int:
        """Put a file with one snapshot in place; gives it, open for appending."""
        snapshot = b'{"seq":%d,"snapshot":%s}' % (self._seq, codec.state_to_line(state))
        temporary = temporary_path(self.path, os.getpid())
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        fresh = os.open(temporary, flags, 0o600)
        _write(fresh, HEADER + _line(snapshot))
        os.fsync(fresh)
        # Readers see the old file or the new one, both whole.
        temporary.replace(self.path)
        _sync_directory(self.path.parent)
        self._seq += 1
        self._since_snapshot = 0
        return fresh


def _line(payload: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def _skip_header(data: bytes, path: Path) -> int:
    """Where the lines begin; refuses what this version does not read."""
    if data.startswith(HEADER):
        return len(HEADER)
    if HEADER.startswith(data):
        return 0  # nothing there, or a crash while the very first line was written
    other = _HEADER.match(data)
    if other is not None:
        version = other[1].decode(errors="replace")
        raise BadInputError(
            f"is a journal of version {version}, this holdfast reads version {VERSION}",
            where=str(path),
            hint=HINT,
        )
    if _UNVERSIONED.match(data):
        raise BadInputError(
            f"is a journal from before versions, this holdfast reads version {VERSION}",
            where=str(path),
            hint=HINT,
        )
    raise CorruptLogError("altered line at byte 0", path=str(path))


def _decode(raw: bytes) -> dict[str, Any] | None:
    """The JSON object of a line, or None if the line is not whole."""
    if not raw.endswith(b"\n") or len(raw) < 10 or raw[8:9] != b" ":
        return None
    payload = raw[9:-1]
    if raw[:8] != b"%08x" % zlib.crc32(payload):
        return None
    try:
        body = json.loads(payload)
    except ValueError:
        return None
    return body if isinstance(body, dict) and isinstance(body.get("seq"), int) else None


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
