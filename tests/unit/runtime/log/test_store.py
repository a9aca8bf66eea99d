"""One suite for every back end of the record store."""

from __future__ import annotations

import threading

import pytest

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
