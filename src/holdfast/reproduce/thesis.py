"""The random chains and trees of the FastRecover thesis, planned by every method it compares.

All figures vary one parameter and keep the others at their defaults (table 4.1). Which values each
plot shows is not in the text, beyond the few that it names; those taken here are in `CHAINS` and
`TREES`. Means are over the topologies that a method can plan, as in the thesis.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from holdfast.plan import FastRecoverPlan
from holdfast.planners.fastrecover import PLANNER
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.reproduce.model import Effort
from holdfast.reproduce.thesis_grid import n_segments_on_grid
from holdfast.testing.generators import thesis_chain, thesis_tree
from holdfast.topology.graph import Topology

Shape = Literal["chain", "tree"]
Varied = Literal["n", "rate", "overhead", "steps"]
LABELS: Mapping[Varied, str] = {
    "n": "n, operators",
    "rate": "Ω, tuples per minute",
    "overhead": "CH_max, overhead allowed",
    "steps": "Z, steps of the grid",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The parameters of one point; defaults are the thesis' for chains."""

    shape: Shape = "chain"
    n: int = 15
    rate: float = 3000.0
    overhead: float = 0.4
    steps: int = 60

    def topology(self, seed: int) -> Topology:
        make = thesis_chain if self.shape == "chain" else thesis_tree
        return make(self.n, rate=self.rate, seed=seed)


CHAIN = Setting()
TREE = Setting(shape="tree", rate=1000.0, overhead=0.5, steps=20)
CHAINS: Mapping[Varied, tuple[float, ...]] = {
    "n": (5, 10, 15, 20, 25, 30, 35),
    "rate": (1000, 2000, 3000, 4000, 5000),
    "overhead": (0.25, 0.3, 0.4, 0.5, 0.6),
    "steps": (20, 40, 60, 80, 100),
}
TREES: Mapping[Varied, tuple[float, ...]] = {
    "n": (6, 9, 12, 15, 18),
    "rate": (500, 1000, 1500, 2000),
    "overhead": (0.3, 0.4, 0.5, 0.6),
    "steps": (16, 20, 25, 30),
}
STATED = (
    "defaults: n = 15; chains Z = 60, CH_max = 0.4, Ω = 3000; trees Z = 20, CH_max = 0.5, "
    "Ω = 1000, F = 100, F_max = 200, at most 3 children",
    "selectivity 0.1 to 1, 1e-5 min per tuple, states of 10 to 20 MB, tuples of 1 KB, 2 to 6 "
    "instances",
    "1000 topologies for each point",
)
ASSUMED = (
    "the cost of storing: 5e-5 min per KB of tuples, 3e-7 of state; the thesis never states it",
    "0.03 is the standard deviation of the failure frequency, not its variance, which would make "
    "it negative every fourth time",
    "which values the plots show",
    "how trees grow: each operator below one with room, drawn evenly",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What every method makes of the random topologies of one setting; None: no plan."""

    recovery: Mapping[str, tuple[float | None, ...]]
    computational: tuple[float, ...] = field(default=())
    """Of the thesis' algorithm: work after the loss of a machine."""
    latency: tuple[float, ...] = field(default=())

    def mean(self, method: str) -> float | None:
        known = self.known(method)
        return statistics.fmean(known) if known else None

    def known(self, method: str) -> list[float]:
        return [value for value in self.recovery[method] if value is not None]

    def infeasible(self, method: str) -> float:
        values = self.recovery[method]
        return sum(value is None for value in values) / len(values)

    def ratio(self, method: str, other: str) -> float:
        """Mean recovery of one over the other, where both have a plan."""
        both = [
            (a, b)
            for a, b in zip(self.recovery[method], self.recovery[other], strict=True)
            if a is not None and b is not None
        ]
        if not both:
            return float("nan")
        return sum(a for a, _ in both) / sum(b for _, b in both)


GRID = "FastRecover"
N_GRID = "NSegments"
ONE = "1Segment"
N_FREE = "NSegments, no grid"
EXACT = "optimum"
METHODS = (GRID, N_GRID, ONE, N_FREE, EXACT)


def plan(
    topology: Topology, algorithm: str, setting: Setting, *, overhead: float | None = None
) -> FastRecoverPlan:
    """One plan by the planners."""
    on_grid = algorithm in ("chain", "tree")
    request = PlanRequest(
        algorithm=algorithm,
        max_overhead=overhead or setting.overhead,
        grid_overhead=setting.steps if on_grid else None,
    )
    found = PLANNER.plan(topology, request, Solve())
    if not isinstance(found, FastRecoverPlan):
        raise TypeError("not a FastRecover plan")
    return found


@lru_cache(maxsize=64)
def sample(setting: Setting, count: int) -> Sample:
    """Plan `count` random topologies by every method; figures share points."""
    recovery: dict[str, list[float | None]] = {name: [] for name in METHODS}
    work, late = [], []
    for seed in range(count):
        topology = setting.topology(seed)
        own = plan(topology, setting.shape, setting)
        recovery[GRID].append(own.expected_recovery_time)
        if own.feasible:
            work.append(own.computational_recovery_time or 0.0)
            late.append(own.mean_recovery_latency or 0.0)
        recovery[N_GRID].append(n_segments_on_grid(topology, setting.overhead, setting.steps))
        for name, algorithm in ((ONE, "onesegment"), (N_FREE, "nsegments"), (EXACT, "exact")):
            recovery[name].append(plan(topology, algorithm, setting).expected_recovery_time)
    return Sample(
        recovery={name: tuple(values) for name, values in recovery.items()},
        computational=tuple(work),
        latency=tuple(late),
    )


def settings(shape: Shape, varied: Varied) -> list[tuple[float, Setting]]:
    """The points of a plot."""
    base, values = (CHAIN, CHAINS) if shape == "chain" else (TREE, TREES)
    whole = varied in ("n", "steps")
    return [
        (x, replace(base, **{varied: int(x) if whole else x}))  # type: ignore[arg-type]
        for x in values[varied]
    ]


def samples(shape: Shape, varied: Varied, effort: Effort) -> list[tuple[float, Sample]]:
    count = effort.pick(40, 1000)
    return [(x, sample(setting, count)) for x, setting in settings(shape, varied)]
