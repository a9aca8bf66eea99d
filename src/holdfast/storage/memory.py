"""Storage in memory: for tests and simulation.

Every operation is atomic, and time and identities come from whoever makes it. A name that another
back end could not take is refused, so that what runs here runs there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.storage.identity import new_id
from holdfast.storage.interface import Bytes, Cloning
from holdfast.storage.whole import WholePuts


@dataclass(slots=True)
class _Files:
    """What all views of one storage share."""

    folders: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Folder to last word to content."""
    times: dict[str, float] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStorage(WholePuts):
    """Implements `holdfast.storage.interface.Storage`."""

    def __init__(
        self,
        *,
        told: Callable[[str], None] | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Args:
        told: hears the address of every record that is put here.
        clock: wall-clock seconds.
        """
        self._told = told
        self._clock = clock
        self._files = _Files()
        self._prefix = ""

    # Records

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        folder, last = self._at(name)
        files = self._files
        with files.lock:
            known = files.folders.setdefault(folder, {})
            if last not in known:
                known[last] = data
                files.times[f"{folder}/{last}"] = self._clock()
            stored = known[last]
        if self._told is not None:
            self._told(self.address(name))
        return stored

    def get(self, name: str) -> bytes | None:
        folder, last = self._at(name)
        return self._files.folders.get(folder, {}).get(last)

    def put_time(self, name: str) -> float | None:
        return self._files.times.get("/".join(self._at(name)))

    def delete(self, name: str) -> None:
        folder, last = self._at(name)
        with self._files.lock:
            self._files.folders.get(folder, {}).pop(last, None)
            self._files.times.pop(f"{folder}/{last}", None)

    def names(self, folder: str) -> list[str]:
        with self._files.lock:
            found = self._files.folders.get(self._folder(folder), ())
            return sorted(name for name in found if name[0] != ".")

    # Data

    def replace(self, name: str, data: Bytes) -> None:
        folder, last = self._at(name)
        with self._files.lock:
            self._files.folders.setdefault(folder, {})[last] = bytes(data)
            self._files.times[f"{folder}/{last}"] = self._clock()

    def sizes(self, folder: str) -> dict[str, int]:
        with self._files.lock:
            return {
                name: len(data)
                for name, data in self._inside(self._folder(folder))
                if not any(word[0] == "." for word in name.split("/"))
            }

    def sync(self, folder: str, *names: str) -> None:
        """Nothing here outlives the process."""

    def folders(self, folder: str) -> list[str]:
        start = self._folder(folder)
        skip = len(start) + 1 if start else 0
        with self._files.lock:
            known = [name for name in self._files.folders if name and _is_below(name, start)]
        inner = {name[skip:].partition("/")[0] for name in known} - {""}
        return sorted(name for name in inner if name[0] != ".")

    # Checkpoints

    def checkpoints(self, folder: str) -> list[str]:
        return self.folders(folder)

    def make_checkpoint(self, folder: str) -> None:
        with self._files.lock:
            self._files.folders.setdefault(self._folder(folder), {})

    def clone(self, source: str, target: str, how: Cloning) -> None:
        with self._files.lock:
            if self._has(target):
                return
            found = dict(self._inside(self._folder(source)))
        made: dict[str, bytes] = {}
        for done, name in enumerate(how.in_order(found)):
            change = how.edit(name)
            data = found[name] if change is None else change(found[name])
            if data is not None and not name.endswith(".tmp"):
                made[name] = data
            how.step(done)
        self._appear(target, made)

    def _appear(self, target: str, made: Mapping[str, bytes]) -> None:
        with self._files.lock:
            if not self._has(target):
                self.make_checkpoint(target)
                for name, data in made.items():
                    self.replace(f"{target}/{name}", data)

    def assemble(
        self, target: str, files: Mapping[str, str | bytes], *, step: Callable[[int], None]
    ) -> None:
        made: dict[str, bytes] = {}
        for done, (name, content) in enumerate(files.items()):
            data = content if isinstance(content, bytes) else self.read(content)
            if data is not None:
                made[name] = data
            step(done)
        self._appear(target, made)

    def workplace(self, target: str) -> str:
        return f"{target}-{new_id()}.cloning"

    def remove_folder(self, folder: str, *, aside: str) -> None:  # noqa: ARG002 - gone at once
        start = self._folder(folder)
        with self._files.lock:
            doomed = [name for name in self._files.folders if _is_below(name, start)]
            for name in doomed:
                for last in self._files.folders.pop(name):
                    self._files.times.pop(f"{name}/{last}", None)

    def remove_unfinished(self, folder: str, stale: Callable[[str], bool]) -> None:
        """Clones appear at once, so none is ever unfinished."""

    # Places

    def below(self, folder: str) -> MemoryStorage:
        inner = MemoryStorage(told=self._told, clock=self._clock)
        inner._files, inner._prefix = self._files, self._folder(folder)
        return inner

    def address(self, name: str) -> str:
        return f"memory:{self._folder(name)}"

    # Inside

    def _folder(self, folder: str) -> str:
        if folder and not all(word.strip(".") for word in folder.split("/")):
            raise ValueError(f"{folder!r} is not a name: plain words with / between them")
        if self._prefix and folder:
            return f"{self._prefix}/{folder}"
        return self._prefix or folder

    def _at(self, name: str) -> tuple[str, str]:
        folder, _, last = self._folder(name).rpartition("/")
        return folder, last

    def _inside(self, start: str) -> Iterator[tuple[str, bytes]]:
        """All files of a folder and of those below, by name relative to it."""
        skip = len(start) + 1 if start else 0
        for folder, files in self._files.folders.items():
            if _is_below(folder, start):
                for last, data in files.items():
                    yield (f"{folder}/{last}" if folder else last)[skip:], data

    def _has(self, folder: str) -> bool:
        start = self._folder(folder)
        return any(_is_below(name, start) for name in self._files.folders)


def _is_below(folder: str, start: str) -> bool:
    return not start or folder == start or folder.startswith(f"{start}/")
