"""The slices a unit has yet to read: each record is read once, and no further than asked for.

A unit that waits looks again and again, one that is far behind has thousands of records before it.
So what was read is kept until it is in a range, found by its number, and dropped from the front.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.deployment.records import RangeRecord, SliceRecord
from holdfast.rundir.layout import member
from holdfast.runtime.log.protocol import Unread
from holdfast.runtime.log.slicelog import SliceLog


class Backlog:
    """What is published and in no range yet, for all inputs of one unit."""

    def __init__(self, log: SliceLog, shards: Mapping[str, int]) -> None:
        """`shards` says for every boundary how many shards publish it."""
        self._log = log
        self._shards = {
            name: [_Shard(log, name, index) for index in range(count)]
            for name, count in shards.items()
        }

    def after(self, previous: RangeRecord | None) -> Unread:
        """The slices after a range; they are read while they are iterated over."""
        for name, shards in self._shards.items():
            for index, shard in enumerate(shards):
                shard.drop(previous.inputs[name][index] if previous else 0)
        return self._shards

    def slice(self, boundary: str, shard: int, number: int) -> SliceRecord:
        """One slice, from memory if it was seen."""
        found = self._shards[boundary][shard].seen(number)
        return found or self._log.need_slice(boundary, shard, number)

    @property
    def missing(self) -> tuple[str, ...]:
        """Addresses of the records that were asked for last and were not there.

        No batch can be planned before one of them is: ends are common to all shards, and planning
        stops at a shard that has run out.
        """
        address = self._log.store.address
        return tuple(
            address(shard.next_name())
            for shards in self._shards.values()
            for shard in shards
            if shard.ran_out
        )


class _Shard:
    """The unread slices of one producing shard."""

    def __init__(self, log: SliceLog, boundary: str, shard: int) -> None:
        self._log = log
        self._boundary, self._shard = boundary, shard
        self._first = 0
        self._items: list[SliceRecord] = []
        self.ran_out = False

    def __iter__(self) -> Iterator[SliceRecord]:
        place = 0
        while True:
            if place == len(self._items):
                found = self._log.slice(self._boundary, self._shard, self._first + place)
                self.ran_out = found is None
                if found is None:
                    return
                self._items.append(found)
            yield self._items[place]
            place += 1

    def drop(self, first: int) -> None:
        """Forget what comes before a number; nothing is known after going back."""
        gone = first - self._first
        if gone:
            self._items = self._items[gone:] if gone > 0 else []
            self._first = first
        self.ran_out = False

    def seen(self, number: int) -> SliceRecord | None:
        place = number - self._first
        return self._items[place] if 0 <= place < len(self._items) else None

    def next_name(self) -> str:
        folder = self._log.layout.slices(self._boundary, self._shard)
        return member(folder, self._first + len(self._items))
