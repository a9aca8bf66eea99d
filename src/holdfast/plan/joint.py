"""The plan of the joint method: what a deployment needs, and what it promises in real time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.plan.base import STRICT, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment:
    """One segment: named after its output operator, as deployments name it."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    operators: tuple[str, ...]
    """In topological order, the output operator last."""
    batch_interval: float
    snapshot_interval: float | None
    """None: it keeps no state."""
    batch_epochs: int
    """The batch interval, counted in epochs: what a deployment takes."""
    snapshot_batches: int
    """The snapshot interval, counted in batches: what a deployment takes."""
    batch_time: float
    """How long a batch is expected to take."""
    replicated: bool = False
    """Each of its units has a hot follower in another failure domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A duration that varies."""

    __pydantic_config__: ClassVar = STRICT

    median: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPhases:
    """Median of what a recovery is spent on."""

    __pydantic_config__: ClassVar = STRICT

    detection: float
    restore: float
    load: float
    replay: float
    catch_up: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """What runs on one node, and what its death costs."""

    __pydantic_config__: ClassVar = STRICT

    segments: tuple[str, ...]
    """In topological order, all shards of each; exporters go with the segment they read."""
    slowest: str | None
    """The segment whose recovery takes longest; None: the node has nothing to do."""
    recovery: Latency | None
    """Of that segment."""
    results: Latency | None
    """Until no result is missing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPlan(Plan):
    """Boundaries, intervals, nodes, spares. The objective: cores beyond the uncut pipeline."""

    method: ClassVar[str] = "joint"

    max_recovery: float | None = None
    """The bounds asked for, as asked; None: none."""
    max_overhead: float | None = None
    max_latency: float | None = None
    max_outage: float | None = None
    max_replicas: int | None = None
    max_growth: float | None = None
    """How many times the load it is to be able to grow to, as asked; None: nobody asked."""
    boundaries: tuple[str, ...] = ()
    """Operators whose output is logged, forced ones included, in topological order."""
    forced: tuple[str, ...] = ()
    """Those of them that every plan has."""
    segments: tuple[PlannedSegment, ...] = ()
    nodes: tuple[PlannedNode, ...] = ()
    """Which segments share a node, and what the death of each costs; empty: one node has all."""
    spares: int | None = None
    replicas: tuple[str, ...] = ()
    """Segments whose units have hot followers, in topological order."""
    max_shards: Mapping[str, int] = field(default_factory=dict)
    """By operator, how many partitions its state is kept in, and so how many shards it may have
    while it runs; empty: what the pipeline declares."""
    max_shards_why: Mapping[str, str] = field(default_factory=dict)
    """By operator, why so many."""
    replica_cpu: float = 0.0
    """Cores that the followers take; part of `cpu` and `overhead`."""
    replica_memory: float = 0.0
    """Memory that the followers take, bytes."""
    epoch: float | None = None
    """Length of an epoch."""
    recovery_latency: Mapping[str, Latency] = field(default_factory=dict)
    """By operator; those of one segment share it."""
    recovery_phases: Mapping[str, RecoveryPhases] = field(default_factory=dict)
    """By segment."""
    results_recovery: Latency | None = None
    """Until no result is missing any more when the node dies whose death is worst."""
    end_to_end_latency: float | None = None
    """From a row's arrival just after a batch was cut until its result is delivered."""
    overhead: float | None = None
    """CPU beyond that of the uncut pipeline, relative to it."""
    cpu: float | None = None
    """Cores in use."""
    uncut_cpu: float | None = None
    """Cores of the uncut pipeline at the longest interval offered."""
    nearest: Mapping[str, float | None] = field(default_factory=dict)
    """When infeasible: per bound asked for, the value nearest to it at which there is a plan while
    the other bounds stay; None: no value of this bound alone will do."""
    nearest_together: Mapping[str, float] = field(default_factory=dict)
    """When no bound alone is in the way: bounds that can be kept together."""
