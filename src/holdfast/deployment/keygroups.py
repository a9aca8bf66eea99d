"""Which rows a shard owns, and a fingerprint of a set of rows that ignores their order.

A key group is pmod(Spark's murmur3 hash of the key columns, KEY_GROUPS); Spark computes it, this
module only reasons about groups. Two runs of one deterministic batch may emit the same rows in
another order, so a digest must not depend on order, yet must count multiplicity: the sum of row
hashes modulo 2^64 does both, and digests of parts add up to the digest of the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

DIGEST_MODULUS = 1 << 64


def combine_digests(parts: Iterable[int]) -> int:
    """Digest of the union (with multiplicity) of disjoint parts."""
    return sum(parts) % DIGEST_MODULUS


def split_range(groups: range, parts: int) -> Sequence[range]:
    """Divide a range of key groups into at most `parts` contiguous, non-empty ranges."""
    size = len(groups)
    parts = max(1, min(parts, size))
    limits = [groups.start + size * part // parts for part in range(parts + 1)]
    return [range(low, high) for low, high in itertools.pairwise(limits)]
