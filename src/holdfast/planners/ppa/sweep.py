"""Fidelity against the replica budget: the curve behind `holdfast plan --sweep`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from holdfast.planners.interface import PlanRequest, Progress, Solve, Sweep, SweepPoint
from holdfast.planners.ppa.greedy import greedy
from holdfast.planners.ppa.problem import Choice, Problem, problem_of
from holdfast.topology.graph import Topology

POINTS = 40
"""Budgets tried at most, evenly spread."""


def sweep_budget(
    topology: Topology,
    request: PlanRequest,
    solve: Solve,
    algorithm: Callable[[Problem, Solve], Choice],
) -> Sweep:
    """Plan for budgets from the cost of the required tasks up to that of all.

    A plan for a smaller budget is one for a larger too, so the curve never falls, also where a
    heuristic found less with more.
    """
    everything = problem_of(topology, replace(request, replicas=np.finfo(float).max))
    low = everything.price(everything.base)
    high = everything.price(everything.most)
    budgets = _budgets(everything, low, high)
    if request.replicas is not None and low <= request.replicas <= high:
        budgets = sorted({*budgets, float(request.replicas)})
    points: list[SweepPoint] = []
    marks: list[SweepPoint] = []
    best = -1.0
    replicas: list[str] = []
    for budget in budgets:
        if solve.should_stop():
            break
        problem = problem_of(topology, replace(request, replicas=budget))
        choice = algorithm(problem, solve)
        value = problem.model.fidelity(choice.chosen)
        if value > best:
            best = value
            replicas = [problem.model.names[t] for t in np.flatnonzero(choice.chosen)]
        detail = {"replicas": list(replicas), "optimal": choice.optimal, "bound": choice.bound}
        points.append(SweepPoint(x=budget, y=best, detail=detail))
        solve.report(Progress(message=f"budget {budget:g} of {high:g}", objective=best))
        if request.replicas is not None and budget == request.replicas:
            reached = problem.model.fidelity(greedy(problem, solve).chosen)
            marks = [
                SweepPoint(x=budget, y=best, label="plan"),
                SweepPoint(x=budget, y=reached, label="greedy"),
            ]
    return Sweep(
        title=f"Fidelity of {topology.name} against the replica budget",
        x_label="replica budget",
        y_label="fidelity with everything else failed",
        points=tuple(points),
        marks=tuple(marks),
        step=True,
    )


def _budgets(problem: Problem, low: float, high: float) -> list[float]:
    costs = problem.cost[problem.open]
    is_whole = bool(np.all(costs == np.round(costs))) and low == round(low)
    points = np.linspace(low, high, POINTS)
    return sorted(set(np.round(points).tolist())) if is_whole else sorted(set(points.tolist()))
