"""Rows put aside: readable, replaced by a redo, and bounded."""

import pyarrow as pa
import pytest

from holdfast.runtime.units.aside import forget_oldest, put_aside
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

ROWS = pa.table({"n": [1, 2]})


def put(folder, number, *, keep_all=True):
    return put_aside(folder, number, ROWS, keep_all=keep_all, now=0.0)


def test_a_redo_replaces_its_file():
    """One file a batch, however often it is run."""
    folder = MemoryStorage()
    for _ in range(2):
        name = put(folder, 7)
    assert folder.names("") == [name] == ["0000000007.arrow"]
    assert pa.ipc.open_stream(folder.read(name)).read_all().equals(ROWS)


def test_only_the_newest_are_kept():
    """By number and by size; the newest stays even if it is too large alone."""
    folder = MemoryStorage()
    for number in range(12):
        name = put(folder, number)
    assert forget_oldest(folder, files=5) == 7
    assert folder.names("") == [f"{number:010d}.arrow" for number in range(7, 12)]
    assert forget_oldest(folder, size=3 * folder.sizes("")[name]) == 2
    assert forget_oldest(folder, size=1) == 2
    assert folder.names("") == ["0000000011.arrow"]


def test_nothing_is_forgotten_when_all_is_to_be_kept(monkeypatch):
    """`--keep-input` switches the bounds off."""
    monkeypatch.setattr(forget_oldest, "__kwdefaults__", {"files": 1, "size": 1})
    folder = MemoryStorage()
    for number in range(3):
        put(folder, number)
    assert len(folder.names("")) == 3
    put(folder, 3, keep_all=False)
    assert folder.names("") == ["0000000003.arrow"]
