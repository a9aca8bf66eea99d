"""Which files a batch takes: each once, in order, within limits, whoever takes over when."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.deployment.blocks import Block
from holdfast.errors import BadInputError
from holdfast.pipeline import Files
from holdfast.runtime.units import files as module
from holdfast.runtime.units.files import SNAPSHOT_EVERY, FileRows
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.codec import decode, encode
from holdfast.streams.records import Range

pytestmark = pytest.mark.unit


class Reader:
    """One generation of a source unit over a directory, without Spark."""

    def __init__(self, folder, store, *, ranges=None, **options):
        self.clock = 10**19
        self.ranges = {} if ranges is None else ranges
        self.rows = FileRows(
            Files(str(folder), format="text", **options.pop("source", {})),
            unit="in.0#0",
            store=store,
            read=lambda paths: [Path(path).name for path in paths],
            clock_ns=lambda: self.clock,
            **options,
        )
        self.rows.begin()

    def propose(self, epochs=1):
        """A range for the next batch, put unless somebody was faster."""
        number = len(self.ranges)
        after = self.ranges[number - 1].upto if number else -1
        upto = after + epochs
        source = self.rows.claim(after, upto)
        record = Range(unit="in.0#0", number=number, after=after, upto=upto, source=source)
        # As it is after a way through a record.
        return decode(encode(record), path="in.0#0")

    def read(self, record):
        epochs = range(record.after + 1, record.upto + 1)
        return [name for epoch in epochs for name in self.rows.table(record, epoch)]

    def batch(self, epochs=1):
        record = self.propose(epochs)
        self.ranges[record.number] = record
        return self.read(record)


def put(folder, name, at=None, size=1):
    path = folder / name
    path.write_text("x" * size)
    if at is not None:
        os.utime(path, (at, at))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "in"
    path.mkdir()
    return path


def test_files_are_taken_once_in_order_of_time_and_name(folder):
    """Hidden and unfinished ones are left alone."""
    for name, at in (("b", 5), ("a", 9), ("c", 5), (".hidden", 1), ("_SUCCESS", 1), ("d.tmp", 1)):
        put(folder, name, at)
    (folder / "inner").mkdir()
    reader = Reader(folder, MemoryStorage())
    assert reader.batch() == ["b", "c", "a"]
    assert reader.batch() == []
    put(folder, "d", 1)
    assert reader.batch() == ["d"]


def test_a_claim_is_bounded_by_files_and_bytes(folder, monkeypatch):
    """A large file goes alone; the rest waits for the next batch."""
    monkeypatch.setattr(module, "MAX_CLAIM_FILES", 3)
    monkeypatch.setattr(module, "MAX_CLAIM_BYTES", 10)
    for index, size in enumerate((50, 4, 4, 4, 1, 1, 1, 1)):
        put(folder, f"f{index}", index, size)
    reader = Reader(folder, MemoryStorage())
    taken = [reader.batch() for _ in range(5)]
    assert taken == [["f0"], ["f1", "f2"], ["f3", "f4", "f5"], ["f6", "f7"], []]


def test_compressed_files_count_for_what_they_become(folder, monkeypatch):
    """Parquet fills a batch four times as fast as text."""
    monkeypatch.setattr(module, "MAX_CLAIM_BYTES", 10)
    for index in range(4):
        put(folder, f"f{index}", index, 2)
    source = Files(str(folder), format="parquet", schema="n bigint")
    rows = FileRows(source, unit="in.0#0", store=MemoryStorage(), read=list)
    assert len(rows.claim(-1, 0)["files"]) == 1
    assert len(Reader(folder, MemoryStorage()).batch()) == 4


def test_files_per_epoch_spreads_a_claim_over_its_epochs(folder):
    """No epoch gets more than its share."""
    for index in range(5):
        put(folder, f"f{index}", index)
    reader = Reader(folder, MemoryStorage(), source={"files_per_epoch": 1})
    record = reader.propose(epochs=3)
    assert [epoch for epoch, _ in record.source["files"]] == [0, 1, 2]


def test_an_unchanged_directory_is_not_read_again(folder, monkeypatch):
    """Unless it changed so shortly before that a second change may bear the same time."""
    reads = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: reads.append(path) or scandir(path))
    put(folder, "a")
    reader = Reader(folder, MemoryStorage())
    assert reader.batch() == ["a"]
    assert reader.batch() == []
    assert len(reads) == 1
    put(folder, "b")
    os.utime(folder, (5, 5))
    reader.clock = 5 * 10**9 + 1000  # as if it had just changed
    assert reader.batch() == ["b"]
    assert reader.batch() == []
    assert len(reads) == 3


def test_a_lost_claim_is_claimed_again(folder):
    """What another generation's range does not take still waits."""
    store, ranges = MemoryStorage(), {}
    put(folder, "a", 1)
    old, new = Reader(folder, store, ranges=ranges), Reader(folder, store, ranges=ranges)
    mine = old.propose()
    put(folder, "b", 0)
    assert new.batch() == ["b", "a"]
    assert [Path(path).name for _, path in mine.source["files"]] == ["a"]
    assert old.read(ranges[0]) == ["b", "a"]
    assert old.batch() == []


def test_a_file_removed_before_it_was_taken_is_no_input(folder):
    """It is not claimed, and does not keep others from being."""
    put(folder, "a", 1)
    put(folder, "b", 2)
    reader = Reader(folder, MemoryStorage())
    reader.propose()
    (folder / "a").unlink()
    assert reader.batch() == ["b"]


