"""Where records live: a place with one atomic operation, create-if-absent.

No safety rests on anything else. The file back end needs link(2) to be atomic, which local and
shared POSIX file systems promise; an object store would use a conditional put.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

LEFTOVER_S = 3600.0
"""Temporary files not written to for this long belong to writers that died."""

_TEMPORARY = re.compile(r"\.[0-9a-f]{32}(\.gone)?\.tmp")
_RECORD = re.compile(r"t\d+-\d{10}")


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

    def remove_leftovers(self, folder: str, before: float) -> int:
        """Remove what writers that died left in a folder before a time, wall-clock seconds.

        Tells how much. Taking a living one for dead costs it a second attempt and nothing else.
        """
        ...


class FileStore:
    """Records as files below a directory.

    A record that someone reads and acts upon must not vanish in a power cut after what follows
    from it is on disk. Its writer makes it durable, but may die before it has: until then the file
    has a second link, the writer's temporary one. So whoever finds a record with two links syncs
    the folder before going on; all others pay nothing.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._folders: set[Path] = set()
        """Folders that are known to be there for good."""

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        target = self.root / name
        existing = self.get(name)
        if existing is not None:
            return existing
        try:
            self._create(target, data)
        except FileNotFoundError:
            # The folder is gone, or someone took the temporary for that of a dead writer.
            self._folders.discard(target.parent)
            self._create(target, data)
        stored = self.get(name)
        # Trimmed between link and read: whoever trims knows that this number was decided.
        return data if stored is None else stored

    def get(self, name: str) -> bytes | None:
        path = self.root / name
        try:
            with path.open("rb") as file:
                data = file.read()
                links = os.fstat(file.fileno()).st_nlink
        except FileNotFoundError:
            return None
        if links > 1:
            sync_folder(path.parent)
        return data

    def exists(self, name: str) -> bool:
        return (self.root / name).exists()

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(_plain_names(self.root / folder))
        except FileNotFoundError:
            return []

    def remove_leftovers(self, folder: str, before: float) -> int:
        return remove_temporaries(self.root / folder, before)

    def _create(self, target: Path, data: bytes) -> None:
        folder = target.parent
        self._keep(folder)
        temporary = folder / temporary_name()
        try:
            write_durably(temporary, data)
        except BaseException:
            # On a full disk, to leave it would only make things worse.
            temporary.unlink(missing_ok=True)
            raise
        try:
            os.link(temporary, target)
        except FileExistsError:
            pass  # sync all the same: the winner may have died
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        # Until the folder is on disk, the temporary must stay: it says that it may not be.
        sync_folder(folder)
        temporary.unlink(missing_ok=True)

    def _keep(self, folder: Path) -> None:
        """Make a folder, or see that whoever made it has not died before it was on disk.

        A folder with a record in it was made durable before that record was put.
        """
        if folder in self._folders:
            return
        if not _holds_record(folder):
            if folder != self.root and self.root in folder.parents:
                self._keep(folder.parent)
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(folder.parent)
        self._folders.add(folder)


class MemoryStore:
    """Records in memory: for tests and simulation."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, bytes]] = {}
        self._lock = threading.Lock()

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        folder, _, last = name.rpartition("/")
        with self._lock:
            return self._folders.setdefault(folder, {}).setdefault(last, data)

    def get(self, name: str) -> bytes | None:
        folder, _, last = name.rpartition("/")
        return self._folders.get(folder, {}).get(last)

    def exists(self, name: str) -> bool:
        return self.get(name) is not None

    def delete(self, name: str) -> None:
        folder, _, last = name.rpartition("/")
        with self._lock:
            self._folders.get(folder, {}).pop(last, None)

    def names(self, folder: str) -> list[str]:
        with self._lock:
            return sorted(self._folders.get(folder, ()))

    def remove_leftovers(self, folder: str, before: float) -> int:  # noqa: ARG002 - as the others
        return 0


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


def temporary_name() -> str:
    """A name for a file that is not yet what it will be; `remove_temporaries` knows it."""
    return f".{uuid.uuid4().hex}.tmp"


def remove_temporaries(folder: Path, before: float) -> int:
    """Remove temporary files that were last written before a time; tells how many.

    First they are moved, so that a writer that wakes up cannot make a record of one, then the
    folder is synced, as they may be second links of records that are not known to be durable.
    """
    doomed = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Another one may be removing the same files.
                with contextlib.suppress(FileNotFoundError):
                    if _TEMPORARY.fullmatch(entry.name) and entry.stat().st_mtime < before:
                        moved = folder / f"{entry.name[:33]}.gone.tmp"
                        Path(entry.path).rename(moved)
                        doomed.append(moved)
    except FileNotFoundError:
        return 0
    if doomed:
        sync_folder(folder)
    for path in doomed:
        path.unlink(missing_ok=True)
    return len(doomed)


def _holds_record(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(_RECORD.fullmatch(entry.name) for entry in entries)
    except FileNotFoundError:
        return False


def _plain_names(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_file():
                yield entry.name
