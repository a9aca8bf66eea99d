"""The exact planner against brute force, and the bounds of the one for large topologies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.joint.columns import all_segments, count_segments
from holdfast.planners.joint.exhaustive import segments_in, tables
from holdfast.planners.joint.placing import partitions
from holdfast.planners.joint.problem import Choice, make_problem
from holdfast.planners.joint.relaxed import lower_bound
from holdfast.planners.joint.run import make_plan
from holdfast.predict.statistics import REFERENCE_MACHINE, Statistics
from holdfast.testing.generators import chain, in_tree
from holdfast.testing.joint import brute_force_case, every_plan, random_joint_problem

pytestmark = pytest.mark.unit


@pytest.mark.sample(seed={2, 5, 10})
@pytest.mark.parametrize("seed", [2, 5, 8, pytest.param(10, marks=pytest.mark.slow), 12])
def test_exact_equals_brute_force(seed: int) -> None:
    """The same cost as the best of all plans, or infeasible when all plans are."""
    case = brute_force_case(seed)
    best = every_plan(case.problem)
    found = make_plan(case.topology, case.request, Solve())
    assert found.feasible == np.isfinite(best)
    if found.feasible:
        assert found.optimal
        assert found.objective == pytest.approx(best, abs=1e-8)


@pytest.mark.slow
@pytest.mark.sample(seed=4)
@pytest.mark.parametrize("seed", [1, 4, 5])
def test_large_is_within_its_bound(seed: int) -> None:
    """The bound is below the optimum and the plan keeps its promises."""
    topology, request = random_joint_problem(seed, most_operators=6)
    exact = make_plan(topology, request, Solve())
    found = make_plan(topology, replace(request, algorithm="large"), Solve())
    floor = lower_bound(make_problem(topology, request))
    if exact.objective is not None:
        assert floor <= exact.objective + 1e-9
    if found.objective is not None:
        assert exact.objective is not None
        assert found.objective >= exact.objective - 1e-9
        assert not found.optimal or found.objective == pytest.approx(exact.objective)


@pytest.mark.slow
@pytest.mark.sample(seed=100)
@pytest.mark.parametrize("seed", range(100, 102))
def test_nearest_bounds_can_be_kept(seed: int) -> None:
    """A plan keeps the bound that is told to be the nearest."""
    topology, request = random_joint_problem(seed, most_operators=5)
    hard = replace(request, max_recovery=0.3, max_latency=None, max_overhead=None)
    nearest = make_plan(topology, hard, Solve()).nearest["max_recovery"]
    assert nearest is not None
    assert make_plan(topology, replace(hard, max_recovery=nearest), Solve()).feasible


@pytest.mark.parametrize("seed", range(3))
def test_the_tables_leave_out_nothing_that_keeps_the_bounds(seed: int) -> None:
    """What brute force does not look at whole is broken, and CPU is as the model says."""
    topology, request = random_joint_problem(seed, most_operators=4)
    problem = make_problem(topology, request)
    rng = np.random.default_rng(seed)
    for table in tables(problem, 1):
        row = int(rng.integers(len(table.cpu)))
        found = problem.evaluate(Choice(segments=segments_in(problem, table, row), spares=1))
        assert found.prediction.pace.cpu == pytest.approx(table.cpu[row])
        assert table.may[row] or found.broken


def test_every_placement_is_listed_once() -> None:
    """Stirling's numbers: 25 ways to put five segments on three nodes."""
    found = list(partitions(5, 3))
    assert len(found) == len(set(found)) == 25
    assert all(sorted(i for node in nodes for i in node) == list(range(5)) for nodes in found)


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
    for seed in (1, 2, 5):
        topology, request = random_joint_problem(seed, most_operators=5)
        found = make_plan(topology, request, Solve())
        of = {name: s.batch_epochs for s in found.segments for name in s.operators}
        for edge in topology.edges:
            if found.feasible:
                assert of[edge.source] <= of[edge.target]


@pytest.mark.sample(number=30)
@pytest.mark.parametrize("number", [30, 60])
@pytest.mark.parametrize("shape", [pytest.param("chain", marks=pytest.mark.slow), "tree"])
def test_many_operators(shape: str, number: int) -> None:
    """A chain of many operators and a wide tree are planned close to the bound."""
    made = chain(number) if shape == "chain" else in_tree(number, seed=3)
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
    assert found.algorithm == ("exact" if shape == "chain" else "large")
    assert found.objective <= found.bound + 0.5
