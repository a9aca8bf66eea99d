"""The plan of FastRecover: whose input is saved, and how often each segment checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.plan.base import STRICT, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointedSegment:
    """Operators that checkpoint together."""

    __pydantic_config__: ClassVar = STRICT

    head: str
    """The first of `heads` in the file's order."""
    heads: tuple[str, ...]
    """The anchors inside it; where unsaved streams join there may be several."""
    operators: tuple[str, ...]
    frequency: float | None
    """Checkpoints per time unit of the file; None: nothing to write, so any."""
    frequencies: Mapping[str, float | None] = field(default_factory=dict)
    """Per operator, when they differ inside the segment (RSRFS); `frequency` is then the head's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastRecoverPlan(Plan):
    """Anchors, segments and frequencies with what they cost."""

    method: ClassVar[str] = "fastrecover"

    anchors: tuple[str, ...] = ()
    """Operators that save their input, sources included."""
    segments: tuple[CheckpointedSegment, ...] = ()
    expected_recovery_time: float | None = None
    """Sum over operators of failure rate times recovery time, per time unit."""
    checkpoint_overhead: float | None = None
    """Sum over operators of the share of time spent on saving and checkpoints; may exceed 1."""
    worst_case: Mapping[str, float | None] = field(default_factory=dict)
    """Per operator, a bound on its recovery whenever it fails; None: there is none."""
    computational_recovery_time: float | None = None
    """Mean total work after the loss of a machine with five operators (simulated)."""
    mean_recovery_latency: float | None = None
    """Mean time until all of them are back."""
