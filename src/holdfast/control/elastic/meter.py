"""From what units report to what a policy asks: rates, work per row, backlog.

Work per row and per batch as such are the slope and the intercept of batch durations over the rows
of batches, by least squares over the last batches of all shards. While batches are all alike there
is no telling them apart, and all work is taken for work per row: then a larger shape seems to help
as much as it can, and a smaller one is taken with most caution. O(shards) per report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.control.elastic.load import LoadReport, ShardLoad
from holdfast.deployment.blocks import Block

KEPT = 64
"""Batches that the fit is made of."""
LEAST_SPREAD = 0.25
"""Standard deviation of the rows of batches, relative to their mean, below which they are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSample:
    """What a unit says of itself."""

    unit: str
    block: Block
    batch: int
    """Its newest batch."""
    rows_in: int
    """Rows read since it was started."""
    batch_s: float
    """How long the newest batch took, seconds."""
    behind_s: float
    """Of its input that waits, beyond one batch: event time or epochs, in seconds."""


class Meter:
    """One operator's."""

    def __init__(self, operator: str, *, interval_s: float) -> None:
        """`interval_s` is the batch interval of its shards, seconds."""
        self._operator = operator
        self._interval_s = interval_s
        self._before: dict[str, UnitSample] = {}
        self._batches: deque[tuple[float, float]] = deque(maxlen=KEPT)

    def report(
        self, samples: Sequence[UnitSample], rates: Sequence[float], *, at: float
    ) -> LoadReport | None:
        """What a policy gets; None while nothing is known of what rows cost."""
        for sample in samples:
            before = self._before.get(sample.unit)
            # One that counts fewer rows was started again: how many its batch had is not known.
            if before is None or sample.rows_in < before.rows_in:
                continue
            if sample.batch > before.batch:
                rows = (sample.rows_in - before.rows_in) / (sample.batch - before.batch)
                self._batches.append((rows, sample.batch_s))
        self._before = {sample.unit: sample for sample in samples}
        if not self._batches:
            return None
        row_s, batch_s = self._fit()
        shards = tuple(
            ShardLoad(
                block=sample.block,
                cpu=min(1.0, sample.batch_s / self._interval_s),
                backlog_rows=sample.behind_s * sum(rates[sample.block.first : sample.block.stop]),
            )
            for sample in samples
        )
        return LoadReport(
            operator=self._operator,
            at=at,
            shards=shards,
            rates=tuple(rates),
            row_s=row_s,
            floor=batch_s / self._interval_s,
        )

    def _fit(self) -> tuple[float, float]:
        """Seconds per row, and per batch without any."""
        count = len(self._batches)
        rows = sum(r for r, _ in self._batches) / count
        took = sum(s for _, s in self._batches) / count
        if rows <= 0:
            return 0.0, took
        spread = sum((r - rows) ** 2 for r, _ in self._batches) / count
        if spread <= (LEAST_SPREAD * rows) ** 2:
            return took / rows, 0.0
        together = sum((r - rows) * (s - took) for r, s in self._batches) / count
        row_s = min(max(together / spread, 0.0), took / rows)
        return row_s, took - row_s * rows
