"""Records: the codec detects damage, and digests tell content from form."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment import KEY_GROUPS, key_group_range
from holdfast.deployment.keygroups import combine_digests, split_range
from holdfast.deployment.records import (
    GroupPart,
    RangeRecord,
    SkipRecord,
    SliceFile,
    SliceRecord,
    decode,
    encode,
    parse_record_name,
    record_name,
)
from holdfast.errors import CorruptLogError

pytestmark = pytest.mark.unit

numbers = st.integers(0, 2**63 - 1)
inputs = st.dictionaries(st.text(min_size=1, max_size=8), st.tuples(numbers, numbers), max_size=3)
ranges = st.builds(
    RangeRecord,
    unit=st.text(),
    number=numbers,
    after=st.integers(-1, 100),
    upto=numbers,
    inputs=inputs,
    watermark_us=st.none() | st.integers(-(2**60), 2**60),
    source=st.none() | st.dictionaries(st.text(), st.lists(st.text()), max_size=2),
    writer=st.text(max_size=8),
)
parts = st.builds(
    GroupPart,
    group=st.integers(0, 127),
    rows=numbers,
    offset=numbers,
    size=numbers,
    crc=st.integers(0, 2**32 - 1),
    digest=st.integers(0, 2**64 - 1),
)
files = st.builds(
    SliceFile,
    name=st.text(),
    schema_size=numbers,
    schema_crc=numbers,
    parts=st.lists(parts, max_size=4).map(tuple),
)
slices = st.builds(
    SliceRecord,
    boundary=st.text(),
    shard=st.integers(0, 127),
    number=numbers,
    after=numbers,
    upto=numbers,
    inputs=inputs,
    files=st.lists(files, max_size=3).map(tuple),
    missing=st.lists(st.text(), max_size=2).map(tuple),
    skip=st.integers(0, 8),
)
skips = st.builds(
    SkipRecord,
    unit=st.text(),
    number=numbers,
    version=st.integers(1, 8),
    rows=inputs,
    reason=st.text(),
)


@given(ranges | slices | skips)
def test_every_record_survives_its_codec(record):
    """Decoding what was encoded gives an equal record."""
    assert decode(type(record), encode(record), path="x") == record


@given(ranges, st.data())
def test_any_changed_or_missing_byte_is_detected(record, data):
    """A record with one byte changed or its end torn off is refused, by name."""
    stored = encode(record)
    position = data.draw(st.integers(0, len(stored) - 1))
    torn = stored[:position]
    altered = bytearray(stored)
    altered[position] ^= data.draw(st.integers(1, 255))
    for bad in (torn, bytes(altered)):
        try:
            found = decode(RangeRecord, bad, path="ranges/t0-5")
        except CorruptLogError as error:
            assert error.path == "ranges/t0-5"  # noqa: PT017 - both outcomes are legal
        else:
            # Only the case of a hexadecimal digit may change without meaning anything.
            assert found == record


def test_a_record_of_another_kind_is_refused():
    """A slice record where a range record should be is named as such."""
    record = SkipRecord(unit="u", number=1)
    with pytest.raises(CorruptLogError, match="is a skip record, not a range record"):
        decode(RangeRecord, encode(record), path="p")


@given(numbers, st.integers(0, 9))
def test_names_are_parsed_back(number, timeline):
    """A record's name holds its timeline and number."""
    assert parse_record_name(record_name(number, timeline)) == (timeline, number)


def part(group: int, digest: int) -> GroupPart:
    return GroupPart(group=group, rows=1, offset=0, size=1, crc=0, digest=digest)


def record_of(*groups: tuple[int, int]) -> SliceRecord:
    file = SliceFile(
        name="f", schema_size=1, schema_crc=1, parts=tuple(part(*item) for item in groups)
    )
    return SliceRecord(boundary="b", shard=0, number=3, after=1, upto=2, files=(file,))


def test_the_same_rows_in_other_files_are_the_same_content():
    """How rows are spread over files and which generation wrote them does not matter."""
    one = record_of((1, 10), (1, 5), (2, 7))
    two = replace(record_of((2, 7), (1, 15)), generation=9)
    assert not one.same_content(two)  # three rows against two
    assert one.same_content(replace(record_of((1, 3), (1, 12), (2, 7)), generation=9))


@pytest.mark.parametrize(
    "other",
    [
        record_of((1, 10), (1, 6), (2, 7)),
        record_of((1, 10), (2, 5), (2, 7)),
        replace(record_of((1, 10), (1, 5), (2, 7)), upto=5),
        replace(record_of((1, 10), (1, 5), (2, 7)), inputs={"a": (1,)}),
    ],
)
def test_other_rows_groups_or_ranges_are_other_content(other):
    """A changed row, group, epoch or input is told apart."""
    assert not record_of((1, 10), (1, 5), (2, 7)).same_content(other)


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
