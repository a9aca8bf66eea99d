"""One request from problem to answer, with the reason and the nearest bounds if nothing fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from holdfast.errors import BadInputError
from holdfast.plan import JointPlan
from holdfast.planners.interface import PlanRequest, Solve, Sweep, SweepPoint
from holdfast.planners.joint.algorithms import ALGORITHMS
from holdfast.planners.joint.columns import Segments, all_segments, count_segments
from holdfast.planners.joint.exact import FEW_BARRED, MAX_BARRED, ExactSearch
from holdfast.planners.joint.exhaustive import count_plans, solve_exhaustive
from holdfast.planners.joint.large import solve_large
from holdfast.planners.joint.master import Solved
from holdfast.planners.joint.nearest import Nearest, nearest_bounds, say_bound
from holdfast.planners.joint.polish import Polish
from holdfast.planners.joint.problem import SLACK, Problem, make_problem
from holdfast.planners.joint.result import describe
from holdfast.planners.joint.search import Search, first_search
from holdfast.predict.replicas import follower_counts
from holdfast.topology.graph import Topology

MAX_SEGMENTS = 2_000
"""More candidate segments than this and `auto` takes a spread of them."""
MAX_SEGMENTS_EXACT = 100_000
"""More than this do not fit the memory of a laptop."""
MAX_LISTED = 20_000
"""So many plans are looked at one by one if need be."""
MANY_SEGMENTS = 300
"""Beyond so many a program takes long, and many plans are about as good as the best."""
SWEEP_POINTS = 16


@dataclass(slots=True, eq=False)
class Runner:
    """One algorithm for several problems that differ in their bounds only."""

    name: str
    solve: Solve
    _segments: Segments | None = field(default=None, init=False)
    _solved: Solved = field(default_factory=Solved, init=False)

    def run(self, problem: Problem) -> Search:
        """The cheapest plan."""
        return self._run(problem, first_search(problem), feasibility=False)

    def attempt(self, problem: Problem) -> Search:
        """The plan of least CPU among those with as many spares and nodes as can help."""
        return self._run(problem, Search(problem), feasibility=True)

    def _run(self, problem: Problem, search: Search, *, feasibility: bool) -> Search:
        match self.name:
            case "exhaustive":
                return solve_exhaustive(problem, search, self.solve)
            case "large":
                return solve_large(problem, search, self.solve, feasibility=feasibility)
        if self._segments is None:
            self._segments = all_segments(problem)
        few = feasibility or len(self._segments) > MANY_SEGMENTS
        barred = FEW_BARRED if few else MAX_BARRED
        found = ExactSearch(
            search,
            self._segments,
            self.solve,
            most_barred=barred,
            most_programs=0 if feasibility else FEW_BARRED,
            solved=self._solved,
        ).run((problem.largest,) if feasibility else None)
        if not found.proved and not feasibility and count_plans(problem) <= MAX_LISTED:
            # Too many plans are close to a bound for the program, but they can be listed.
            return solve_exhaustive(problem, found, self.solve)
        if not found.proved and not feasibility:
            Polish(search=found, solve=self.solve).run()
            found.proved = found.best is not None and found.bound >= found.best.cost - SLACK
        return found


def algorithm_for(problem: Problem, asked: str) -> str:
    """What `auto` means here, or one clear line why the algorithm does not apply."""
    if asked not in ALGORITHMS:
        raise BadInputError(
            f"method joint has no algorithm {asked!r}",
            where="--algorithm",
            hint=f"write one of {', '.join(ALGORITHMS)}",
        )
    count = count_segments(problem)
    if asked == "exact" and count > MAX_SEGMENTS_EXACT:
        raise BadInputError(
            f"there are {count:.3g} possible segments, too many to list",
            where="--algorithm",
            hint="write auto or large",
        )
    if asked == "auto":
        return "exact" if count <= MAX_SEGMENTS else "large"
    return asked


def make_plan(topology: Topology, request: PlanRequest, solve: Solve) -> JointPlan:
    """The cheapest plan within the bounds, or the nearest bounds that can be kept."""
    return replace(
        _plan(topology, request, solve),
        max_recovery=request.max_recovery,
        max_overhead=request.max_overhead,
        max_latency=request.max_latency,
        max_outage=request.max_outage,
        max_replicas=request.max_replicas,
    )


def _plan(topology: Topology, request: PlanRequest, solve: Solve) -> JointPlan:
    problem = make_problem(topology, request)
    runner = Runner(algorithm_for(problem, request.algorithm), solve)
    search = runner.run(problem)
    if search.best is None and not search.proved:
        # As the nearest bounds are looked for: what they tell can be kept must be found here too.
        tried = runner.attempt(problem)
        search.best = tried.best
    if search.best is None and request.max_replicas is None and _bounds_recovery(problem):
        hot = problem.with_replicas(math.inf)
        replicated = runner.run(hot)
        if replicated.best is not None:
            problem, search = hot, replicated
    if search.best is not None:
        stopped = solve.should_stop() and not search.optimal
        return describe(
            problem,
            search.best,
            algorithm=runner.name,
            optimal=search.optimal,
            bound=search.best.cost if search.optimal else _finite(search.bound),
            note="stopped early: the best plan found so far" if stopped else "",
        )
    if not search.proved and solve.should_stop():
        return JointPlan(
            algorithm=runner.name,
            feasible=False,
            note="stopped early: no plan found yet, and none excluded; allow more time",
        )
    nearest = nearest_bounds(problem, runner.attempt, solve)
    return JointPlan(
        algorithm=runner.name,
        feasible=False,
        nearest=nearest.alone,
        nearest_together=nearest.together,
        note=_why(problem, search, nearest, _enough_replicas(problem, request, runner)),
    )


def _enough_replicas(problem: Problem, request: PlanRequest, runner: Runner) -> int | None:
    """With how many followers there is a plan, if so many were not allowed; None: with none."""
    if request.max_replicas is None or not _bounds_recovery(problem):
        return None
    found = runner.attempt(problem.with_replicas(math.inf)).best
    if found is None:
        return None
    return sum(follower_counts(problem.model.load.shards, found.choice.segments))


def make_sweep(topology: Topology, request: PlanRequest, solve: Solve) -> Sweep | None:
    """Cost against the recovery bound, from the smallest that can be kept to none."""
    free = make_plan(topology, replace(request, max_recovery=None), solve)
    least = make_plan(topology, replace(request, max_recovery=0.0), solve)
    low = least.nearest.get("max_recovery")
    if not free.feasible or low is None:
        return None
    high = max(latency.p95 for latency in free.recovery_latency.values())
    points = []
    for bound in np.geomspace(low, max(high, low * 1.01), SWEEP_POINTS).tolist():
        if solve.should_stop():
            break
        plan = make_plan(topology, replace(request, max_recovery=bound), solve)
        points.append(
            SweepPoint(
                x=bound,
                y=plan.objective,
                label=f"{len(plan.boundaries)} boundaries, {plan.spares} spares",
                detail={
                    "boundaries": plan.boundaries,
                    "spares": plan.spares,
                    "overhead": plan.overhead,
                },
            )
        )
    return Sweep(
        title=f"{topology.name}: what a recovery bound costs",
        x_label=f"recovery bound, 95th percentile ({topology.unit.time})",
        y_label="cores beyond the uncut pipeline, spares included",
        points=tuple(points),
        step=True,
    )


def _bounds_recovery(problem: Problem) -> bool:
    return bool(np.isfinite(problem.recovery_bound).any()) or math.isfinite(problem.bounds.outage_s)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _why(problem: Problem, search: Search, nearest: Nearest, replicas: int | None) -> str:
    unit = problem.topology.unit.time
    said = "no plan keeps the bounds" if search.proved else "found no plan that keeps the bounds"
    ways = [say_bound(name, value, unit) for name, value in nearest.alone.items() if value]
    ways += [] if replicas is None else [f"--max-replicas {replicas}"]
    if ways:
        return f"{said}; the nearest that can be kept: {' or '.join(ways)}"
    if nearest.together:
        ways = [say_bound(name, value, unit) for name, value in nearest.together.items()]
        return f"{said}, nor would one alone help; these can be kept together: {', '.join(ways)}"
    broken = search.in_the_way()
    return f"{said}: {broken[0]}" if broken else said
