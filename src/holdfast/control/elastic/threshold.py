"""SPATE's policy: two reports in a row above (below) a threshold.

Problem: react to lasting load and not to a moment's. Reading: every operator's shards report their
CPU (every 5 s in the paper); if the mean is above the upper threshold in two reports in a row, the
operator gets one more shard, if below the lower one, one less. It knows nothing of what the new
shape will have to bear, so it may swing where one shape is too small and the next one too large,
and it takes as many rounds as there are shards to add. O(shards) per report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.control.elastic.load import Decision, Limits, LoadReport, Reason, Rescale
from holdfast.deployment.blocks import Block, reshape


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdPolicy:
    """Implements `ScalingPolicy`."""

    upper: float = 0.8
    """Mean CPU above which a shard is added."""
    lower: float = 0.3
    """Mean CPU below which one is removed."""
    in_a_row: int = 2

    @property
    def memory_s(self) -> float:
        return 60.0

    def decide(
        self, reports: Sequence[LoadReport], limits: Limits, *, changed_at: float | None
    ) -> Decision:
        """Reports from before the last change count for another shape."""
        known = [one for one in reports if changed_at is None or one.at > changed_at]
        last = known[-self.in_a_row :]
        if len(last) < self.in_a_row:
            return None
        now = last[-1]
        means = [sum(shard.cpu for shard in one.shards) / len(one.shards) for one in last]
        shards = len(now.shards)
        if min(means) > self.upper and shards < limits.most:
            text = f"CPU {means[-1]:.0%}, {self.in_a_row} reports above {self.upper:.0%}"
            return self._to(now, shards + 1, Reason(kind="above threshold", text=text))
        if max(means) < self.lower and shards > limits.least:
            text = f"CPU {means[-1]:.0%}, {self.in_a_row} reports below {self.lower:.0%}"
            return self._to(now, shards - 1, Reason(kind="below threshold", text=text))
        return None

    def _to(self, now: LoadReport, shards: int, reason: Reason) -> Rescale:
        busy = {shard.block: shard.cpu for shard in now.shards}

        def load(block: Block) -> float:
            # Shares of blocks that are not there yet are by their size: nothing else is known.
            held = [b for b in busy if b.holds(block) or block.holds(b)]
            return sum(busy[b] * min(1.0, block.count / b.count) for b in held)

        return Rescale(operator=now.operator, shape=reshape(now.shape, shards, load), reason=reason)
