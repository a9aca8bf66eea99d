"""The coordinator's journal: an append-only file of checksummed lines.

The format is documented in docs/reference/journal.md. The first line names it and its version, so
that a journal of another version is refused and not guessed at. Only one process writes it (a lock
on a side file sees to that); every append is one write and one fsync. A line without its newline at
the very end is what a crash in the middle of an append leaves: nothing was acted on before the
fsync returned, so it is cut off. Damage of any other kind is never repaired: it is reported.

Compaction rewrites the file as one snapshot of the state whenever `compact_after` facts have
followed the last one, or as many as there are units if those are more: so the file is bounded by
the state's own bounds, and what a snapshot costs, per fact, does not grow with the units.
"""

from __future__ import annotations

import fcntl
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
from holdfast.control.state import State
from holdfast.errors import BadInputError, CorruptLogError, HoldfastError

FORMAT = "holdfast-journal"
VERSION = 2
HEADER = f"{FORMAT} {VERSION}\n".encode()
COMPACT_AFTER = 2000
_HEADER = re.compile(rb"holdfast-journal (\S{1,40})\n")
_UNVERSIONED = re.compile(rb'[0-9a-f]{8} \{"seq":')
"""How journals began before they had a header."""
HINT = "resume with the holdfast that wrote it, or start in a new run directory"


class JournalLockedError(HoldfastError):
    """Another coordinator has this journal open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a journal holds."""

    state: State | None
    """The last snapshot; None in a journal never compacted."""
    facts: tuple[Fact, ...]
    """What followed it, oldest first."""
    good_bytes: int
    """Length without a torn tail."""
    torn_bytes: int
    next_seq: int


def encode(seq: int, body: dict[str, Any]) -> bytes:
    """One line: eight hexadecimal digits of CRC-32 of the rest, a blank, JSON."""
    return _line(codec.line({"seq": seq, **body}))


def read(path: Path) -> Replay:
    """Read a journal without changing it."""
    data = path.read_bytes() if path.exists() else b""
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
        good_bytes=offset,
        torn_bytes=len(data) - offset,
        next_seq=seq,
    )


class Journal:
    """The journal of one run, open for appending."""

    def __init__(self, path: Path, *, compact_after: int = COMPACT_AFTER) -> None:
        self.path = path
        self._compact_after = compact_after
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path.with_suffix(".lock"))
        self.replayed = read(path)
        """What was found on opening; the torn tail, if any, is cut off by now."""
        self._seq = self.replayed.next_seq
        self._since_snapshot = len(self.replayed.facts)
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self.replayed.torn_bytes:
            os.ftruncate(self._file, self.replayed.good_bytes)
            os.fsync(self._file)
        if self.replayed.good_bytes == 0:
            _write(self._file, HEADER)
            os.fsync(self._file)
        _sync_directory(path.parent)

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
        snapshot = b'{"seq":%d,"snapshot":%s}' % (self._seq, codec.state_to_line(state))
        temporary = self.path.with_suffix(".tmp")
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        fresh = os.open(temporary, flags, 0o600)
        _write(fresh, HEADER + _line(snapshot))
        os.fsync(fresh)
        # Readers see the old file or the new one, both whole.
        temporary.replace(self.path)
        _sync_directory(self.path.parent)
        os.close(self._file)
        self._file = fresh
        self._seq += 1
        self._since_snapshot = 0

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)


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


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalLockedError(f"{path}: another coordinator runs here") from None
    return descriptor


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
