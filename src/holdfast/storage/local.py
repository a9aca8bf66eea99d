"""A directory as storage: on this machine, or on a file system that several share.

A record that someone reads and acts upon must not vanish in a power cut after what follows from it
is on disk. Its writer makes it durable, but may die before it has: until then the file has a second
link, the writer's temporary one. So whoever finds a record with two links syncs the folder before
going on; all others pay nothing. Nothing else may link records.

A clone is made of links too, of files that are no records: Spark never changes a checkpoint file,
it writes another and renames it, so what a link names stays the same.

Paths are plain strings here: a takeover makes tens of thousands, a waiting unit some every second.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.storage.identity import new_id
from holdfast.storage.interface import Bytes, Cloning, Edit, Span

_TEMPORARY = re.compile(r"\.[0-9a-f]{32}(\.gone)?\.tmp")
_RECORD = re.compile(r"t\d+-\d{10}")
_UNFINISHED = re.compile(r"\.(?P<target>.+)-[0-9a-f]{32}\.(?P<what>cloning|gone)")


class LocalStorage:
    """Implements `holdfast.storage.interface.Storage`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        told: Callable[[str], None] | None = None,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        """Args:
        root: the directory; made when something is put.
        told: hears the address of every record that is put here.
        new_id: where the names of temporary files come from.
        """
        self.root = os.path.abspath(root)
        self._top = self.root
        self._told = told
        self._new_id = new_id
        self._durable: set[str] = set()
        """Folders that are known to be there for good."""

    # Records

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        stored = self.get(name)
        if stored is None:
            target = self.address(name)
            try:
                won = self._create(target, data)
            except FileNotFoundError:
                # The folder is gone, or someone took the temporary for that of a dead writer.
                self._durable.discard(_parent(target))
                won = self._create(target, data)
            stored = data if won else self.get(name)
        if self._told is not None:
            self._told(self.address(name))
        # Trimmed between link and read: whoever trims knows that this number was decided.
        return data if stored is None else stored

    def get(self, name: str) -> bytes | None:
        path = self.address(name)
        try:
            with open(path, "rb") as file:
                data = file.read()
                links = os.fstat(file.fileno()).st_nlink
        except FileNotFoundError:
            return None
        if links > 1:
            sync_folder(_parent(path))
        return data

    def exists(self, name: str) -> bool:
        return is_there(self.address(name))

    def put_time(self, name: str) -> float | None:
        try:
            return os.stat(self.address(name)).st_mtime
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address(name))

    def names(self, folder: str) -> list[str]:
        found = _entries(self.address(folder))
        return sorted([entry.name for entry in found if entry.name[0] != "." and entry.is_file()])

    def remove_leftovers(self, folder: str, before: float) -> int:
        return remove_temporaries(self.address(folder), before)

    # Signs of life

    def hold(self, name: str) -> Callable[[], None]:
        path = self.address(name)
        while True:
            os.makedirs(_parent(path), exist_ok=True)
            file = open(path, "ab")  # noqa: SIM115 - the lock lasts as long as it is open
            with contextlib.suppress(OSError):  # without locks, nobody's end is seen
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_file(file.fileno(), path):
                break
            file.close()  # taken for one that a dead process left, before it was locked

        def let_go() -> None:
            self.delete(name)
            file.close()

        return let_go

    def is_held(self, name: str) -> bool:
        path = self.address(name)
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file(file, path):
                self.delete(name)  # under the lock: nobody can hold it meanwhile
        except OSError:
            return True
        finally:
            os.close(file)
        return False

    # Data

    def put_data(self, name: str, parts: Iterable[Bytes]) -> None:
        path = self.address(name)
        os.makedirs(_parent(path), exist_ok=True)
        _write(path, parts)

    def replace(self, name: str, data: Bytes) -> None:
        path = self.address(name)
        folder = _parent(path)
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/{self._temporary()}"
        try:
            _write(temporary, (data,))
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        sync_folder(folder)

    def read(self, name: str) -> bytes | None:
        try:
            with open(self.address(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def read_ranges(self, name: str, spans: Sequence[Span]) -> list[memoryview] | None:
        try:
            with open(self.address(name), "rb") as file:
                # What is not looked at is not read.
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            return None
        except ValueError:  # an empty file cannot be mapped
            whole = memoryview(b"")
        return [whole[offset : offset + length] for offset, length in spans]

    def sizes(self, folder: str) -> dict[str, int]:
        found: dict[str, int] = {}
        start = self.address(folder)
        skip = len(start) + 1
        for inner, folders, names in os.walk(start):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                # Whoever writes here may be removing the same files.
                with contextlib.suppress(FileNotFoundError):
                    if not name.startswith("."):
                        path = f"{inner}/{name}"
                        found[path[skip:]] = os.stat(path).st_size
        return found

    def sync(self, folder: str, *names: str) -> None:
        path = self.address(folder)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                _sync(f"{path}/{name}", os.O_RDONLY)
        self._keep(path)
        sync_folder(path)

    def folders(self, folder: str) -> list[str]:
        found = _entries(self.address(folder))
        return sorted([entry.name for entry in found if entry.name[0] != "." and entry.is_dir()])

    # Checkpoints

    def checkpoints(self, folder: str) -> list[str]:
        return self.folders(folder)  # what is not whole has another name, with a dot

    def make_checkpoint(self, folder: str) -> None:
        os.makedirs(self.address(folder), exist_ok=True)

    def clone(self, source: str, target: str, how: Cloning) -> None:
        start = self.address(source)
        with self._appearing(target) as home:
            if home is None:
                return
            made: set[str] = {""}
            for done, (folder, name) in enumerate(_files(start, how.first)):
                if folder not in made:
                    _make_folders(home, folder, made)
                inside = f"{folder}/{name}" if folder else name
                change = how.edit(inside)
                try:
                    if change is None:
                        os.link(f"{start}/{inside}", inside, dst_dir_fd=home)
                    else:
                        _copy_edited(f"{start}/{inside}", home, inside, change)
                except FileNotFoundError:
                    continue  # removed meanwhile, so older than what the newest commit needs
                how.step(done)

    def assemble(
        self, target: str, files: Mapping[str, str | bytes], *, step: Callable[[int], None]
    ) -> None:
        """As the interface says; a file's checksum that Hadoop keeps beside it goes along."""
        with self._appearing(target) as home:
            if home is None:
                return
            made: set[str] = {""}
            for done, (name, content) in enumerate(files.items()):
                folder, _, inner = name.rpartition("/")
                if folder not in made:
                    _make_folders(home, folder, made)
                if isinstance(content, bytes):
                    _write_inside(home, name, content)
                else:
                    start, _, first = self.address(content).rpartition("/")
                    crc = f"{folder}/.{inner}.crc" if folder else f".{inner}.crc"
                    for source, link in (first, name), (f".{first}.crc", crc):
                        with contextlib.suppress(FileNotFoundError):
                            os.link(f"{start}/{source}", link, dst_dir_fd=home)
                step(done)

    def workplace(self, target: str) -> str:
        folder, _, last = target.rpartition("/")
        return f"{folder}/.{last}-{self._new_id()}.cloning"

    def remove_folder(self, folder: str, *, aside: str) -> None:
        there = self.address(aside)
        os.makedirs(_parent(there), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # it is gone, or someone else does the same
            os.rename(self.address(folder), there)
        shutil.rmtree(there, ignore_errors=True)

    def remove_unfinished(self, folder: str, stale: Callable[[str], bool]) -> None:
        home = self.address(folder)
        for entry in _entries(home):
            found = _UNFINISHED.fullmatch(entry.name)
            if found is None or (found["what"] == "cloning" and not stale(found["target"])):
                continue
            gone = f"{home}/{entry.name.rpartition('.')[0]}.gone"
            with contextlib.suppress(FileNotFoundError):  # someone else does the same
                os.rename(entry.path, gone)
            shutil.rmtree(gone, ignore_errors=True)

    # Places

    def below(self, folder: str) -> LocalStorage:
        inner = LocalStorage(self.address(folder), told=self._told, new_id=self._new_id)
        inner._top, inner._durable = self._top, self._durable
        return inner

    def address(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    # Inside

    @contextlib.contextmanager
    def _appearing(self, target: str) -> Iterator[int | None]:
        """A directory to fill that becomes `target` in the end; None if that is there.

        Everything is made relative to the open directory. So if a newer generation takes this one
        for dead and removes the unfinished clone under our hands, nothing of it comes back: the
        last step finds no directory to rename.
        """
        end = self.address(target)
        if os.path.isdir(end):
            yield None
            return
        parent, _, last = end.rpartition("/")
        temporary = f"{parent}/.{last}-{self._new_id()}.cloning"
        os.makedirs(temporary)
        home = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield home
            os.rename(temporary, end)
        finally:
            os.close(home)
            shutil.rmtree(temporary, ignore_errors=True)

    def _create(self, target: str, data: bytes) -> bool:
        """Put a record on disk unless there is one; tells whether there was none."""
        won = False
        folder = _parent(target)
        self._keep(folder)
        temporary = f"{folder}/{self._temporary()}"
        try:
            _write(temporary, (data,))
            # Whoever loses syncs all the same: the winner may have died.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, target)
                won = True
        except BaseException:
            # On a full disk, to leave it would only make things worse.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        # Until the folder is on disk, the temporary must stay: it says that it may not be.
        sync_folder(folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        return won

    def _keep(self, folder: str) -> None:
        """Make a folder, or see that whoever made it has not died before it was on disk.

        A folder with a record in it was made durable before that record was put.
        """
        if folder in self._durable:
            return
        if not any(_RECORD.fullmatch(entry.name) for entry in _entries(folder)):
            parent = _parent(folder)
            if folder.startswith(f"{self._top}/"):
                self._keep(parent)
            os.makedirs(folder, exist_ok=True)
            sync_folder(parent)
        self._durable.add(folder)

    def _temporary(self) -> str:
        return temporary_name(self._new_id())


def is_there(address: str) -> bool:
    """Whether a file is at an address: what the node's watcher asks many times a second."""
    return os.access(address, os.F_OK)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the folder's entries are on disk."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def temporary_name(identity: str | None = None) -> str:
    """A name for a file that is not yet what it will be; `remove_temporaries` knows it."""
    return f".{identity or new_id()}.tmp"


def remove_temporaries(folder: str | os.PathLike[str], before: float) -> int:
    """Remove temporary files that were last written before a time; tells how many.

    First they are moved, so that a writer that wakes up cannot make a record of one, then the
    folder is synced, as they may be second links of records that are not known to be durable.
    """
    doomed = []
    for entry in _entries(folder):
        # Another one may be removing the same files.
        with contextlib.suppress(FileNotFoundError):
            if _TEMPORARY.fullmatch(entry.name) and entry.stat().st_mtime < before:
                moved = f"{os.fspath(folder)}/{entry.name[:33]}.gone.tmp"
                os.rename(entry.path, moved)
                doomed.append(moved)
    if doomed:
        sync_folder(folder)
    for path in doomed:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return len(doomed)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _sync(path: str | os.PathLike[str], flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: str, parts: Iterable[Bytes]) -> None:
    """Write a new file and wait until its content is on disk."""
    with open(path, "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())


def _entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _files(source: str, first: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Folder below `source`, and name, of every file that a clone needs."""
    names = os.listdir(source)
    skip = len(source) + 1
    for name in [*first, *sorted(set(names) - set(first))]:
        start = f"{source}/{name}"
        if os.path.isfile(start):
            yield "", name
            continue
        for folder, inner, files in os.walk(start):
            inner.sort()  # what names files (_metadata) before those files (_stateSchema)
            for file in sorted(files):
                if not file.endswith(".tmp"):
                    yield folder[skip:], file


def _make_folders(home: int, folder: str, made: set[str]) -> None:
    parent = _parent(folder)
    if parent not in made:
        _make_folders(home, parent, made)
    os.mkdir(folder, dir_fd=home)
    made.add(folder)


def _copy_edited(source: str, home: int, copy: str, change: Edit) -> None:
    with open(source, "rb") as file:
        data = change(file.read())
    if data is not None:
        _write_inside(home, copy, data)


def _write_inside(home: int, name: str, data: bytes) -> None:
    handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=home)
    with os.fdopen(handle, "wb") as target:
        target.write(data)


def _is_file(file: int, path: str) -> bool:
    """Whether an open file is what is found under a path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
