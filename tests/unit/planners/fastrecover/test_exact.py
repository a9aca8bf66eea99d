"""The exact algorithms against brute force over all partitions, and bounds that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.unit.planners.fastrecover.cases import (
    brute_force,
    chain_pairs,
    dag_pairs,
    every_anchor_set,
    overhead_goal,
    problem_of,
    random_topology,
    tree_pairs,
)

from holdfast.planners.fastrecover import dag as dag_module
from holdfast.planners.fastrecover.chain_exact import exact_chain
from holdfast.planners.fastrecover.dag import solve_dag
from holdfast.planners.fastrecover.frequencies import Goal, Rule
from holdfast.planners.fastrecover.large import solve_large
from holdfast.planners.fastrecover.tree_exact import exact_tree
from holdfast.planners.interface import Solve

pytestmark = pytest.mark.unit


def recovery_goal(topology, rng):
    least = sum(op.failure_rate * op.state_size for op in topology.operators) * 3e-7
    return Goal("recovery", float(max(least, 1e-6) * rng.uniform(0.9, 8)))


def check(outcome, best, tolerance):
    if math.isinf(best):
        assert outcome.solution is None
        return
    assert outcome.solution.objective == pytest.approx(best, rel=tolerance)
    assert outcome.solution.objective >= best * (1 - 1e-9)
    assert outcome.bound <= best * (1 + 1e-9)
    assert outcome.optimal


@pytest.mark.sample(seed=set(range(20)))
@pytest.mark.parametrize("seed", range(60))
def test_chains_equal_brute_force(seed):
    """Both questions, on chains of up to nine operators."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 10))
    topology = random_topology(rng, chain_pairs(size), size, rate=3000, wide=bool(seed % 2))
    for goal in (overhead_goal(topology, rng), recovery_goal(topology, rng)):
        outcome = exact_chain(problem_of(topology, goal), Solve())
        check(outcome, brute_force(topology, goal), 1e-9)


@pytest.mark.sample(seed=set(range(16)))
@pytest.mark.parametrize("seed", range(40))
def test_trees_and_forests_equal_brute_force(seed):
    """Both questions, with one or two roots and with stateless operators."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    topology = random_topology(
        rng,
        tree_pairs(rng, size, roots=1 + seed % 2),
        size,
        wide=bool(seed % 3),
        stateless=seed % 4 == 0,
    )
    for goal in (overhead_goal(topology, rng), recovery_goal(topology, rng)):
        outcome = exact_tree(problem_of(topology, goal), Solve())
        check(outcome, brute_force(topology, goal), 1e-3)


@pytest.mark.sample(seed=set(range(12)))
@pytest.mark.parametrize("seed", range(25))
def test_graphs_with_joins_equal_brute_force(seed):
    """Joins included, small graphs are solved and proved."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 9))
    topology = random_topology(rng, dag_pairs(rng, size), size, wide=bool(seed % 2))
    for goal in (overhead_goal(topology, rng), recovery_goal(topology, rng)):
        outcome = solve_dag(problem_of(topology, goal), Solve())
        check(outcome, brute_force(topology, goal), 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_the_relaxation_bounds_and_the_search_finds(seed, monkeypatch):
    """Without enumeration the plan is still within 0.1%, and the bound never above the optimum."""
    monkeypatch.setattr(dag_module, "ENUMERATE", 0)
    rng = np.random.default_rng(100 + seed)
    topology = random_topology(rng, dag_pairs(rng, 8), 8, wide=bool(seed % 2))
    goal = overhead_goal(topology, rng)
    outcome = solve_dag(problem_of(topology, goal), Solve())
    best = brute_force(topology, goal)
    assert best * (1 - 1e-9) <= outcome.solution.objective <= best * 1.001
    assert outcome.bound <= best * (1 + 1e-9)
    assert outcome.bound >= 0.9 * best


@pytest.mark.parametrize("shape", ["chain", "tree", "dag"])
@pytest.mark.parametrize(
    "rule",
    [
        Rule(),
        pytest.param(Rule(choices=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0)), marks=pytest.mark.slow),
    ],
)
def test_caps_and_lists_equal_trying_all_partitions(shape, rule):
    """Minimum intervals and lists of frequencies, on every shape, for both questions."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        pairs = {
            "chain": chain_pairs(7),
            "tree": tree_pairs(rng, 7),
            "dag": dag_pairs(rng, 6),
        }[shape]
        size = 6 if shape == "dag" else 7
        topology = random_topology(rng, pairs, size, capped=True, wide=bool(seed % 2))
        for goal in (overhead_goal(topology, rng), recovery_goal(topology, rng)):
            problem = problem_of(topology, goal, rule)
            best, tried = math.inf, problem_of(topology, goal, rule)
            for anchors in every_anchor_set(topology):
                chosen = np.zeros(size, bool)
                chosen[list(anchors)] = True
                found = tried.solve(chosen)
                best = min(best, math.inf if found is None else found.objective)
            solver = {"chain": exact_chain, "tree": exact_tree, "dag": solve_dag}[shape]
            outcome = solver(problem, Solve())
            check(outcome, best, 1e-3)
            if outcome.solution is not None:
                eta = outcome.solution.frequency
                assert (eta <= problem.model.max_frequency).all()
                assert not rule.choices or set(eta.tolist()) <= set(rule.choices)


# To prove the tree of seed 5 takes twenty seconds, all others together take one.
@pytest.mark.sample(seed={0, 1, 2, 3, 4, 6})
@pytest.mark.parametrize("seed", range(7))
def test_the_large_algorithm_is_bounded_by_the_exact_one(seed):
    """Blocks, windows and forests give plans no better than the optimum and valid bounds."""
    rng = np.random.default_rng(seed)
    size = 120
    chain = random_topology(rng, chain_pairs(size), size, wide=True)
    tree = random_topology(rng, tree_pairs(rng, 60), 60, wide=True)
    for topology, exact in ((chain, exact_chain), (tree, exact_tree)):
        goal = overhead_goal(topology, rng)
        best = exact(problem_of(topology, goal), Solve())
        found = solve_large(problem_of(topology, goal), Solve())
        assert found.solution.objective >= best.bound * (1 - 1e-9)
        assert found.bound <= best.solution.objective * (1 + 1e-9)
        assert found.solution.objective <= best.solution.objective * 1.02


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_large_graphs_with_joins_get_a_plan_and_a_bound(seed):
    """A plan within the bound asked for, no better than what the search proves possible."""
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, dag_pairs(rng, 30), 30)
    goal = overhead_goal(topology, rng)
    found = solve_large(problem_of(topology, goal), Solve())
    best = solve_dag(problem_of(topology, goal), Solve())
    assert found.solution.allocation.overhead <= goal.limit
    assert found.bound <= best.solution.objective * (1 + 1e-9)
    assert found.solution.objective >= best.bound * (1 - 1e-9)


@pytest.mark.parametrize("solver", [exact_chain, solve_large])
def test_stopping_at_once_still_gives_a_plan(solver):
    """Whoever has no time gets a feasible plan and no false proof."""
    rng = np.random.default_rng(5)
    topology = random_topology(rng, chain_pairs(60), 60, wide=True)
    goal = overhead_goal(topology, rng)
    outcome = solver(problem_of(topology, goal), Solve(should_stop=lambda: True))
    best = exact_chain(problem_of(topology, goal), Solve())
    assert outcome.solution.allocation.overhead <= goal.limit
    assert outcome.solution.objective >= best.solution.objective * (1 - 1e-9)
    assert outcome.bound <= best.solution.objective * (1 + 1e-9)
