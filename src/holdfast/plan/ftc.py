"""The plan of FTC: whose output is logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.plan.base import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class FtcPlan(Plan):
    """Backups and the recovery latencies they give."""

    method: ClassVar[str] = "ftc"

    backups: tuple[str, ...] = ()
    """Task ids, in topology order."""
    recovery_latency: Mapping[str, float] = field(default_factory=dict)
    """L of every task, in the file's time unit."""
    overall: float | None = None
    """The longest recovery of all."""
    count: int | None = None
    """How many backups there are."""
