"""What a planner is asked, and how it is watched while it works; its answer is a `Plan`.

A planner is pure: time, interruption, progress and randomness come in through `Solve`. An
infeasible request is a result with `feasible=False`, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

import numpy as np

from holdfast.plan import Plan
from holdfast.plan.base import plain
from holdfast.predict.statistics import Statistics
from holdfast.topology.graph import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Everything a user may ask for; each planner names the fields it understands (`USES`)."""

    algorithm: str = "auto"
    max_recovery: float | None = None
    """Bound on recovery (FTC: R; FastRecover: required expected recovery time), file units."""
    max_overhead: float | None = None
    """Bound on total checkpoint overhead (FastRecover: C), a sum over operators."""
    max_latency: float | None = None
    """Bound on end-to-end latency, file units."""
    max_outage: float | None = None
    """Bound on the time until no result is missing after a node's death, file units."""
    required: tuple[str, ...] = ()
    """Tasks or operators that must be chosen (backups for FTC, replicas for PPA)."""
    forbidden: tuple[str, ...] = ()
    """Tasks or operators that must not be chosen."""
    # FTC
    sources: Literal["replayed", "durable"] = "replayed"
    """Whether a source's output must be replayed (canonical) or is durable for free."""
    cost: Literal["auto", "count", "bytes"] = "auto"
    """What a backup costs: `backup_cost` where given else 1 (auto), 1 each, or bytes logged."""
    expected: bool = False
    """Derive reprocessing time from half a checkpoint interval (an expectation, not a bound)."""
    restart: float = 0.0
    """What every recovery takes before anything is reprocessed; part of the bound, file units."""
    # FastRecover
    grid_overhead: int | None = None
    """Z: steps of the overhead grid of the thesis' algorithms; None: the thesis' default."""
    grid_frequency: int | None = None
    """F: steps of the frequency grid of the thesis' tree algorithm; None: its default."""
    frequencies: tuple[float, ...] = ()
    """Frequencies to choose from; empty: any."""
    powers_of_two: bool = False
    """Frequencies (relative to one another) must be powers of two."""
    # joint
    statistics: Statistics | None = None
    """What was measured of the pipeline and the machine; None: the file's numbers and defaults."""
    intervals: tuple[float, ...] = ()
    """Batch intervals to choose from, file units; empty: 1, 2, 4 and 8 epochs."""
    nodes: int | None = 1
    """Nodes to spread the units over; None: as many as it takes to keep the bounds."""
    snapshots: tuple[int, ...] = ()
    """Batches between two state snapshots to choose from; empty: 1, 10 and 60."""
    max_replicas: int | None = None
    """Units that may have a hot follower; None: as many as it takes, if no plan without keeps the
    bound on recovery."""
    # PPA
    replicas: float | None = None
    """Replica budget, a total of `replica_cost`."""
    failed: tuple[str, ...] = ()
    """Tasks or operators to fail when fidelity is evaluated; empty: all but the replicas."""
    failed_domains: tuple[str, ...] = ()
    """Failure domains to lose when fidelity is evaluated."""
    recover: bool = False
    """Ask for a recovery order of the failed tasks instead of a replication plan."""
    slots: int | None = None
    """How many tasks can come back in all while recovering; None: all failed."""
    arrivals: tuple[float, ...] = ()
    """Times at which recovery slots arrive; empty: one per time unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a long solve tells its watcher."""

    message: str
    objective: float | None = None
    bound: float | None = None


def _never() -> bool:
    return False


def _no_limit() -> float | None:
    return None


def _quiet(_progress: Progress) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Solve:
    """The world around a planner: when to stop, whom to tell, where chance comes from."""

    should_stop: Callable[[], bool] = _never
    """Time is up or the user pressed Ctrl-C: return the best found so far, soon."""
    seconds_left: Callable[[], float | None] = _no_limit
    """None: no limit."""
    report: Callable[[Progress], None] = _quiet
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One point of a trade-off curve."""

    x: float
    y: float | None
    """None: infeasible there."""
    label: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A trade-off curve with points of comparison to mark on it."""

    title: str
    x_label: str
    y_label: str
    points: tuple[SweepPoint, ...]
    marks: tuple[SweepPoint, ...] = ()
    """Named points beside the curve: baselines, the chosen plan."""
    step: bool = False
    """Draw as a staircase (counts) instead of a line."""

    def to_json(self) -> dict[str, Any]:
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}


class Planner(Protocol):
    """One method: its algorithms, its answer, its words."""

    @property
    def method(self) -> str: ...

    @property
    def algorithms(self) -> Mapping[str, str]:
        """Name to one line of help; the first is the default."""
        ...

    @property
    def uses(self) -> frozenset[str]:
        """Names of the `PlanRequest` fields it understands."""
        ...

    def plan(self, topology: Topology, request: PlanRequest, solve: Solve) -> Plan: ...

    def sweep(self, topology: Topology, request: PlanRequest, solve: Solve) -> Sweep | None:
        """The trade-off curve in one call; None where the method has none."""
        ...

    def explain(self, topology: Topology, request: PlanRequest, result: Plan) -> Sequence[str]:
        """Why the plan is as it is, in sentences."""
        ...
