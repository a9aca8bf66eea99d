"""The operator: one frozen value for everything a pipeline is made of.

Sources and sinks are operators too, so that names, edges, segments and fingerprints need one rule
each. What differs by kind is which of `function`, `source` and `sink` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from holdfast.deployment import OutputMode
from holdfast.pipeline.sinks import Sink
from holdfast.pipeline.sources import Source

OperatorKind = Literal["source", "map", "aggregate", "stateful", "join", "union", "sink"]
OnError = Literal["fail", "quarantine"]
OperatorFunction: TypeAlias = Callable[..., Any]
"""DataFrame -> DataFrame; a join's takes both: (left, right) -> DataFrame."""

STATEFUL: frozenset[OperatorKind] = frozenset({"aggregate", "stateful", "join"})
"""Kinds that keep state between batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOperator:
    """One step of a pipeline."""

    name: str
    kind: OperatorKind
    inputs: tuple[str, ...] = ()
    """Names of the operators it reads, in the order its function takes them; a source has none."""
    function: OperatorFunction | None = None
    """Set for map, aggregate, stateful and join."""
    source: Source | None = None
    """Set for a source."""
    sink: Sink | None = None
    """Set for a sink."""
    priority: float = 1.0
    """Of a sink: what its results are worth beside those of others; 0: they can wait."""
    key: tuple[str, ...] = ()
    """Columns of its (first) input by which it is sharded; empty: it has one shard, or those of the
    operator it is fused with if it keeps no state."""
    other_key: tuple[str, ...] = ()
    """Columns of a join's second input, when they are named otherwise there."""
    mode: OutputMode = "append"
    """Whether its output rows are additions or new versions of the row with the same key."""
    upsert_key: tuple[str, ...] = ()
    """Columns of its output that identify an upserted row; empty for append."""
    deterministic: bool = True
    on_error: OnError = "fail"
    takes_upserts: bool = False
    """Whether its function copes with rows that are new versions of earlier ones."""
    shards: int = 1
    """Parallelism unless the deployment says otherwise."""
    max_shards: int | None = None
    """How many shards it may be given while it runs: a power of two up to the key groups. None:
    their number is never changed."""
    one_epoch_per_batch: bool = False
    """Its result depends on the batching, so a batch never spans several epochs."""

    @property
    def keeps_state(self) -> bool:
        return self.kind in STATEFUL

    def key_of_input(self, index: int) -> tuple[str, ...]:
        """The columns by which its index-th input must be laid out for it."""
        return self.other_key if index == 1 and self.other_key else self.key
