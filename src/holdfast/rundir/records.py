"""Operations of `holdfast.streams` on a record store: one process' view of a run directory."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.errors import CorruptLogError
from holdfast.rundir.layout import member, record_folder
from holdfast.storage import Storage
from holdfast.streams.codec import decode, encode
from holdfast.streams.records import Floor, Record
from holdfast.streams.steps import (
    Delete,
    Get,
    GetFloor,
    Newest,
    Operation,
    Put,
    RaiseFloor,
    Steps,
    drive,
)

T = TypeVar("T")


class RecordFolder:
    """Executes operations; every record is a file that is created once."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self._floors: dict[str, tuple[str, Floor]] = {}
        """The highest floor last seen of a folder, by its name: what it says never changes."""

    def run(self, steps: Steps[T]) -> T:
        """Carry out a decision."""
        return drive(steps, self.execute)

    def execute(self, operation: Operation) -> Any:
        match operation:
            case Get(folder, number):
                return self._get(_name(folder, number))
            case Put(folder, number, record):
                return self._put(_name(folder, number), record)
            case Newest(folder):
                names = self._names(folder)
                return int(names[-1]) if names else -1
            case Delete(folder, number):
                self._store.delete(_name(folder, number))
                return None
            case GetFloor(folder):
                return self._floor(f"{folder}-floor")
            case RaiseFloor(folder, floor):
                self._raise(f"{folder}-floor", floor)
                return None

    def address(self, folder: str, number: int) -> str:
        """Where a record is, or will be: for who watches for it."""
        return self._store.address(_name(folder, number))

    def _names(self, folder: str) -> list[str]:
        """Its records, by number; whatever else somebody has put there is none."""
        return [name for name in self._store.names(record_folder(folder)) if name.isdigit()]

    def _get(self, name: str) -> Record | None:
        data = self._store.get(name)
        return None if data is None else self._decode(data, name)

    def _decode(self, data: bytes, name: str) -> Record:
        """One that lies in a folder of another kind decides nothing."""
        path = self._store.address(name)
        found = decode(data, path=path)
        if found.kind not in kinds_in(name.split("/")[-2]):
            raise CorruptLogError(f"is a {found.kind} record and does not belong here", path=path)
        return found

    def _put(self, name: str, record: Record) -> Record:
        data = encode(record)
        stored = self._store.put_if_absent(name, data)
        return record if stored == data else self._decode(stored, name)

    def _floor(self, folder: str) -> Floor:
        """The highest; one that is removed while we look is below another."""
        while True:
            names = self._names(folder)
            if not names:
                return Floor()
            known = self._floors.get(folder)
            if known is not None and known[0] == names[-1]:
                return known[1]
            found = self._get(f"{record_folder(folder)}/{names[-1]}")
            if isinstance(found, Floor):
                self._floors[folder] = (names[-1], found)
                return found

    def _raise(self, folder: str, floor: Floor) -> None:
        self._put(_name(folder, floor.number), floor)
        for name in self._names(folder):
            if int(name) < floor.number:
                self._store.delete(f"{record_folder(folder)}/{name}")


_KINDS = {
    "changes": ("change",),
    "closings": ("closing",),
    "restarts": ("restart",),
    "ranges": ("range", "turn"),
    "slices": ("slice", "seal"),
    "skips": ("skip",),
    "repairs": ("repair",),
    "branch": ("branch",),
    "terms": ("term",),
    "forks": ("fork",),
    "fork-ends": ("fork-end",),
}


def kinds_in(folder: str) -> tuple[str, ...]:
    """The kinds of records that a folder holds, by the last word of its name."""
    if folder.endswith("-floor"):
        return ("floor",)
    return ("claim",) if folder.startswith("claims-") else _KINDS[folder]


def _name(folder: str, number: int) -> str:
    return member(record_folder(folder), number)
