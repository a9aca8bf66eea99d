"""How much of its inputs a unit could take in a batch now.

What counts as waiting decides who is called stalled, so it must be what the unit could take and
does not: up to the newest epoch at which every shard of every input has ended a slice, if that lies
in a later batch interval than what is done (the rule of `protocol.next_range`). A slice that only
one input has published, or that ends within the present interval, does not wait for this unit.

Every slice record is read once, a bounded number at a look; only ends beyond the newest common one
are kept. O(new slices) a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from holdfast.deployment.records import RangeRecord
from holdfast.runtime.log.slicelog import SliceLog

MAX_LOOK = 64
"""Records per input shard that one look reads: a unit far behind is known to be so at once."""


class Takeable:
    """Follows the inputs of one unit; one thread asks what is `waiting`, another tells `passed`."""

    def __init__(
        self,
        log: SliceLog,
        inputs: Mapping[str, int],
        *,
        batch_epochs: int,
        start: RangeRecord | None = None,
    ) -> None:
        """Args:
        log: where the slices are.
        inputs: boundary to the number of its shards.
        batch_epochs: the unit's batch interval.
        start: the newest batch that is done.
        """
        self._log = log
        self._span = batch_epochs
        self._next = {(name, shard): 0 for name, count in inputs.items() for shard in range(count)}
        self._ended: dict[int, int] = {}
        """End epoch to how many shards have ended a slice there, beyond the newest common one."""
        self._newest = -1
        self._done = -1
        self._passed: RangeRecord | None = start

    def passed(self, record: RangeRecord) -> None:
        """A batch is done; what it read need not be looked at any more."""
        self._passed = record

    def waiting(self) -> int:
        """Epochs that a batch could take now; 0: nothing it could take."""
        self._skip()
        for name, shard in self._next:
            self._look(name, shard)
        if (self._newest + 1) // self._span <= (self._done + 1) // self._span:
            return 0
        return self._newest - self._done

    def _skip(self) -> None:
        record = self._passed
        if record is None:
            return
        self._done = max(self._done, record.upto)
        for name, numbers in record.inputs.items():
            for shard, number in enumerate(numbers):
                if self._next.get((name, shard), number) < number:
                    self._next[name, shard] = number
        self._reached(record.upto)

    def _look(self, name: str, shard: int) -> None:
        number = self._next[name, shard]
        for record in islice(self._log.slices_from(name, shard, number), MAX_LOOK):
            self._next[name, shard] = record.number + 1
            if record.upto <= self._newest:
                continue
            self._ended[record.upto] = self._ended.get(record.upto, 0) + 1
            if self._ended[record.upto] == len(self._next):
                self._reached(record.upto)

    def _reached(self, epoch: int) -> None:
        if epoch > self._newest:
            self._newest = epoch
            self._ended = {end: count for end, count in self._ended.items() if end > epoch}


def done_batch(log: SliceLog, unit: str, outputs: Iterable[str], shard: int) -> RangeRecord | None:
    """The newest batch of a unit that is decided and published; None: none, or not known."""
    number = log.newest_range(unit)
    if number < 0:
        return None
    if all(log.slice(boundary, shard, number) is not None for boundary in outputs):
        return log.range(unit, number)
    return log.range(unit, number - 1) if number > 0 else None
