"""How much of its inputs a unit could take in a batch now.

What counts as waiting decides who is called stalled, so it must be what the unit could take and
does not: up to the newest end that all inputs share, if that lies in a later batch interval than
what is done (the rule of `Batching.choose_end`). A slice that only one input has published, or that
ends within the present interval, does not wait for this unit.

Every slice record is read once, a bounded number at a look. O(new slices) a look.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.reading import TrimmedError

MAX_LOOK = 64
"""Batch intervals that one look reads ahead: a unit far behind is known to be so at once."""


class Takeable:
    """Follows the inputs of one unit, for its own thread and that of its node."""

    def __init__(
        self, log: SliceLog, inputs: Sequence[str], *, batch_epochs: int, done: int
    ) -> None:
        """Args:
        log: where the slices are.
        inputs: the streams it reads.
        batch_epochs: the unit's batch interval.
        done: end of the newest batch that is done, or where the unit was born.
        """
        self._log, self._steps = log, log.steps()
        self._inputs = inputs
        self._span = batch_epochs
        self._done = done
        self._looking = threading.Lock()  # steps remember what they read, for one thread

    def passed(self, epoch: int) -> None:
        """A batch is done; what it read need not be looked at any more."""
        self._done = max(self._done, epoch)

    def waiting(self) -> int:
        """Epochs that a batch could take now; 0: nothing it could take."""
        done = self._done
        horizon = done + MAX_LOOK * self._span
        try:
            with self._looking:
                ends = self._log.run(self._steps.common_ends(self._inputs, done, horizon))
        except TrimmedError:  # somebody else has gone on, and will be found to have
            return 0
        newest = ends[-1] if ends else done
        if (newest + 1) // self._span <= (done + 1) // self._span:
            return 0
        return newest - done
