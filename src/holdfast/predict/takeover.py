"""What the recovery of a segment is spent on, and how those that are lost at once delay each other.

A query plans a batch before it has the input. So a unit that has to wait for its input, because no
epoch is over yet or because the segment it reads from was lost too, plans meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phases:
    """Recovery of segments, split into what it is spent on; medians but for `p95`, seconds."""

    detection: FloatArray
    restore: FloatArray
    load: FloatArray
    """Of state, and what the first batch takes longer than others."""
    replay: FloatArray
    catch_up: FloatArray
    p95: FloatArray
    """95th percentile of the whole."""

    @property
    def median(self) -> FloatArray:
        return self.detection + self.restore + self.load + self.replay + self.catch_up


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FirstBatch:
    """What the first batch after a restart takes longer than others, seconds, over segments."""

    planning: FloatArray
    """Before it has to have its input."""
    opening: FloatArray
    """Of state, after that."""
    usual: FloatArray
    """What every batch takes before it has to have its input."""

    def of(self, segment: int) -> FirstBatch:
        return FirstBatch(
            planning=self.planning[segment],
            opening=self.opening[segment],
            usual=self.usual[segment],
        )

    def slow(self, waited_s: FloatArray) -> FloatArray:
        """What it takes longer if the unit ran so long before its input came."""
        return np.asarray(np.maximum(0.0, self.planning - waited_s) + self.opening)

    def saved(self, waited_s: FloatArray) -> FloatArray:
        """How much of the usual has passed by then."""
        return np.clip(waited_s - self.planning, 0.0, self.usual)


def lost_together(
    alone: Phases,
    first: FirstBatch,
    interval_s: FloatArray,
    inputs: Sequence[Sequence[int]],
) -> tuple[Phases, tuple[FloatArray, FloatArray]]:
    """Recoveries when all segments are lost at once, and when the output of each is complete.

    The second is a median and a 95th percentile. A segment waits for the slices of those it
    reads; meanwhile it plans its first batch.
    """
    runs, due = alone.detection + alone.restore, 0.5 * interval_s
    alone_waits = np.maximum(0.0, due - runs)
    load = alone.load - first.slow(alone_waits)
    replay = alone.replay + first.saved(alone_waits)
    waits, ends, high = alone_waits.copy(), np.zeros_like(due), alone.p95.copy()
    for i, read in enumerate(inputs):
        waits[i] = max(0.0, max([due[i], *(ends[j] for j in read)]) - runs[i])
        one, waited = first.of(i), waits[i]
        took = load[i] + one.slow(waited) + replay[i] - one.saved(waited) + alone.catch_up[i]
        ends[i] = runs[i] + waited + took
        high[i] = max([high[i], *(high[j] + took for j in read)])
    phases = replace(alone, load=load + first.slow(waits), replay=replay - first.saved(waits))
    return phases, (ends - alone_waits, high)
