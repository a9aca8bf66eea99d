"""Which keys and which state partitions a shard owns, so that state moves by whole partitions.

An operator that may have up to M shards (`max_shards`, a power of two dividing the key groups)
keeps its state in M partitions over all its shards: a row is in partition pmod(hash(key), M). A
shard owns a *block*: B of these partitions, B a power of two and the first a multiple of B. Within
the block Spark puts a row into its local partition pmod(hash(key), B), and as B divides M and the
block is aligned, local partition l is partition first + l of the operator, whatever the blocks are.
So a block splits into two halves, and halves merge, by giving whole partitions away.

The key group of a row is pmod(hash(key), KEY_GROUPS), so its partition is the group modulo M. To
let a block be a range of groups they are counted in another order, by their *rank*: first by that
remainder. With M = 1 and with M = KEY_GROUPS the rank is the group itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from holdfast.deployment import KEY_GROUPS
from holdfast.errors import BadInputError


def rank(group: int, max_shards: int) -> int:
    """Place of a key group in the order in which blocks are ranges."""
    return group % max_shards * (KEY_GROUPS // max_shards) + group // max_shards


@lru_cache(maxsize=256)
def groups_between(first: int, stop: int, max_shards: int) -> Collection[int]:
    """The key groups of a range of ranks."""
    if max_shards in (1, KEY_GROUPS):
        return range(first, stop)
    return frozenset(g for g in range(KEY_GROUPS) if first <= rank(g, max_shards) < stop)


def check_max_shards(number: int, where: str) -> int:
    """The same number, if state can be kept in so many partitions."""
    if number < 1 or KEY_GROUPS % number:
        raise BadInputError(
            f"max_shards is {number}",
            where=where,
            hint=f"a power of two up to {KEY_GROUPS}; 1 if it never scales",
        )
    return number


def shard_groups(shards: int, max_shards: int) -> tuple[tuple[int, int], ...]:
    """Ranks of the key groups of every shard, at the beginning: the first, and one past the last.

    Where the number of shards is never changed, they are as equal as can be.
    """
    if max_shards > 1:
        return tuple(block.groups for block in even_blocks(shards, max_shards))
    limits = [shard * KEY_GROUPS // shards for shard in range(shards + 1)]
    return tuple(itertools.pairwise(limits))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Block:
    """Neighbouring state partitions of an operator that one shard owns."""

    first: int
    """A multiple of `count`."""
    count: int
    """A power of two."""
    of: int
    """Partitions of the whole operator: its `max_shards`."""

    def __post_init__(self) -> None:
        aligned = self.count > 0 and not self.count & (self.count - 1)
        if not aligned or self.first % self.count or not 0 <= self.first < self.of:
            raise ValueError(f"partitions {self.first} + {self.count} of {self.of} are no block")

    @property
    def stop(self) -> int:
        """One past its last partition."""
        return self.first + self.count

    @property
    def groups(self) -> tuple[int, int]:
        """Ranks of its key groups: the first, and one past the last."""
        size = KEY_GROUPS // self.of
        return self.first * size, self.stop * size

    @property
    def halves(self) -> tuple[Block, Block]:
        """What it splits into; a block of one partition does not."""
        half = self.count // 2
        low = Block(first=self.first, count=half, of=self.of)
        return low, Block(first=self.first + half, count=half, of=self.of)

    @property
    def whole(self) -> Block:
        """The block of which it is one half."""
        count = 2 * self.count
        return Block(first=self.first - self.first % count, count=count, of=self.of)

    def holds(self, other: Block) -> bool:
        """Whether all of another's partitions are its own."""
        return self.first <= other.first and other.stop <= self.stop


def block_of(groups: tuple[int, int], max_shards: int) -> Block:
    """The block that a shard's ranks are; raises ValueError if they are none."""
    size = KEY_GROUPS // max_shards
    first, stop = groups
    if first % size or stop % size:
        raise ValueError(f"key groups {first} to {stop} are no block of {max_shards} partitions")
    return Block(first=first // size, count=(stop - first) // size, of=max_shards)


def reshape(
    blocks: Iterable[Block], shards: int, load: Callable[[Block], float] | None = None
) -> tuple[Block, ...]:
    """The blocks of so many shards, made of given ones by halving and merging as few as will do.

    The block with the largest load is halved, the two halves with the smallest are merged; without
    `load`, by the number of partitions. O(shards^2).
    """
    shape = sorted(blocks)
    weigh = load or _partitions
    if not 1 <= shards <= shape[0].of:
        raise ValueError(f"{shards} shards of {shape[0].of} partitions")
    while len(shape) < shards:
        heaviest = max((one for one in shape if one.count > 1), key=lambda b: (weigh(b), -b.first))
        shape.remove(heaviest)
        shape += heaviest.halves
    while len(shape) > shards:
        shape.sort(key=attrgetter("first"))
        pairs = [
            (low, high)
            for low, high in itertools.pairwise(shape)
            if low.count == high.count == high.first - low.first and not low.first % (2 * low.count)
        ]
        low, high = min(pairs, key=lambda pair: (weigh(pair[0]) + weigh(pair[1]), pair[0].first))
        shape.remove(low)
        shape.remove(high)
        shape.append(low.whole)
    return tuple(sorted(shape))


def even_blocks(shards: int, max_shards: int) -> tuple[Block, ...]:
    """The blocks of so many shards, as equal as they can be."""
    return reshape([Block(first=0, count=max_shards, of=max_shards)], shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Shards that hand over to others what they own, and nothing else."""

    parents: tuple[Block, ...]
    children: tuple[Block, ...]


def moves(before: Sequence[Block], after: Sequence[Block]) -> tuple[Move, ...]:
    """What changes hands from one shape to another, in parts that do not depend on each other.

    Aligned blocks either hold one another or have nothing in common, so each part is one block that
    is split or merged.
    """
    old, new = set(before), set(after)
    gone, born = sorted(old - new), sorted(new - old)
    found = [
        Move(parents=(parent,), children=tuple(child for child in born if parent.holds(child)))
        for parent in gone
        if any(parent.holds(child) for child in born)
    ]
    found += [
        Move(parents=tuple(parent for parent in gone if child.holds(parent)), children=(child,))
        for child in born
        if any(child.holds(parent) for parent in gone)
    ]
    return tuple(sorted(found, key=lambda move: min(move.parents)))


def _partitions(block: Block) -> float:
    return block.count
