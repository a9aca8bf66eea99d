"""Cloning Spark's checkpoint directories."""

import json
import os

import pytest

from holdfast.errors import CorruptLogError
from holdfast.runtime.checkpoint.clone import (
    clone_checkpoint,
    generations,
    make_checkpoint,
    newest_generation,
    next_batch,
    tidy,
)
from holdfast.runtime.log.crash import Crash
from holdfast.storage.local import LocalStorage
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

SCHEMA = "state/0/_stateSchema/default/0_90af"


def checkpoint(path, *, home=None):
    """One with a transformWithState; it believes to live in `home`."""
    for name in ("metadata", "commits/3", "offsets/3", "state/0/0/3.changelog", SCHEMA):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
    folder = path / "state/0/_metadata/v2"
    folder.mkdir(parents=True)
    stores = [
        {"storeName": "default", "stateSchemaFilePaths": [f"file:{home or path}/{SCHEMA}"]},
        {"storeName": "old", "numPartitions": 1},
        {"storeName": "elsewhere", "stateSchemaFilePaths": ["file:/etc/hosts"]},
    ]
    (folder / "3").write_text("v2\n" + json.dumps({"stateStoreInfo": stores}))
    (folder / ".3.crc").write_text("the checksum of the above")
    return path


def clone(source, target):
    folder = LocalStorage(source.parent)
    clone_checkpoint(folder, int(source.name), int(target.name), unit="n.0#0", crash=Crash())
    return target


def stores(path):
    version, body = (path / "state/0/_metadata/v2/3").read_text().split("\n")
    assert version == "v2"
    return {store["storeName"]: store for store in json.loads(body)["stateStoreInfo"]}


def test_a_clone_shares_its_files(tmp_path):
    """They are links: cloning costs no space and does not depend on how large state is."""
    source = checkpoint(tmp_path / "000001")
    target = clone(source, tmp_path / "000002")
    for name in ("metadata", "commits/3", "offsets/3", "state/0/0/3.changelog", SCHEMA):
        assert (target / name).samefile(source / name)


@pytest.mark.parametrize("home", [None, "/somewhere/state/9/run/checkpoints/n.0#0/000001"])
def test_a_clone_does_not_need_what_it_was_cloned_from(tmp_path, home):
    """Schema files are named by path; each clone names its own, wherever the run was moved."""
    first = checkpoint(tmp_path / "n.0#0" / "000001", home=home)
    second = clone(first, tmp_path / "n.0#0" / "000002")
    third = clone(second, tmp_path / "n.0#0" / "000003")
    for path in (second, third):
        found = stores(path)
        assert found["default"]["stateSchemaFilePaths"] == [f"file:{path}/{SCHEMA}"]
        assert (path / SCHEMA).exists()
        assert found["old"] == {"storeName": "old", "numPartitions": 1}
        assert found["elsewhere"]["stateSchemaFilePaths"] == ["file:/etc/hosts"]
        # It would be the checksum of another text, and Spark would refuse the file.
        assert not (path / "state/0/_metadata/v2/.3.crc").exists()
    assert stores(first)["default"]["stateSchemaFilePaths"] == [f"file:{home or first}/{SCHEMA}"]


def test_torn_metadata_is_named(tmp_path):
    """And nothing is left of the clone."""
    source = checkpoint(tmp_path / "000001")
    torn = source / "state/0/_metadata/v2/3"
    torn.write_text("v2\n{")
    with pytest.raises(CorruptLogError, match="_metadata/v2/3"):
        clone(source, tmp_path / "000002")
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]


def killed_in_clone(source, folder, generation):
    """What it leaves are links that pin disk space."""
    path = folder / f".{generation:06d}-{generation:032x}.cloning"
    (path / "state/0/0").mkdir(parents=True)
    os.link(source / "state/0/0/3.changelog", path / "state/0/0/3.changelog")


def test_many_killed_generations_leave_nothing(tmp_path):
    """Neither their checkpoints nor their unfinished clones stay, so old state is not pinned."""
    newest = checkpoint(tmp_path / "000001")
    for generation in range(2, 31):
        if generation % 3:
            killed_in_clone(newest, tmp_path, generation)
            continue
        source = newest
        newest = clone(source, tmp_path / f"{generation:06d}")
        tidy(LocalStorage(tmp_path), generation=generation, keep_from=int(source.name) - 1)
        assert sorted(path.name for path in tmp_path.iterdir()) == [source.name, newest.name]
    later = tmp_path / f".{31:06d}-{0:032x}.cloning"
    later.mkdir()
    tidy(LocalStorage(tmp_path), generation=30, keep_from=30)
    assert sorted(path.name for path in tmp_path.iterdir()) == [later.name, "000030"]
    assert (newest / "state/0/0/3.changelog").stat().st_nlink == 1


def test_a_cloner_that_wakes_up_does_not_finish_what_was_removed(tmp_path, monkeypatch):
    """Half of a checkpoint must never pass for a whole one."""
    source = checkpoint(tmp_path / "000001")
    real, slept = os.link, []

    def sleep_in_the_middle(*arguments, **options):
        real(*arguments, **options)
        if not slept:
            slept.append(True)
            tidy(LocalStorage(tmp_path), generation=3, keep_from=0)

    monkeypatch.setattr(os, "link", sleep_in_the_middle)
    with pytest.raises(FileNotFoundError):
        clone(source, tmp_path / "000002")
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]


@pytest.mark.parametrize(
    ("commits", "offset", "batch"),
    [((), None, 0), ((4, 5), '{"offset":12}', 6), ((5,), "-", None), ((5,), None, None)],
)
def test_the_next_batch_is_read_from_what_was_committed(commits, offset, batch):
    """Without a commit it is the first; where Spark's files are torn, nobody knows."""
    store = MemoryStorage()
    for number in commits:
        store.replace(f"commits/{number}", b"")
    if offset is not None:
        store.replace("offsets/5", f"v1\n{{}}\n{offset}".encode())
    assert next_batch(store, rows=2) == batch
    assert next_batch(store.below("nowhere"), rows=2) == 0


@pytest.mark.parametrize("first", [0, 39])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_made_checkpoint_goes_on_with_its_batch(rows, first):
    """It is read back as one that has committed the batch before; nothing else is left."""
    store = MemoryStorage()
    make_checkpoint(store, 2, next_batch=first, rows=rows)
    assert next_batch(store.below("000002"), rows) == first
    assert generations(store) == [2]
    assert newest_generation(generations(store), 3) == 2
