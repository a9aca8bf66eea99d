"""Operations of `holdfast.streams` on a record store: one process' view of a run directory."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.errors import CorruptLogError
from holdfast.rundir.layout import member, record_folder, word
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
        there = self._store.names(record_folder(folder))
        return [name for name in there if name.isascii() and name.isdigit()]

    def _get(self, name: str) -> Record | None:
        try:
            data = self._store.get(name)
        except IsADirectoryError:
            raise CorruptLogError("is a directory", path=self._store.address(name)) from None
        return None if data is None else self._decode(data, name)

    def _decode(self, data: bytes, name: str) -> Record:
        return decode_at(data, name, path=self._store.address(name))

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


def decode_at(data: bytes, name: str, *, path: str) -> Record:
    """The record in `data`, which lies under a name; raises CorruptLogError if it is none.

    One in the place of another decides nothing: it would be read twice, or by whom it does not
    concern. So may what was put back by hand, or copied.
    """
    found = decode(data, path=path)
    *_, owner, folder, last = ("", *name.split("/"))
    about = getattr(found, "unit", None) or getattr(found, "stream", None)
    if found.kind not in kinds_in(folder) or (about is not None and word(about) != owner):
        of = "" if about is None else f" of {about}"
        raise CorruptLogError(f"is a {found.kind} record{of} and does not belong here", path=path)
    if last.isdigit() and last != f"{found.number:010d}":
        raise CorruptLogError(f"is {found.kind} record {found.number}, not this one", path=path)
    return found


def _name(folder: str, number: int) -> str:
    return member(record_folder(folder), number)
