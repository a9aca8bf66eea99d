"""Digests tell content from form, and key groups are divided cleanly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment import KEY_GROUPS, key_group_range
from holdfast.deployment.keygroups import combine_digests, split_range
from holdfast.deployment.slicefiles import GroupPart, SliceFile, bytes_in, content_digest, rows_in

pytestmark = pytest.mark.unit


def part(group: int, digest: int) -> GroupPart:
    return GroupPart(group=group, rows=1, offset=0, size=1, crc=0, digest=digest)


def file_of(*groups: tuple[int, int]) -> SliceFile:
    return SliceFile(
        name="f", schema_size=1, schema_crc=1, parts=tuple(part(*item) for item in groups)
    )


def digest(*files: SliceFile, boundary: str = "b") -> str:
    return content_digest({boundary: files})


def test_the_same_rows_in_other_files_are_the_same_content():
    """How rows are spread over files does not matter; how many there are does."""
    one = file_of((1, 10), (1, 5), (2, 7))
    assert digest(one) == digest(file_of((2, 7), (1, 3)), file_of((1, 12)))
    assert digest(one) != digest(file_of((2, 7), (1, 15)))  # three rows against two
    assert (rows_in([one]), bytes_in([one])) == (3, 3)


@pytest.mark.parametrize("other", [((1, 10), (1, 6), (2, 7)), ((1, 10), (2, 5), (2, 7))])
def test_other_rows_or_groups_are_other_content(other):
    """A changed row or group is told apart, and so is another boundary."""
    one = file_of((1, 10), (1, 5), (2, 7))
    assert digest(one) != digest(file_of(*other))
    assert digest(one) != digest(one, boundary="c")


def test_no_rows_have_no_digest():
    """Whether boundaries are named or not."""
    assert content_digest({}) == content_digest({"b": ()}) == ""


@given(st.lists(st.integers(0, 2**64 - 1)), st.randoms(use_true_random=False))
def test_digests_ignore_order_but_not_multiplicity(hashes, random):
    """A digest is the same in any order, and differs when a row is doubled."""
    shuffled = list(hashes)
    random.shuffle(shuffled)
    assert combine_digests(hashes) == combine_digests(shuffled)
    for item in hashes[:1]:
        assert (combine_digests([*hashes, item]) == combine_digests(hashes)) == (item == 0)


@given(st.integers(1, 128))
def test_every_key_group_has_one_shard(shards):
    """Shards partition the key groups, in order."""
    owned = [key_group_range(shard, shards) for shard in range(shards)]
    assert [group for groups in owned for group in groups] == list(range(KEY_GROUPS))
    assert all(len(groups) for groups in owned)


@given(st.integers(0, 127), st.integers(1, 128), st.integers(1, 20))
def test_a_split_range_is_covered_once(start, size, parts_count):
    """Parts are disjoint, in order, non-empty and cover the range."""
    whole = range(start, start + size)
    found = split_range(whole, parts_count)
    assert [group for item in found for group in item] == list(whole)
    assert all(len(item) for item in found)
