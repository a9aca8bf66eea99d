"""Where records live: a place with one atomic operation, create-if-absent.

No safety rests on anything else. The file back end needs link(2) to be atomic, which local and
shared POSIX file systems promise; an object store would use a conditional put.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class RecordStore(Protocol):
    """Records by name; a name is a relative path of plain words."""

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        """Create the record unless it exists; returns what is stored afterwards.

        The put succeeded if that equals `data`. As data names its writer, this also holds when
        an earlier attempt got through and only its answer was lost.
        """
        ...

    def get(self, name: str) -> bytes | None: ...

    def exists(self, name: str) -> bool: ...

    def delete(self, name: str) -> None:
        """Remove a record; one that is not there is no error."""
        ...

    def names(self, folder: str) -> list[str]:
        """Last words of the names in a folder, sorted; costs time in their number."""
        ...


class FileStore:
    """Records as files below a directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        target = self.root / name
        existing = self.get(name)
        if existing is not None:
            return existing
        folder = target.parent
        _make_durable_folder(folder, self.root)
        temporary = folder / f".{uuid.uuid4().hex}.tmp"
        try:
            write_durably(temporary, data)
            with contextlib.suppress(FileExistsError):
                os.link(temporary, target)
            # Also after losing: the winner may have died before making its link durable, and
            # what follows from its record must not outlive it.
            sync_folder(folder)
        finally:
            temporary.unlink(missing_ok=True)
        stored = self.get(name)
        # Trimmed between link and read: whoever trims knows that this number was decided.
        return data if stored is None else stored

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        return (self.root / name).exists()

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(_plain_names(self.root / folder))
        except FileNotFoundError:
            return []


class MemoryStore:
    """Records in memory: for tests and simulation."""

    def __init__(self) -> None:
        self._records: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        with self._lock:
            return self._records.setdefault(name, data)

    def get(self, name: str) -> bytes | None:
        return self._records.get(name)

    def exists(self, name: str) -> bool:
        return name in self._records

    def delete(self, name: str) -> None:
        with self._lock:
            self._records.pop(name, None)

    def names(self, folder: str) -> list[str]:
        with self._lock:
            known = list(self._records)
        prefix = f"{folder}/"
        rests = [name[len(prefix) :] for name in known if name.startswith(prefix)]
        return sorted(rest for rest in rests if "/" not in rest)


def write_durably(path: Path, data: bytes) -> None:
    """Write a new file and wait until its content is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_durable_folder(folder: Path, root: Path) -> None:
    if folder.exists():
        return
    if folder != root and root in folder.parents:
        _make_durable_folder(folder.parent, root)
    folder.mkdir(parents=True, exist_ok=True)
    sync_folder(folder.parent)


def _plain_names(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_file():
                yield entry.name
