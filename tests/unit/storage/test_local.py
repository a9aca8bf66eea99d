"""A directory as storage: links, temporary files, and what is on disk when."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.storage import local
from holdfast.storage.interface import Cloning
from holdfast.storage.local import LocalStorage

pytestmark = pytest.mark.unit


def test_files_leave_no_temporaries(tmp_path):
    """Neither winning nor losing leaves a temporary file behind."""
    store = LocalStorage(tmp_path)
    store.put_if_absent("a/n", b"1")
    store.put_if_absent("a/n", b"2")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["n"]


@pytest.fixture
def synced(monkeypatch):
    """The folders that were synced, in order."""
    found = []
    real = local.sync_folder

    def sync(folder):
        found.append(Path(folder))
        real(folder)

    monkeypatch.setattr(local, "sync_folder", sync)
    return found


class KilledError(BaseException):
    """Stands for SIGKILL."""


def die_in_put(monkeypatch, root, name, data):
    """A writer that links its record and is killed before the folder is on disk."""

    def die(folder):
        raise KilledError

    store = LocalStorage(root)
    store.put_if_absent(f"{name}-before", b"so that the folder is there")
    with monkeypatch.context() as patch:
        patch.setattr(local, "sync_folder", die)
        with pytest.raises(KilledError):
            store.put_if_absent(name, data)


@pytest.mark.parametrize("adopt", ["put", "get"])
def test_what_a_dead_writer_left_is_made_durable_by_whoever_adopts_it(
    tmp_path, monkeypatch, synced, adopt
):
    """What follows from a record must not outlive it in a power cut."""
    die_in_put(monkeypatch, tmp_path, "a/n", b"one")
    synced.clear()
    other = LocalStorage(tmp_path)
    found = other.put_if_absent("a/n", b"two") if adopt == "put" else other.get("a/n")
    assert found == b"one"
    assert synced == [tmp_path / "a"]


def test_reading_what_is_durable_syncs_nothing(tmp_path, synced):
    """The common path pays nothing: neither for records found nor for losing a put."""
    LocalStorage(tmp_path).put_if_absent("a/n", b"one")
    synced.clear()
    store = LocalStorage(tmp_path)
    assert store.get("a/n") == store.put_if_absent("a/n", b"two") == b"one"
    assert synced == []


def test_a_folder_of_a_dead_maker_is_made_durable(tmp_path, synced):
    """A folder that is there without a record may vanish, and its first record with it."""
    LocalStorage(tmp_path).put_if_absent("a/t0-0000000000", b"")
    (tmp_path / "a" / "b").mkdir()
    synced.clear()
    LocalStorage(tmp_path).put_if_absent("a/b/t0-0000000000", b"")
    assert synced == [tmp_path / "a", tmp_path / "a" / "b"]
    synced.clear()
    LocalStorage(tmp_path).put_if_absent("a/b/t0-0000000001", b"")
    assert synced == [tmp_path / "a" / "b"]


def test_leftovers_of_dead_writers_are_removed(tmp_path, monkeypatch, synced):
    """Those of long ago only; and the record that one of them is a link of is durable first."""
    die_in_put(monkeypatch, tmp_path, "a/n", b"one")
    (tmp_path / "a" / ".notes.tmp").touch()
    store = LocalStorage(tmp_path)
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
    store, real, slept = LocalStorage(tmp_path), os.link, []

    def sleep_first(source, target):
        if not slept:
            slept.append(source)
            other = LocalStorage(tmp_path)
            assert other.remove_leftovers("a", before=Path(source).stat().st_mtime + 3600) == 1
        real(source, target)

    monkeypatch.setattr(os, "link", sleep_first)
    assert store.put_if_absent("a/n", b"one") == b"one"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["n"]


def test_a_failed_put_leaves_nothing(tmp_path, monkeypatch):
    """On a full disk every attempt would otherwise take more room."""
    store = LocalStorage(tmp_path)
    store.put_if_absent("a/n", b"")

    def full(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space"):
                store.put_if_absent("a/m", b"1")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["n"]


def test_data_are_there_for_good_once_their_folder_was_synced(tmp_path, synced):
    """With the folders it lies in, which only the first sync has to see to."""
    store = LocalStorage(tmp_path)
    folder = store.below("log/a")
    folder.put_data("1.arrow", [b"1"])
    assert synced == []
    folder.sync("")
    places = [tmp_path.parent, tmp_path, tmp_path / "log", tmp_path / "log" / "a"]
    assert synced == places
    store.below("log/a").sync("")
    assert synced == [*places, places[-1]]


def test_a_file_that_is_replaced_is_whole_and_durable(tmp_path, monkeypatch, synced):
    """Its content first, then its name; a writer that fails leaves what was there."""
    store = LocalStorage(tmp_path)
    store.replace("run.json", b"old")
    assert synced == [tmp_path]

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            store.replace("run.json", b"new")
    assert store.read("run.json") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_linked_file_of_a_checkpoint_is_read_without_a_sync(tmp_path, synced):
    """A clone shares its files with the original for good: two links say nothing about them."""
    store = LocalStorage(tmp_path)
    store.put_data("1/offsets/0", [b"v1"])
    store.clone("1", "2", Cloning())
    assert (tmp_path / "2" / "offsets" / "0").stat().st_nlink == 2
    synced.clear()
    assert store.read("2/offsets/0") == b"v1"
    assert synced == []


def test_a_killed_process_holds_nothing(tmp_path):
    """Its end is seen at once, though it had no chance to let go."""
    script = (
        "import sys, time; from holdfast.storage.local import LocalStorage; "
        "kept = LocalStorage(sys.argv[1]).hold('alive/w'); "
        "print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    store = LocalStorage(tmp_path)
    assert store.is_held("alive/w")
    child.kill()
    child.wait()
    assert not store.is_held("alive/w")
    assert store.names("alive") == []


def test_without_locks_everyone_may_be_alive(tmp_path, monkeypatch):
    """On a file system that has none, nobody is taken for dead."""

    def refuse(*_):
        raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr(local.fcntl, "flock", refuse)
    store = LocalStorage(tmp_path)
    let_go = store.hold("alive/w")
    assert store.is_held("alive/w")
    let_go()
    assert not store.is_held("alive/w")


def test_who_looks_for_the_dead_takes_nobody_for_one(tmp_path):
    """Whoever begins to hold a name while others look at it is held for alive ever after."""
    stores = [LocalStorage(tmp_path) for _ in range(2)]
    stop = threading.Event()

    def look():
        while not stop.is_set():
            stores[1].is_held("alive/w")

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(300):
            let_go = stores[0].hold("alive/w")
            assert stores[0].is_held("alive/w")
            assert stores[0].names("alive") == ["w"]
            let_go()
    finally:
        stop.set()
        looking.join()
