"""What the state files of a checkpoint say about a restore."""

from __future__ import annotations

import json
import zipfile

import pytest

from holdfast.runtime.checkpoint.state import StateFiles
from holdfast.storage.local import LocalStorage

pytestmark = pytest.mark.unit


def write_snapshot(folder, version, table_bytes, keys):
    folder.mkdir(parents=True, exist_ok=True)
    data = {"sstFiles": [{"sizeBytes": table_bytes}], "numKeys": keys}
    with zipfile.ZipFile(folder / f"{version}_abc.zip", "w") as file:
        file.writestr("metadata", "v1\n" + json.dumps(data))


def test_state_files_are_what_a_restore_reads(tmp_path):
    """A snapshot is its zip file and the tables it names; removed files stay in memory."""
    store = tmp_path / "state" / "0" / "0"
    write_snapshot(store, 2, 5000, 40)
    (store / "1_abc.changelog").write_bytes(b"x" * 30)
    (store / ".1_abc.changelog.crc").write_bytes(b"x")
    (store / "1_abc.changelog.crc").write_bytes(b"x")
    files = StateFiles(LocalStorage(tmp_path))
    files.scan()
    (store / "1_abc.changelog").unlink()
    (store / "2_abc.changelog").write_bytes(b"x" * 20)
    files.scan()
    assert files.changes == {1: 30, 2: 20}
    (snapshot,) = files.snapshots()
    zipped = (store / "2_abc.zip").stat().st_size
    assert (snapshot.version, snapshot.size, snapshot.keys) == (2, 5000 + zipped, 40)


def test_every_store_counts_with_its_newest_snapshot(tmp_path):
    """A join keeps several stores, which upload their snapshots when they like."""
    left, right = (tmp_path / "state" / "0" / "0" / name for name in ("left", "right"))
    write_snapshot(left, 2, 1000, 1)
    write_snapshot(right, 3, 100, 2)
    write_snapshot(left, 4, 2000, 3)
    files = StateFiles(LocalStorage(tmp_path))
    files.scan()
    assert [one.version for one in files.snapshots()] == [3, 4]
    assert [one.keys for one in files.snapshots()] == [3, 5]


def test_a_torn_snapshot_is_left_for_later(tmp_path):
    """A file that is still being written is looked at again."""
    store = tmp_path / "state" / "0" / "0"
    store.mkdir(parents=True)
    (store / "2_abc.zip").write_bytes(b"PK")
    files = StateFiles(LocalStorage(tmp_path))
    files.scan()
    assert files.snapshots() == []
    write_snapshot(store, 2, 7, 1)
    files.scan()
    assert len(files.snapshots()) == 1
