"""One suite for every back end of the record store."""

from __future__ import annotations

import os
import threading

import pytest

from holdfast.runtime.log import store as store_module
from holdfast.runtime.log.store import FileStore, MemoryStore

pytestmark = pytest.mark.unit


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    return FileStore(tmp_path / "root") if request.param == "file" else MemoryStore()


def test_the_first_put_wins(store):
    """A second put changes nothing and returns what is there."""
    assert store.put_if_absent("a/b/n1", b"one") == b"one"
    assert store.put_if_absent("a/b/n1", b"two") == b"one"
    assert store.get("a/b/n1") == b"one"


def test_repeating_ones_own_put_counts_as_success(store):
    """A writer whose answer was lost puts again and finds its own bytes."""
    store.put_if_absent("n", b"mine")
    assert store.put_if_absent("n", b"mine") == b"mine"


def test_what_is_absent_is_told_so(store):
    """Missing records and folders are not errors."""
    assert store.get("x/y") is None
    assert not store.exists("x/y")
    assert store.names("x") == []
    store.delete("x/y")


def test_names_are_sorted_and_of_one_folder(store):
    """Listing gives the members of a folder only."""
    for name in ("f/t0-2", "f/t0-1", "f/g/t0-9", "other/t0-3"):
        store.put_if_absent(name, b"")
    assert store.names("f") == ["t0-1", "t0-2"]
    assert store.exists("f/g/t0-9")


def test_a_deleted_record_is_gone(store):
    """After deletion a name is free again; floors keep it from being used."""
    store.put_if_absent("f/a", b"1")
    store.delete("f/a")
    assert store.get("f/a") is None
    assert store.names("f") == []


def test_many_writers_agree_on_one_value(store):
    """Whatever the interleaving, all writers see the same winner."""
    seen: list[bytes] = []
    barrier = threading.Barrier(8)

    def write(index: int) -> None:
        barrier.wait()
        seen.append(store.put_if_absent("race/n", b"%d" % index))

    threads = [threading.Thread(target=write, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert store.get("race/n") == seen[0]


def test_files_leave_no_temporaries(tmp_path):
    """Neither winning nor losing leaves a temporary file behind."""
    store = FileStore(tmp_path)
    store.put_if_absent("a/n", b"1")
    store.put_if_absent("a/n", b"2")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["n"]


@pytest.fixture
def synced(monkeypatch):
    """The folders that were synced, in order."""
    found = []
    real = store_module.sync_folder

    def sync(folder):
        found.append(folder)
        real(folder)

    monkeypatch.setattr(store_module, "sync_folder", sync)
    return found


class KilledError(BaseException):
    """Stands for SIGKILL."""


def die_in_put(monkeypatch, root, name, data):
    """A writer that links its record and is killed before the folder is on disk."""

    def die(folder):
        raise KilledError

    store = FileStore(root)
    store.put_if_absent(f"{name}-before", b"so that the folder is there")
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "sync_folder", die)
        with pytest.raises(KilledError):
            store.put_if_absent(name, data)


@pytest.mark.parametrize("adopt", ["put", "get"])
def test_what_a_dead_writer_left_is_made_durable_by_whoever_adopts_it(
    tmp_path, monkeypatch, synced, adopt
):
    """What follows from a record must not outlive it in a power cut."""
    die_in_put(monkeypatch, tmp_path, "a/n", b"one")
    synced.clear()
    other = FileStore(tmp_path)
    found = other.put_if_absent("a/n", b"two") if adopt == "put" else other.get("a/n")
    assert found == b"one"
    assert synced == [tmp_path / "a"]


def test_reading_what_is_durable_syncs_nothing(tmp_path, synced):
    """The common path pays nothing: neither for records found nor for losing a put."""
    FileStore(tmp_path).put_if_absent("a/n", b"one")
    synced.clear()
    store = FileStore(tmp_path)
    assert store.get("a/n") == store.put_if_absent("a/n", b"two") == b"one"
    assert synced == []


def test_a_folder_of_a_dead_maker_is_made_durable(tmp_path, synced):
    """A folder that is there without a record may vanish, and its first record with it."""
    FileStore(tmp_path).put_if_absent("a/t0-0000000000", b"")
    (tmp_path / "a" / "b").mkdir()
    synced.clear()
    FileStore(tmp_path).put_if_absent("a/b/t0-0000000000", b"")
    assert synced == [tmp_path / "a", tmp_path / "a" / "b"]
    synced.clear()
    FileStore(tmp_path).put_if_absent("a/b/t0-0000000001", b"")
    assert synced == [tmp_path / "a" / "b"]


def test_leftovers_of_dead_writers_are_removed(tmp_path, monkeypatch, synced):
    """Those of long ago only; and the record that one of them is a link of is durable first."""
    die_in_put(monkeypatch, tmp_path, "a/n", b"one")
    (tmp_path / "a" / ".notes.tmp").touch()
    store = FileStore(tmp_path)
    (leftover,) = [path for path in (tmp_path / "a").iterdir() if len(path.name) == 37]
    written = leftover.stat().st_mtime
    assert store.remove_leftovers("a", before=written) == 0
    synced.clear()
    assert store.remove_leftovers("a", before=written + 1) == 1
    assert synced == [tmp_path / "a"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        ".notes.tmp",
        "n",
        "n-before",
    ]
    assert store.remove_leftovers("nowhere", before=0.0) == 0


def test_a_writer_whose_temporary_was_removed_tries_again(tmp_path, monkeypatch):
    """A writer that slept for an hour is taken for dead, and loses nothing by it."""
    store, real, slept = FileStore(tmp_path), os.link, []

    def sleep_first(source, target):
        if not slept:
            slept.append(source)
            other = FileStore(tmp_path)
            assert other.remove_leftovers("a", before=source.stat().st_mtime + 3600) == 1
        real(source, target)

    monkeypatch.setattr(os, "link", sleep_first)
    assert store.put_if_absent("a/n", b"one") == b"one"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["n"]


def test_a_failed_put_leaves_nothing(tmp_path, monkeypatch):
    """On a full disk every attempt would otherwise take more room."""
    store = FileStore(tmp_path)
    store.put_if_absent("a/n", b"")

    def full(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space"):
                store.put_if_absent("a/m", b"1")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["n"]
