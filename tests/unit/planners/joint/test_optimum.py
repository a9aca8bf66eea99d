"""The exact planner against brute force, and the bounds of the one for large topologies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.joint.columns import all_segments, count_segments
from holdfast.planners.joint.exhaustive import choice_of, tables
from holdfast.planners.joint.problem import make_problem
from holdfast.planners.joint.relaxed import lower_bound
from holdfast.planners.joint.run import make_plan
from holdfast.predict.statistics import REFERENCE_MACHINE, Statistics
from holdfast.testing.generators import chain, in_tree
from holdfast.testing.joint import random_joint_problem

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("seed", range(24))
def test_exact_equals_brute_force(seed: int) -> None:
    """The same cost as the best of all plans, or infeasible when all plans are."""
    topology, request = random_joint_problem(seed, most_operators=6)
    problem = make_problem(topology, request)
    best = min(
        float(np.where(table.feasible(problem), table.cost, np.inf).min())
        for table in tables(problem)
    )
    found = make_plan(topology, request, Solve())
    assert found.feasible == np.isfinite(best)
    if found.feasible:
        assert found.optimal
        assert found.objective == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_large_is_within_its_bound(seed: int) -> None:
    """The bound is below the optimum and the plan keeps its promises."""
    topology, request = random_joint_problem(seed, most_operators=8)
    exact = make_plan(topology, request, Solve())
    found = make_plan(topology, replace(request, algorithm="large"), Solve())
    floor = lower_bound(make_problem(topology, request))
    if exact.objective is not None:
        assert floor <= exact.objective + 1e-9
    if found.objective is not None:
        assert exact.objective is not None
        assert found.objective >= exact.objective - 1e-9
        assert not found.optimal or found.objective == pytest.approx(exact.objective)


@pytest.mark.parametrize("seed", range(100, 103))
def test_nearest_bounds_are_the_nearest(seed: int) -> None:
    """Brute force knows no smaller bound, beyond the resolution of the search."""
    topology, request = random_joint_problem(seed, most_operators=5)
    hard = replace(request, max_recovery=1.0, max_latency=None, max_overhead=None)
    problem = make_problem(topology, hard)
    free = problem.with_bounds(replace(problem.bounds, recovery_s=np.inf))
    smallest = min(
        float(np.where(table.feasible(free), table.excess, np.inf).min()) for table in tables(free)
    )
    nearest = make_plan(topology, hard, Solve()).nearest["max_recovery"]
    assert nearest == pytest.approx(smallest, rel=2e-3)
    assert nearest is not None
    assert make_plan(topology, replace(hard, max_recovery=nearest), Solve()).feasible


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_and_the_model_agree(seed: int) -> None:
    """The tables of brute force hold what the model predicts for the plan of a row."""
    topology, request = random_joint_problem(seed, most_operators=5)
    problem = make_problem(topology, request)
    rng = np.random.default_rng(seed)
    for table in tables(problem):
        row = int(rng.integers(len(table.cost)))
        found = problem.evaluate(choice_of(problem, table, row))
        assert found.cost == pytest.approx(table.cost[row])
        assert (not found.broken) == bool(table.feasible(problem)[row])


def test_segments_are_counted_as_they_are_listed() -> None:
    """The count that decides about listing is the length of the list."""
    for seed in range(10):
        problem = make_problem(*random_joint_problem(seed))
        segments = all_segments(problem)
        assert count_segments(problem) == len(segments)
        assert len(set(segments.operators)) == len(segments)
        for part, demand in zip(segments.operators, segments.demand, strict=True):
            assert demand == pytest.approx(problem.model.demands.of(part))


def test_intervals_do_not_shrink_downstream() -> None:
    """No segment of a plan is meant to run more often than what it reads."""
    for seed in range(10):
        topology, request = random_joint_problem(seed)
        found = make_plan(topology, request, Solve())
        of = {name: s.batch_epochs for s in found.segments for name in s.operators}
        for edge in topology.edges:
            if found.feasible:
                assert of[edge.source] <= of[edge.target]


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_many_operators(shape: str) -> None:
    """A chain of many operators is solved to optimality, a wide tree close to it."""
    made = chain(60) if shape == "chain" else in_tree(60, seed=3)
    topology = replace(
        made,
        operators=tuple(
            replace(o, cost=1e-5, tuple_size=0.1, state_size=0.0, failure_rate=0.0)
            for o in made.operators
        ),
        rates=dict.fromkeys(made.rates, 3000.0 if shape == "chain" else 1200.0),
    )
    request = PlanRequest(
        max_recovery=10.0, statistics=Statistics(machine=replace(REFERENCE_MACHINE, cores=32))
    )
    found = make_plan(topology, request, Solve())
    assert found.feasible
    assert found.bound is not None
    assert found.objective is not None
    if shape == "chain":
        assert found.optimal
    else:
        assert found.algorithm == "large"
        assert found.objective <= found.bound * 1.2
