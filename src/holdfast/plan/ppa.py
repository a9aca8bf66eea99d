"""The two plans of PPA: which tasks have a hot replica, and in which order failed tasks return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.plan.base import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPlan(Plan):
    """Which tasks have a hot replica. The objective is OF with everything else failed."""

    method: ClassVar[str] = "ppa"

    replicas: tuple[str, ...] = ()
    """Task ids in topology order."""
    fidelity: float | None = None
    """OF with exactly `replicas` alive; when failures are named, with only those failed."""
    fidelity_per_query: Mapping[str, float] = field(default_factory=dict)
    """OF of each query in the same situation as `fidelity`."""
    completeness: float | None = None
    """Internal completeness (IC) in the same situation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan(Plan):
    """In which order failed tasks come back. The objective is the average fidelity."""

    method: ClassVar[str] = "ppa"

    order: tuple[str, ...] = ()
    """Task ids, the first to come back first."""
    times: tuple[float, ...] = ()
    """When each of `order` comes back, in the file's time unit after the failure."""
    fidelity_curve: tuple[float, ...] = ()
    """OF right after the failure, then after each return: one entry more than `times`."""
    average_fidelity: float | None = None
    """OF averaged over time from the failure to the last return."""
