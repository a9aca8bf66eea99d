"""Blocks of state partitions: who owns which keys, and how shapes become others."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment import KEY_GROUPS
from holdfast.deployment.blocks import (
    Block,
    block_of,
    check_max_shards,
    even_blocks,
    groups_between,
    moves,
    rank,
    reshape,
)
from holdfast.errors import BadInputError

pytestmark = pytest.mark.unit

MOST = [1, 2, 4, 8, 16, 32, 64, 128]


def covers(blocks, most):
    """Whether blocks are disjoint and leave nothing out."""
    owned = [n for block in blocks for n in range(block.first, block.stop)]
    return sorted(owned) == list(range(most))


@pytest.mark.parametrize("most", MOST)
def test_ranks_are_an_order_of_all_groups(most):
    """Every group has one rank; with 1 and with all partitions it is the group itself."""
    assert sorted(rank(g, most) for g in range(KEY_GROUPS)) == list(range(KEY_GROUPS))
    if most in (1, KEY_GROUPS):
        assert [rank(g, most) for g in range(KEY_GROUPS)] == list(range(KEY_GROUPS))


@given(
    hashed=st.integers(-(2**31), 2**31 - 1),
    most=st.sampled_from(MOST),
    shards=st.integers(1, KEY_GROUPS),
)
def test_a_row_is_in_the_local_partition_that_its_owner_gives_away(hashed, most, shards):
    """Spark's partition within the block is the operator's partition, whatever the blocks are."""
    blocks = even_blocks(min(shards, most), most)
    group = hashed % KEY_GROUPS
    (owner,) = [block for block in blocks if block.groups[0] <= rank(group, most) < block.groups[1]]
    assert group in groups_between(*owner.groups, most)
    assert owner.first + hashed % owner.count == hashed % most


@given(
    most=st.sampled_from(MOST),
    wanted=st.lists(st.integers(1, KEY_GROUPS), min_size=1, max_size=6),
    loads=st.lists(st.floats(0, 1e6), min_size=KEY_GROUPS, max_size=KEY_GROUPS),
)
def test_shapes_follow_each_other_and_lose_nothing(most, wanted, loads):
    """Any sequence of shard counts is reached, and each move hands over just what changes."""
    shape = even_blocks(1, most)
    for shards in wanted:
        after = reshape(shape, min(shards, most), lambda b: sum(loads[b.first : b.stop]))
        assert len(after) == min(shards, most)
        assert covers(after, most)
        found = moves(shape, after)
        for move in found:
            mine = {n for block in move.parents for n in range(block.first, block.stop)}
            assert mine == {n for block in move.children for n in range(block.first, block.stop)}
            assert len(move.parents) == 1 or len(move.children) == 1
        kept = set(shape) - {block for move in found for block in move.parents}
        assert kept | {block for move in found for block in move.children} == set(after)
        shape = after


def test_only_the_hot_block_is_split():
    """The others keep what they have."""
    before = even_blocks(2, 8)
    after = reshape(before, 3, lambda block: 10.0 if block.first == 4 else 1.0)
    assert [(block.first, block.count) for block in after] == [(0, 4), (4, 2), (6, 2)]
    (move,) = moves(before, after)
    assert move.parents == (before[1],)


def test_the_coldest_halves_are_merged():
    """And only blocks that are halves of one."""
    before = even_blocks(4, 4)
    after = reshape(before, 3, lambda block: [1.0, 9.0, 2.0, 3.0][block.first])
    assert [(block.first, block.count) for block in after] == [(0, 1), (1, 1), (2, 2)]


def test_a_block_is_found_by_its_ranks():
    """A child's record names ranks; other ranges are none of a block."""
    for block in itertools.chain(even_blocks(5, 8), even_blocks(128, 128)):
        assert block_of(block.groups, block.of) == block
    with pytest.raises(ValueError, match="no block"):
        block_of((0, 42), 8)
    with pytest.raises(ValueError, match="no block"):
        Block(first=2, count=4, of=8)


@pytest.mark.parametrize("number", [0, 3, 256, -1])
def test_state_is_kept_in_a_power_of_two(number):
    """Anything else could not be halved down to single partitions."""
    with pytest.raises(BadInputError, match="max_shards"):
        check_max_shards(number, "count")
