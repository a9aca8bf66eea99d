"""Slice files: readers take their groups, and damage is named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.deployment.slicefiles import rows_in
from holdfast.errors import CorruptLogError
from holdfast.runtime.log.hashing import key_groups, murmur3, row_hashes
from holdfast.runtime.log.slices import read_slice, write_slice_file
from holdfast.storage.local import LocalStorage
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit


def write(folder, groups):
    rows = pa.table({"value": list(range(len(groups))), "text": [f"r{i}" for i in groups]})
    file = write_slice_file(
        LocalStorage(folder), "f.arrow", rows, np.array(groups, np.int64), np.arange(len(groups))
    )
    return (file,)


def values(folder, record, groups):
    found = read_slice(LocalStorage(folder), record, groups)
    return [value for batch in found for value in batch["value"].to_pylist()]


@settings(deadline=None)
@given(st.lists(st.integers(0, 127), min_size=1, max_size=60), st.integers(0, 128))
def test_two_readers_share_the_rows(tmp_path_factory, groups, cut):
    """Readers of complementary groups get every row once, in the order of the groups."""
    folder = tmp_path_factory.mktemp("slices")
    record = write(folder, groups)
    low, high = values(folder, record, range(cut)), values(folder, record, range(cut, 128))
    assert sorted(low + high) == list(range(len(groups)))
    assert all(groups[v] < cut for v in low)
    assert [groups[v] for v in low + high] == sorted(groups)
    assert rows_in(record) == len(groups)


def test_any_arrow_reader_can_open_a_slice(tmp_path):
    """A slice file is a plain Arrow IPC stream."""
    write(tmp_path, [3, 1, 3])
    table = pa.ipc.open_stream(tmp_path / "f.arrow").read_all()
    assert table["value"].to_pylist() == [1, 0, 2]


def test_every_altered_byte_of_a_part_is_found(tmp_path):
    """Flipping any byte of the schema or of a group that is read raises and names the file."""
    record = write(tmp_path, [0, 1, 0])
    path = tmp_path / "f.arrow"
    whole = path.read_bytes()
    end = max(part.offset + part.size for part in record[0].parts)
    for position in range(0, end, 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x40]) + whole[position + 1 :])
        with pytest.raises(CorruptLogError) as error:
            values(tmp_path, record, range(128))
        assert error.value.path == str(path)


@pytest.mark.parametrize("keep", [0, 10, 400])
def test_a_torn_file_is_named(tmp_path, keep):
    """A file that lost its end is refused, not read in part."""
    record = write(tmp_path, [0] * 100)
    path = tmp_path / "f.arrow"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptLogError, match=r"f\.arrow: slice file is (torn|missing)"):
        values(tmp_path, record, range(128))


def test_a_missing_file_is_named(tmp_path):
    """A record whose file is gone is an error, never an empty slice."""
    record = write(tmp_path, [0])
    (tmp_path / "f.arrow").unlink()
    with pytest.raises(CorruptLogError, match=r"f\.arrow"):
        values(tmp_path, record, range(128))


def test_digests_do_not_depend_on_the_order_of_rows():
    """The same rows shuffled give the same digest per group."""
    order = np.array([2, 0, 3, 1])
    rows = pa.table({"v": [10, 11, 12, 13]})
    groups, hashes = np.array([5, 6, 5, 6]), row_hashes(rows)
    store = MemoryStorage()
    one = write_slice_file(store, "a", rows, groups, hashes)
    two = write_slice_file(store, "b", rows.take(order), groups[order], hashes[order])
    assert [(p.group, p.digest) for p in one.parts] == [(p.group, p.digest) for p in two.parts]


def test_rows_without_a_key_are_in_group_zero():
    """No key, one group."""
    assert key_groups(pa.table({"v": [1, 2]}), ()).tolist() == [0, 0]


def test_a_null_leaves_the_hash_as_it_was():
    """Spark skips nulls, so a null first column changes nothing."""
    number = pa.array([7, 7], pa.int64())
    both = murmur3([pa.array([None, "x"]), number], 42)
    alone = murmur3([number], 42)
    assert both[0] == alone[0]
    assert both[1] != alone[1]
