"""Units that read what others publish, some epochs at a time: exporters, exact and tentative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from holdfast.deployment import KEY_GROUPS
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.slices import files_on, read_slice
from holdfast.runtime.units.threads import ThreadUnit, UnitContext
from holdfast.streams.records import Range
from holdfast.streams.unit import End, Proposal


class ReadingUnit(ThreadUnit):
    """Takes batches as every unit does; what becomes of their rows is its own."""

    def __init__(self, context: UnitContext, schema: Any) -> None:
        super().__init__(context)
        self._schema = schema
        self._batching = Batching(batch_epochs=context.segment.batch_epochs)
        self.reach = self._batching.reach

    def propose(self, after: int, ends: Sequence[End], limit: int | None) -> Proposal | None:
        proposed = self._batching.propose(after, ends, limit)
        self.progress.tell(waiting=proposed.upto - after if proposed else 0)
        return proposed

    def rows(self, record: Range, *, heed: bool = False) -> Any:
        """What the slices of a batch hold, or their repairs if these are to be heeded."""
        log = self.context.log
        batches: list[Any] = []
        for boundary, stream in self.context.inputs:
            for item in log.run(self.steps.read(stream, record.after, record.upto)):
                whole = log.run(self.steps.repaired(item))[0] if heed else item
                folder = log.data(item.unit, boundary)
                batches += read_slice(folder, files_on(whole, boundary), range(KEY_GROUPS))
        return pa.Table.from_batches(batches) if batches else self._schema.empty_table()
