"""The structure-aware algorithm close to its print, as a baseline for the repaired `sa`.

Literal: every sub-topology is planned on its own, with everything outside it assumed alive; its
first plan is one connected set of segments (Algorithm 1) or one task per operator (Algorithm 2),
whatever the budget; first plans are united, and only then the budget is looked at, so that where
they do not fit together nothing is replicated at all; afterwards the sub-topology with the greatest
gain per cost is extended by one step at a time (Algorithm 3).

Mended only where the print cannot run: Algorithm 1 compares a set with R, not with what is used (it
would never join two segments); loops end when nothing is left; usage is counted. With several
queries the sub-topologies of all of them take part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.fidelity import BoolArray
from holdfast.planners.ppa.problem import SLACK, Choice, Problem
from holdfast.planners.ppa.structure import SubTopology, decompose, units_of
from holdfast.topology.tasks import task_graph

Segment = frozenset[int]


def sa_as_printed(problem: Problem, solve: Solve) -> Choice:
    """Algorithm 3."""
    topology = problem.model.topology
    parts = {part for q in topology.effective_queries for part in decompose(topology, q.name)}
    planners = [_Part.of(problem, part) for part in sorted(parts, key=lambda part: part.operators)]
    chosen = problem.base.copy()
    for planner in planners:
        chosen[list(planner.step(problem.base, problem.budget))] = True
    if not problem.fits(chosen):
        return Choice(
            chosen=problem.base.copy(), note="the first plans of all sub-topologies do not fit"
        )
    while not solve.should_stop():
        left = problem.budget - problem.price(chosen) + SLACK
        value = problem.model.fidelity(chosen)
        best: tuple[float, frozenset[int]] | None = None
        for planner in planners:
            added = planner.step(chosen, left)
            if not added:
                continue
            trial = chosen.copy()
            trial[list(added)] = True
            cost = float(problem.cost[list(added)].sum())
            density = (problem.model.fidelity(trial) - value) / max(cost, SLACK)
            if cost <= left and (best is None or density > best[0]):
                best = density, added
        if best is None:
            break
        chosen[list(best[1])] = True
    return Choice(chosen=chosen)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """One sub-topology with its own idea of what to replicate next."""

    problem: Problem
    part: SubTopology
    outside: BoolArray
    """Everything outside the sub-topology, which it assumes alive."""
    units: tuple[tuple[Segment, ...], ...]

    @classmethod
    def of(cls, problem: Problem, part: SubTopology) -> _Part:
        outside = np.ones(problem.size, bool)
        for i in part.operators:
            outside[problem.model.spans[i]] = False
        units: tuple[tuple[Segment, ...], ...] = ()
        if part.kind == "structured":
            found = units_of(problem.model.topology, part)
            units = tuple(
                tuple(
                    frozenset(segment)
                    for segment in unit.segments
                    if problem.most[list(segment)].all()
                )
                for unit in found
            )
        return cls(problem=problem, part=part, outside=outside, units=units)

    def step(self, chosen: BoolArray, left: float) -> frozenset[int]:
        """The tasks to add next; empty when there are none."""
        return self._full(chosen, left) if self.part.kind == "full" else self._grow(chosen, left)

    def _local(self, chosen: BoolArray) -> float:
        return self.problem.model.fidelity(chosen | self.outside)

    # Algorithm 2
    def _full(self, chosen: BoolArray, left: float) -> frozenset[int]:
        problem, model = self.problem, self.problem.model
        first: list[int] = []
        best: tuple[float, int] | None = None
        for i in self.part.operators:
            span = model.spans[i]
            own = [t for t in range(span.start, span.stop) if problem.open[t] and not chosen[t]]
            if not own:
                continue
            alone = np.repeat(np.ones((1, problem.size), bool), len(own), axis=0)
            alone[:, span] = False
            alone[np.arange(len(own)), own] = True
            gains = model.fidelities(alone)
            task = own[int(np.argmax(gains))]
            if not chosen[span].any():
                first.append(task)
            if problem.cost[task] <= left:
                trial = chosen.copy()
                trial[task] = True
                value = self._local(trial)
                if best is None or value > best[0]:
                    best = value, task
        if first:
            return frozenset(first)
        return frozenset() if best is None else frozenset((best[1],))

    # Algorithm 1
    def _grow(self, chosen: BoolArray, left: float) -> frozenset[int]:
        cost, value = self.problem.cost, self._local(chosen)
        best: tuple[float, frozenset[int]] | None = None
        for number, segments in enumerate(self.units):
            for segment in segments:
                added = frozenset(t for t in segment if not chosen[t])
                if not added:
                    continue
                trial = chosen.copy()
                trial[list(added)] = True
                if self._local(trial) <= value:
                    added = self._connected(number, segment, chosen, left)
                    trial[list(added)] = True
                price = float(cost[list(added)].sum())
                density = (self._local(trial) - value) / max(price, SLACK)
                if price <= left and (best is None or density > best[0]):
                    best = density, added
        return frozenset() if best is None else best[1]

    def _connected(
        self, number: int, segment: Segment, chosen: BoolArray, left: float
    ) -> frozenset[int]:
        """The breadth-first search over units: each adds its best segment that connects."""
        found = set(segment)
        for other, segments in enumerate(self.units):
            if other == number:
                continue
            linked = [s for s in segments if self._touches(s, found)]
            if not linked:
                continue
            pick = max(linked, key=lambda s: self._alone(other, s))
            more = [t for t in found | pick if not chosen[t]]
            if float(self.problem.cost[more].sum()) > left:
                break
            found |= pick
        return frozenset(t for t in found if not chosen[t])

    def _touches(self, segment: Segment, found: set[int]) -> bool:
        graph = task_graph(self.problem.model.topology)
        return any(
            near in found
            for t in segment
            for near in (*graph.predecessors[t], *graph.successors[t])
        )

    def _alone(self, unit: int, segment: Segment) -> float:
        """Fidelity with only this segment of its unit alive, and everything outside the unit."""
        alive = np.ones(self.problem.size, bool)
        for other in self.units[unit]:
            alive[list(other)] = False
        alive[list(segment)] = True
        return self.problem.model.fidelity(alive)
