"""What a policy knows about an operator's load, and what it decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from holdfast.deployment.blocks import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLoad:
    """One shard since the report before."""

    block: Block
    cpu: float
    """Share of its time that it worked, 0 to 1."""
    backlog_rows: float = 0.0
    """Rows that are published and not read yet, beyond what one batch takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """One operator since the report before."""

    operator: str
    at: float
    """Seconds of whatever clock the reports share."""
    shards: tuple[ShardLoad, ...]
    rates: tuple[float, ...]
    """Rows per second that arrive for each of the operator's state partitions."""
    row_s: float
    """Work per row, seconds."""
    floor: float = 0.0
    """Share of its time that a shard works when no rows come: batches cost something as such."""

    @property
    def shape(self) -> tuple[Block, ...]:
        return tuple(sorted(shard.block for shard in self.shards))

    @property
    def backlog_rows(self) -> float:
        return sum(shard.backlog_rows for shard in self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the number of shards."""

    least: int = 1
    most: int
    """Of the operator; at most its state partitions."""


ReasonKind: TypeAlias = Literal[
    "overloaded", "behind", "underused", "above threshold", "below threshold"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a shape was changed, for the timeline."""

    kind: ReasonKind
    text: str
    hot: int | None = None
    """The state partition that takes most of the load, if it stands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """What to make of an operator."""

    operator: str
    shape: tuple[Block, ...]
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """Load that no allowed shape would hold, and what would help."""

    operator: str
    reason: Reason


Decision: TypeAlias = Rescale | Stuck | None


class ScalingPolicy(Protocol):
    """Decides from the reports since an operator's shape last changed, oldest first."""

    def decide(
        self, reports: Sequence[LoadReport], limits: Limits, *, changed_at: float | None
    ) -> Decision:
        """What to make of the operator now, which is when the last report was made.

        `changed_at` is when its shape last changed, None: not yet.
        """
        ...

    @property
    def memory_s(self) -> float:
        """Reports older than this are not needed, but for the newest of them."""
        ...
