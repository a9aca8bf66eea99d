"""Rows put aside: readable, replaced by a redo, and bounded."""

import pyarrow as pa
import pytest

from holdfast.runtime.units.aside import forget_oldest, put_aside

pytestmark = pytest.mark.unit

ROWS = pa.table({"n": [1, 2]})


def read(path):
    with pa.ipc.open_stream(path) as stream:
        return stream.read_all()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_redo_replaces_its_file(tmp_path):
    """One file a batch, however often it is run."""
    for _ in range(2):
        path = put_aside(tmp_path, 7, ROWS, keep_all=True)
    assert names(tmp_path) == ["0000000007.arrow"]
    assert read(path).equals(ROWS)


def test_only_the_newest_are_kept(tmp_path):
    """By number and by size; the newest stays even if it is too large alone."""
    for number in range(12):
        path = put_aside(tmp_path, number, ROWS, keep_all=True)
    assert forget_oldest(tmp_path, files=5) == 7
    assert names(tmp_path) == [f"{number:010d}.arrow" for number in range(7, 12)]
    assert forget_oldest(tmp_path, size=3 * path.stat().st_size) == 2
    assert forget_oldest(tmp_path, size=1) == 2
    assert names(tmp_path) == ["0000000011.arrow"]


def test_nothing_is_forgotten_when_all_is_to_be_kept(tmp_path, monkeypatch):
    """`--keep-input` switches the bounds off."""
    monkeypatch.setattr(forget_oldest, "__kwdefaults__", {"files": 1, "size": 1})
    for number in range(3):
        put_aside(tmp_path, number, ROWS, keep_all=True)
    assert len(names(tmp_path)) == 3
    put_aside(tmp_path, 3, ROWS, keep_all=False)
    assert names(tmp_path) == ["0000000003.arrow"]
