"""An object store as storage, in memory: shows that the interface asks for no more than one has.

`Bucket` has what object stores offer: atomic puts of whole objects, conditional ones among them,
ranged gets, copies, deletions and listings by prefix. There are no folders, links or renames.

A checkpoint is decided by one record in it: `whole`, put by whoever has copied all, or `void`, put
by whoever takes the cloner for dead. So one that wakes up cannot finish what was given up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from holdfast.storage.identity import new_id
from holdfast.storage.interface import Bytes, Cloning
from holdfast.storage.whole import WholePuts

MARK = ".checkpoint"


class Bucket:
    """Objects by key."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes, now: float, *, if_none_match: bool = False) -> bool:
        """Whether it was put: with If-None-Match: * only where there is none."""
        with self._lock:
            if if_none_match and key in self._objects:
                return False
            self._objects[key] = (data, now)
            return True

    def get(self, key: str) -> tuple[bytes, float] | None:
        return self._objects.get(key)

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        with self._lock:
            return sorted(key for key in self._objects if key.startswith(prefix))


class ObjectStorage(WholePuts):
    """Implements `holdfast.storage.interface.Storage`."""

    def __init__(
        self,
        bucket: Bucket | None = None,
        prefix: str = "",
        *,
        told: Callable[[str], None] | None = None,
        clock: Callable[[], float] = lambda: 5.0,
    ) -> None:
        self._bucket = bucket or Bucket()
        self._prefix = prefix
        self._told = told
        self._clock = clock

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        stored: bytes | None = None
        while stored is None:  # trimmed between the two requests: then it is free again
            if self._bucket.put(self._key(name), data, self._clock(), if_none_match=True):
                stored = data
            else:
                stored = self.get(name)
        if self._told is not None:
            self._told(self.address(name))
        return stored

    def get(self, name: str) -> bytes | None:
        found = self._bucket.get(self._key(name))
        return None if found is None else found[0]

    def put_time(self, name: str) -> float | None:
        found = self._bucket.get(self._key(name))
        return None if found is None else found[1]

    def delete(self, name: str) -> None:
        self._bucket.delete(self._key(name))

    def names(self, folder: str) -> list[str]:
        found = self._inside(folder)
        return [name for name in found if "/" not in name and name[0] != "."]

    def replace(self, name: str, data: Bytes) -> None:
        self._bucket.put(self._key(name), bytes(data), self._clock())

    def sizes(self, folder: str) -> dict[str, int]:
        start = f"{folder}/" if folder else ""
        return {
            name: len(self.get(start + name) or b"")
            for name in self._inside(folder)
            if not any(word[0] == "." for word in name.split("/"))
        }

    def sync(self, folder: str, *names: str) -> None:
        """What was put is durable."""

    def folders(self, folder: str) -> list[str]:
        found = {name.partition("/")[0] for name in self._inside(folder) if "/" in name}
        return sorted(name for name in found if name[0] != ".")

    def checkpoints(self, folder: str) -> list[str]:
        start = f"{folder}/" if folder else ""
        return [
            name for name in self.folders(folder) if self.get(f"{start}{name}/{MARK}") == b"whole"
        ]

    def make_checkpoint(self, folder: str) -> None:
        self.put_if_absent(f"{folder}/{MARK}", b"whole")

    def clone(self, source: str, target: str, how: Cloning) -> None:
        if self.get(f"{target}/{MARK}") == b"whole":
            return
        inside = [name for name in self._inside(source) if name != MARK]
        for done, name in enumerate(how.in_order(inside)):
            change, data = how.edit(name), self.get(f"{source}/{name}")
            if data is not None and change is not None:
                data = change(data)
            if data is not None and not name.endswith(".tmp"):
                self.replace(f"{target}/{name}", data)
            how.step(done)
        self._finish(target)

    def assemble(
        self, target: str, files: Mapping[str, str | bytes], *, step: Callable[[int], None]
    ) -> None:
        if self.get(f"{target}/{MARK}") == b"whole":
            return
        for done, (name, content) in enumerate(files.items()):
            data = content if isinstance(content, bytes) else self.get(content)
            if data is not None:
                self.replace(f"{target}/{name}", data)
            step(done)
        self._finish(target)

    def _finish(self, target: str) -> None:
        if self.put_if_absent(f"{target}/{MARK}", b"whole") != b"whole":
            self._clear(target)
            raise FileNotFoundError(self.address(target))

    def workplace(self, target: str) -> str:
        return f"{target}-{new_id()}.cloning"

    def remove_folder(self, folder: str, *, aside: str) -> None:
        self.delete(f"{folder}/{MARK}")  # whatever is left now is no checkpoint
        self._clear(folder)
        self.delete(f"{folder}/{MARK}")

    def remove_unfinished(self, folder: str, stale: Callable[[str], bool]) -> None:
        start = f"{folder}/" if folder else ""
        for name in self.folders(folder):
            if stale(name) and self.put_if_absent(f"{start}{name}/{MARK}", b"void") == b"void":
                self._clear(f"{start}{name}")

    def below(self, folder: str) -> ObjectStorage:
        return ObjectStorage(self._bucket, self._key(folder), told=self._told, clock=self._clock)

    def address(self, name: str) -> str:
        return f"s3://bucket/{self._key(name)}"

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def _inside(self, folder: str) -> list[str]:
        start = self._key(folder)
        start = f"{start}/" if start else ""
        return [key[len(start) :] for key in self._bucket.keys(start)]

    def _clear(self, folder: str) -> None:
        for name in self._inside(folder):
            if name != MARK:
                self.delete(f"{folder}/{name}")
