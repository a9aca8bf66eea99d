"""Operations of `holdfast.streams` on a record store: one process' view of a run directory."""

from __future__ import annotations

from typing import Any, TypeVar

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
                names = self._store.names(record_folder(folder))
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

    def _get(self, name: str) -> Record | None:
        data = self._store.get(name)
        return None if data is None else decode(data, path=self._store.address(name))

    def _put(self, name: str, record: Record) -> Record:
        data = encode(record)
        stored = self._store.put_if_absent(name, data)
        return record if stored == data else decode(stored, path=self._store.address(name))

    def _floor(self, folder: str) -> Floor:
        """The highest; one that is removed while we look is below another."""
        while True:
            names = self._store.names(record_folder(folder))
            if not names:
                return Floor()
            found = self._get(f"{record_folder(folder)}/{names[-1]}")
            if isinstance(found, Floor):
                return found

    def _raise(self, folder: str, floor: Floor) -> None:
        self._put(_name(folder, floor.number), floor)
        for name in self._store.names(record_folder(folder)):
            if int(name) < floor.number:
                self._store.delete(f"{record_folder(folder)}/{name}")


def _name(folder: str, number: int) -> str:
    return member(record_folder(folder), number)
