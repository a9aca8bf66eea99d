"""Why a joint plan is as it is: each decision against what would happen without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.plan import JointPlan
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.joint.nearest import say_bound
from holdfast.planners.joint.placing import place
from holdfast.planners.joint.problem import (
    Choice,
    Evaluation,
    Nodes,
    Problem,
    Size,
    make_problem,
    within,
)
from holdfast.predict.segments import SegmentPlan
from holdfast.topology.boundaries import REASONS
from holdfast.topology.graph import Topology


def explain(topology: Topology, request: PlanRequest, result: JointPlan) -> Sequence[str]:
    """One sentence per boundary, per segment that could run less often, and for the spares."""
    problem = make_problem(topology, request)
    if result.replicas and not problem.max_replicas:
        problem = problem.with_replicas(math.inf)
    if not result.feasible:
        return [result.note, *_ways_out(result, topology)]
    words = _Words(problem, _choice(problem, result))
    return [
        *words.boundaries(),
        *words.intervals(),
        *words.replicas(),
        *words.nodes(),
        *words.spares(),
    ]


def _ways_out(result: JointPlan, topology: Topology) -> Iterator[str]:
    unit = topology.unit.time
    for name, value in result.nearest.items():
        if value is None:
            option = f"--{name.replace('_', '-')}"
            yield f"no value of {option} helps while the other bounds stay"
        else:
            yield f"with {say_bound(name, value, unit)} there is a plan, the other bounds unchanged"
    together = [say_bound(name, value, unit) for name, value in result.nearest_together.items()]
    if together:
        yield f"with {', '.join(together)} together there is a plan"


def _choice(problem: Problem, result: JointPlan) -> Choice:
    index, epoch_s = problem.topology.index, problem.model.statistics.epoch_s
    return Choice(
        segments=tuple(
            SegmentPlan(
                operators=tuple(index[name] for name in segment.operators),
                interval_s=segment.batch_epochs * epoch_s,
                snapshot_batches=segment.snapshot_batches,
                replicated=segment.replicated,
            )
            for segment in result.segments
        ),
        spares=result.spares or 0,
        nodes=_nodes(result),
    )


def _nodes(result: JointPlan) -> Nodes:
    place = {segment.name: i for i, segment in enumerate(result.segments)}
    return tuple(tuple(place[name] for name in node.segments) for node in result.nodes)


class _Words:
    """Sentences about one plan."""

    def __init__(self, problem: Problem, choice: Choice) -> None:
        self.problem = problem
        self.choice = choice
        self.plan = problem.evaluate(choice)
        self.names = [operator.name for operator in problem.topology.operators]
        self.unit = problem.topology.unit.time
        self.rank = {v: i for i, v in enumerate(problem.topology.order)}

    def boundaries(self) -> Iterator[str]:
        for segment in self.choice.segments:
            root = segment.root
            name = self.names[root]
            if root in self.problem.fixed:
                yield f"the output of {name} is logged because {REASONS[self.problem.fixed[root]]}"
            else:
                yield f"the output of {name} is logged because {self._without_cut(root)}"

    def intervals(self) -> Iterator[str]:
        levels = self.problem.levels.tolist()
        for i, segment in enumerate(self.choice.segments):
            longer = [level for level in levels if level > segment.interval_s * (1 + 1e-9)]
            if not longer:
                continue
            changed = self._at_least(i, longer[0])
            reason = self._reason(self.problem.evaluate(changed))
            yield (
                f"segment {self.names[segment.root]} runs a batch every "
                f"{self._time(segment.interval_s)} because every {self._time(longer[0])} "
                + (reason or "would not be cheaper")
            )

    def replicas(self) -> Iterator[str]:
        for i, segment in enumerate(self.choice.segments):
            if not segment.replicated:
                continue
            parts = list(self.choice.segments)
            parts[i] = replace(segment, replicated=False)
            without = self.problem.evaluate(replace(self.choice, segments=tuple(parts)))
            yield (
                f"segment {self.names[segment.root]} has a hot follower because without one "
                f"{self._reason(without) or 'keeping the bounds would take more CPU'}"
            )

    def nodes(self) -> Iterator[str]:
        """Why there are so many nodes, and what each one's death costs."""
        choice = self.choice
        for loss in self.plan.prediction.losses:
            names = [self.names[choice.segments[i].root] for i in loss.segments]
            worst = int(loss.p95.argmax())
            yield (
                f"a death of the node with {', '.join(names)} costs {names[worst]} "
                f"{self._time(loss.p95[worst])} and results {self._time(loss.results[1])}"
            )
        if self.problem.nodes is None and len(choice.nodes) > 1:
            fewer = Size(nodes=len(choice.nodes) - 1, spares=choice.spares)
            tried = self.problem.evaluate(place(self.problem, choice.segments, fewer, Solve()))
            yield (
                f"there are {len(choice.nodes)} nodes because with {fewer.nodes} "
                f"{self._reason(tried) or 'it would take more CPU to keep the bounds'}"
            )

    def spares(self) -> Iterator[str]:
        spares = self.choice.spares
        if not spares:
            yield "no spare is kept warm because recovery keeps its bound with a cold start"
            return
        fewer = self.problem.evaluate(replace(self.choice, spares=spares - 1))
        yield (
            f"{_count(spares, 'spare is', 'spares are')} kept warm because with {spares - 1} "
            f"{self._reason(fewer) or 'it would take more CPU to keep the bounds'}"
        )

    def _without_cut(self, root: int) -> str:
        """What would happen if the operator were fused with its consumer."""
        tried = [self.problem.evaluate(choice) for choice in self._fused(root)]
        kept = [found for found in tried if not found.broken]
        (consumer,) = self.problem.topology.downstream[root]
        fused = f"fused with {self.names[consumer]}, "
        if kept:
            best = min(kept, key=lambda found: found.cost)
            more = best.cost - self.plan.cost
            return fused + f"the plan would cost {more:.3g} cores more"
        closest = min(tried, key=self._excess)
        return fused + (self._reason(closest) or "the bounds would be broken")

    def _excess(self, found: Evaluation) -> tuple[int, float]:
        return len(found.broken), float(found.prediction.phases.p95.max())

    def _fused(self, root: int) -> Iterator[Choice]:
        """The plan without a cut, with every interval the larger segment might have."""
        (consumer,) = self.problem.topology.downstream[root]
        upper = next(s for s in self.choice.segments if s.root == root)
        lower = next(s for s in self.choice.segments if consumer in s.operators)
        operators = tuple(sorted(upper.operators + lower.operators, key=self.rank.__getitem__))
        for interval in self.problem.levels.tolist():
            for snapshots in self.problem.snapshots:
                one = SegmentPlan(
                    operators=operators,
                    interval_s=interval,
                    snapshot_batches=snapshots,
                    replicated=lower.replicated,
                )
                parts = [one if s is lower else s for s in self.choice.segments if s is not upper]
                yield place(self.problem, tuple(parts), self.choice.size, Solve())

    def _at_least(self, i: int, interval: float) -> Choice:
        """The plan with one segment's interval longer; what reads it follows by itself."""
        parts = list(self.choice.segments)
        parts[i] = replace(parts[i], interval_s=interval)
        return replace(self.choice, segments=tuple(parts))

    def _reason(self, found: Evaluation) -> str:
        """Which bound a changed plan breaks, with its numbers; empty: none."""
        bounds, prediction = self.problem.bounds, found.prediction
        pace = prediction.pace
        cores = self.problem.model.machine.cores
        if not pace.cpu < cores:
            return f"it would take {pace.cpu:.3g} cores of {cores}"
        for i, segment in enumerate(found.choice.segments):
            name = self.names[segment.root]
            if not within(pace.batch_s[i], pace.interval_s[i]):
                return (
                    f"{name} would not keep up: a batch would take "
                    f"{self._time(pace.batch_s[i])} every "
                    f"{self._time(pace.interval_s[i])}"
                )
        for i, segment in enumerate(found.choice.segments):
            bound = float(self.problem.recovery_bound[list(segment.operators)].min())
            if not within(prediction.phases.p95[i], bound):
                if not math.isfinite(prediction.phases.p95[i]):
                    return f"{self.names[segment.root]} would never catch up after a failure"
                return (
                    f"{self.names[segment.root]} would need "
                    f"{self._time(prediction.phases.p95[i])} to recover, above the bound of "
                    f"{self._time(bound)}"
                )
        if not within(prediction.results[1], bounds.outage_s):
            return (
                f"results would stay away for {self._time(prediction.results[1])}, above the bound "
                f"of {self._time(bounds.outage_s)}"
            )
        if not within(pace.end_to_end_s, bounds.latency_s):
            return (
                f"results would take {self._time(pace.end_to_end_s)}, above the bound of "
                f"{self._time(bounds.latency_s)}"
            )
        if not within(pace.overhead, bounds.overhead):
            return (
                f"the overhead would be {pace.overhead:.1%}, above the bound of "
                f"{bounds.overhead:.1%}"
            )
        return found.broken[0] if found.broken else ""

    def _time(self, seconds: float) -> str:
        return f"{float(seconds) / self.problem.model.time_s:.3g} {self.unit}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