def test_a_file_removed_after_it_was_taken_is_asked_for(folder):
    """A range once recorded is never read otherwise."""
    put(folder, "a", 1)
    reader = Reader(folder, MemoryStorage())
    record = reader.propose()
    (folder / "a").unlink()
    with pytest.raises(BadInputError, match="a: is gone before it was read; put it back"):
        reader.read(record)
    put(folder, "a", 1)
    assert reader.read(record) == ["a"]


def test_records_grow_with_the_files_that_are_there(folder):
    """Thousands of files that come and go leave two small folders of records."""
    store = MemoryStorage()
    reader = Reader(folder, store)
    put(folder, "stays", 0)
    for index in range(3 * SNAPSHOT_EVERY):
        put(folder, f"f{index:05d}")
        assert len(reader.batch()) == (2 if index == 0 else 1)
        (folder / f"f{index:05d}").unlink()
        assert len(store.names("units/in.0#0/files")) <= SNAPSHOT_EVERY
        assert len(store.names("units/in.0#0/taken")) <= 1
    (snapshot,) = store.names("units/in.0#0/taken")
    assert len(json.loads(store.get(f"units/in.0#0/taken/{snapshot}"))) <= 2
    assert Reader(folder, store, ranges=reader.ranges).batch() == []


@pytest.mark.parametrize("folder_read", ["taken", "files"])
@pytest.mark.parametrize("operation", ["names", "get"])
def test_names_that_move_while_a_takeover_reads_them_are_found(
    folder, monkeypatch, operation, folder_read
):
    """A generation that lives on may put a snapshot, and remove what it covers, at any moment."""
    monkeypatch.setattr(module, "SNAPSHOT_EVERY", 3)
    store = MemoryStorage()
    old = Reader(folder, store)
    for index in range(5):  # a snapshot of three, and two names behind it
        put(folder, f"f{index}")
        old.batch()
    put(folder, "f5")
    real = getattr(MemoryStorage, operation)

    def overtaken(self, name):
        found = real(self, name)
        if name.startswith(f"units/in.0#0/{folder_read}") and len(old.ranges) == 5:
            old.batch()  # the next snapshot
            if operation == "get":
                return real(self, name)
        return found

    monkeypatch.setattr(MemoryStorage, operation, overtaken)
    new = Reader(folder, store, ranges=old.ranges)
    assert len(old.ranges) == 6
    assert new.batch() == []


def test_a_missing_directory_is_one_line_with_its_full_path(tmp_path, monkeypatch):
    """Relative paths are taken from where the node works."""
    monkeypatch.chdir(tmp_path)
    reader = Reader(Path("nowhere"), MemoryStorage())
    with pytest.raises(BadInputError) as found:
        reader.propose()
    assert str(found.value).startswith(f"{tmp_path}/nowhere: no such directory; a relative path")


def test_shards_share_the_files_out(folder):
    """Every file belongs to exactly one shard."""
    for index in range(40):
        put(folder, f"f{index}")
    found = [
        Reader(folder, MemoryStorage(), block=Block(first=shard, count=1, of=3)).batch()
        for shard in range(3)
    ]
    assert sorted(name for part in found for name in part) == sorted(os.listdir(folder))  # noqa: PTH208
    assert all(found)


class Takeovers(RuleBasedStateMachine):
    """Files come and go, generations overlap and die between any two steps."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.store, self.ranges = MemoryStorage(), {}
        self.made, self.taken = set(), []
        self.readers = []
        self.take_over()
        self.patience = pytest.MonkeyPatch()
        self.patience.setattr(module, "SNAPSHOT_EVERY", 3)
        self.patience.setattr(module, "MAX_CLAIM_FILES", 2)

    @rule()
    def arrive(self):
        name = f"f{len(self.made)}"
        put(self.folder, name)
        self.made.add(name)

    @rule(which=st.integers(0, 1))
    def batch(self, which):
        """A unit follows the ranges one by one, and decides the next where there is none."""
        reader = self.readers[which % len(self.readers)]
        record = self.ranges.get(reader.at) or self.decide(reader)
        reader.read(record)
        reader.at = record.number + 1

    @rule()
    def crash_after_the_range_record(self):
        reader = self.readers.pop()
        if reader.at not in self.ranges:
            self.decide(reader)
        self.take_over()

    def decide(self, reader):
        record = reader.propose()
        self.ranges[record.number] = record
        self.taken += [Path(path).name for _, path in record.source["files"]]
        return record

    @rule()
    def take_over(self):
        """A new generation redoes the newest batch; one older generation may live on."""
        new = Reader(self.folder, self.store, ranges=self.ranges)
        if self.ranges:
            new.read(self.ranges[max(self.ranges)])
        new.at = len(self.ranges)
        self.readers = [*self.readers, new][-2:]

    @rule(data=st.data())
    def clean_up(self, data):
        """Someone removes a file that was taken."""
        last = self.ranges[max(self.ranges)].source["files"] if self.ranges else []
        # Those that lag behind are still to read what comes after where they are.
        behind = min(reader.at for reader in self.readers)
        busy = {
            Path(path).name
            for number, record in self.ranges.items()
            if number >= behind
            for _, path in record.source["files"]
        } | {Path(path).name for _, path in last}
        done = [name for name in self.taken if name not in busy and (self.folder / name).exists()]
        if done:
            (self.folder / data.draw(st.sampled_from(done))).unlink()

    @invariant()
    def nothing_is_taken_twice(self):
        assert len(self.taken) == len(set(self.taken))

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        for _ in range(len(self.made) + len(self.ranges) + 1):
            self.batch(0)
        assert set(self.taken) == self.made
        self.patience.undo()
        shutil.rmtree(self.folder)


TestTakeovers = Takeovers.TestCase
TestTakeovers.settings = settings(stateful_step_count=30)
