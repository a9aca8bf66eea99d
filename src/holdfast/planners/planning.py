"""One planning call from the outside: options checked, time limited, interruptible, timed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Literal, get_args

import numpy as np

from holdfast.clock import Clock
from holdfast.errors import BadInputError
from holdfast.plan import JointPlan, Plan
from holdfast.planners.interface import Planner, PlanRequest, Progress, Solve, Sweep
from holdfast.planners.registry import planner as find_planner
from holdfast.predict.statistics import Statistics
from holdfast.quantities import TIME_UNITS
from holdfast.topology.graph import Topology

Objective = Literal["cheapest", "fastest-recovery", "least-latency"]
_OBJECTIVES = {"fastest-recovery": "max_recovery", "least-latency": "max_latency"}
_ROOM = 1e-6


def make_solve(
    clock: Clock,
    *,
    time_limit_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    report: Callable[[Progress], None] = lambda _progress: None,
    seed: int = 0,
) -> Solve:
    """A `Solve` that ends at a time limit or when `interrupted` says so."""
    end = None if time_limit_s is None else clock.now() + time_limit_s

    def seconds_left() -> float | None:
        return None if end is None else max(0.0, end - clock.now())

    return Solve(
        should_stop=lambda: interrupted() or (end is not None and clock.now() >= end),
        seconds_left=seconds_left,
        report=report,
        rng=np.random.default_rng(seed),
    )


def make_plan(
    planner: Planner, topology: Topology, request: PlanRequest, solve: Solve, clock: Clock
) -> Plan:
    """Check the request, plan, and say how long it took."""
    check_request(planner, request)
    start = clock.now()
    result = planner.plan(topology, request, solve)
    took_ms = round((clock.now() - start) * 1000, 3)
    # A bound that says nothing is none: a plan knows no infinity.
    bound = result.bound if result.bound is not None and math.isfinite(result.bound) else None
    return replace(result, solve_ms=took_ms, bound=bound)


def make_best_plan(
    planner: Planner,
    topology: Topology,
    request: PlanRequest,
    solve: Solve,
    clock: Clock,
    *,
    objective: Objective = "cheapest",
) -> Plan:
    """The plan that is best in one respect, and the cheapest of those that are.

    A joint plan that cannot keep a bound says the nearest one that can be kept; so the shortest
    recovery is the nearest to a bound of nothing, with all other bounds as they are.
    """
    if objective not in get_args(Objective):
        raise BadInputError(
            f"there is no objective {objective!r}",
            where="objective",
            hint=f"write one of {', '.join(get_args(Objective))}",
        )
    if objective == "cheapest":
        return make_plan(planner, topology, request, solve, clock)
    if planner.method != "joint":
        raise BadInputError(
            f"method {planner.method} has an objective of its own",
            where=f"--objective {objective}",
            hint="choose --method joint, or leave it out",
        )
    name = _OBJECTIVES[objective]
    asked = getattr(request, name)
    start = clock.now()
    # 0 itself could only be asked for by mistake, and would be kept by no plan.
    tried = make_plan(planner, topology, _bounded(request, name, 0.0), solve, clock)
    least = tried.nearest.get(name) if isinstance(tried, JointPlan) else None
    if least is None or (asked is not None and least > asked):
        return make_plan(planner, topology, request, solve, clock)
    # Found by bisection, so it may be a hair below what a plan achieves.
    bound = least * (1 + _ROOM)
    best = make_plan(planner, topology, _bounded(request, name, bound), solve, clock)
    return replace(best, solve_ms=round((clock.now() - start) * 1000, 3))


def _bounded(request: PlanRequest, name: str, bound: float) -> PlanRequest:
    if name == "max_recovery":
        return replace(request, max_recovery=bound)
    return replace(request, max_latency=bound)


def make_sweep(planner: Planner, topology: Topology, request: PlanRequest, solve: Solve) -> Sweep:
    """The trade-off curve of a method, or one clear line when it has none."""
    check_request(planner, request)
    sweep = planner.sweep(topology, request, solve)
    if sweep is None:
        raise BadInputError(
            f"method {planner.method} has no trade-off curve for this request", where="--sweep"
        )
    return sweep


def check_request(planner: Planner, request: PlanRequest) -> None:
    """Refuse options that the method would silently ignore."""
    if request.algorithm not in planner.algorithms:
        raise BadInputError(
            f"method {planner.method} has no algorithm {request.algorithm!r}",
            where="--algorithm",
            hint=f"write one of {', '.join(planner.algorithms)}",
        )
    for field in fields(PlanRequest):
        if field.name == "algorithm" or field.name in planner.uses:
            continue
        if getattr(request, field.name) != field.default:
            raise BadInputError(
                f"method {planner.method} does not use it",
                where=f"--{field.name.replace('_', '-')}",
                hint="leave it out or choose another --method",
            )


def as_units(
    planner: Planner, topology: Topology, statistics: Statistics | None
) -> tuple[Topology, Statistics | None]:
    """What a method plans for a pipeline, whose units are what fails and is replicated."""
    if planner.method != "ppa":
        return topology, statistics
    from holdfast.planners.ppa.units import unit_graph  # noqa: PLC0415 - only here

    return unit_graph(topology, statistics), None


def as_measured(
    planner: Planner, topology: Topology, request: PlanRequest
) -> tuple[Topology, PlanRequest]:
    """What a method that knows nothing of Spark plans when there are statistics.

    A topology in seconds and bytes with the measured numbers, and a request in seconds.
    """
    if request.statistics is None or "statistics" in planner.uses:
        return topology, request
    if "max_recovery" not in planner.uses:
        return topology, request  # to be refused like every option a method does not use
    if len(request.intervals) > 1:
        raise BadInputError(
            f"method {planner.method} plans for one batch interval, not for a choice of them",
            where="--intervals",
            hint="give one, or choose --method joint",
        )
    from holdfast.predict.measured import measured  # noqa: PLC0415 - only here

    scale = TIME_UNITS[topology.unit.time]
    found = measured(
        topology,
        request.statistics,
        interval_s=request.intervals[0] * scale if request.intervals else None,
        expected=request.expected,
    )
    bound = request.max_recovery
    return found.topology, replace(
        request,
        statistics=None,
        intervals=(),
        max_recovery=None if bound is None else bound * scale,
        restart=found.restart_s if "restart" in planner.uses else 0.0,
    )


def plan_topology(
    topology: Topology,
    request: PlanRequest | None = None,
    *,
    clock: Clock,
    method: str = "ftc",
    time_limit_s: float | None = 30.0,
    seed: int = 0,
) -> Plan:
    """Plan a topology from Python, as `holdfast plan` does."""
    solve = make_solve(clock, time_limit_s=time_limit_s, seed=seed)
    planner = find_planner(method)
    topology, request = as_measured(planner, topology, request or PlanRequest())
    return make_plan(planner, topology, request, solve, clock)
