"""The thesis' own algorithms, corrected: grids and relaxed synchronisation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.unit.planners.fastrecover.cases import (
    chain_pairs,
    overhead_goal,
    problem_of,
    random_topology,
    reference_costs,
    tree_pairs,
)

from holdfast.planners.fastrecover.chain_exact import exact_chain
from holdfast.planners.fastrecover.chain_grid import chain_on_grid
from holdfast.planners.fastrecover.checkpointing import checkpoint_model
from holdfast.planners.fastrecover.frequencies import Goal
from holdfast.planners.fastrecover.rsrfs import rsrfs
from holdfast.planners.fastrecover.rsrfs_exact import Pool, add_to_pools, rsrfs_exact
from holdfast.planners.fastrecover.tree_exact import exact_tree
from holdfast.planners.fastrecover.tree_grid import share_out, tree_on_grid
from holdfast.planners.interface import Solve

pytestmark = pytest.mark.unit


def stretches(anchors, size):
    starts = sorted(anchors)
    return [list(range(a, b)) for a, b in zip(starts, [*starts[1:], size], strict=True)]


def literal_grid(topology, limit, steps):
    """Algorithm 1 as a recursion over whole steps."""
    size = len(topology.operators)
    width = limit / steps
    rows = {}
    for h in range(size):
        for e in range(h, size):
            anchors = frozenset({0, h, e + 1} & set(range(size)))
            for members, row in zip(
                stretches(anchors, size), reference_costs(topology, anchors), strict=True
            ):
                rows[members[0], members[-1]] = row

    def least(end, left):
        if end < 0:
            return 0.0
        best = math.inf
        for h in range(end + 1):
            K, a, b, D = rows[h, end]
            for used in range(1, left + 1):
                room = used * width - D
                if room > 0:
                    best = min(best, K + a * b / room + least(h - 1, left - used))
        return best

    return least(size - 1, steps)


@pytest.mark.parametrize("seed", range(6))
def test_algorithm_1_is_its_recursion(seed):
    """The table equals the recursion, a single segment and all steps in one share included."""
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, chain_pairs(3), 3, rate=3000)
    goal = overhead_goal(topology, rng)
    found = chain_on_grid(problem_of(topology, goal), Solve(), steps=8)
    want = literal_grid(topology, goal.limit, 8)
    assert (found.solution is None) == math.isinf(want)
    if found.solution is not None:
        assert found.solution.objective == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_finer_grids_approach_the_optimum(seed):
    """Doubling the steps never hurts, and many steps come close."""
    rng = np.random.default_rng(seed)
    chain = random_topology(rng, chain_pairs(6), 6, rate=3000)
    goal = Goal("overhead", 0.6)
    values = [
        chain_on_grid(problem_of(chain, goal), Solve(), steps=steps).solution.objective
        for steps in (60, 120, 240)
    ]
    best = exact_chain(problem_of(chain, goal), Solve()).solution.objective
    assert values[0] >= values[1] >= values[2] >= best * (1 - 1e-9)
    assert values[2] <= best * 1.06


@pytest.mark.sample(seed={0, 1, 2})
@pytest.mark.parametrize("seed", range(6))
def test_algorithm_2_never_beats_the_optimum_nor_its_bound(seed):
    """The tree grid's plan is feasible, above the optimum, and better on a finer grid."""
    rng = np.random.default_rng(seed)
    tree = random_topology(rng, tree_pairs(rng, 7), 7)
    goal = Goal("overhead", 0.5)
    best = exact_tree(problem_of(tree, goal), Solve())
    coarse = tree_on_grid(problem_of(tree, goal), Solve())
    fine = tree_on_grid(problem_of(tree, goal), Solve(), steps=160, frequencies=400)
    assert coarse.solution.allocation.overhead <= goal.limit
    assert coarse.solution.objective >= best.bound
    assert best.bound <= fine.solution.objective <= best.solution.objective * 1.15
    assert fine.solution.objective <= coarse.solution.objective


def test_children_share_overhead_by_knapsack():
    """Merging two tables equals trying every split."""
    rng = np.random.default_rng(0)
    first, second = np.sort(rng.random((2, 3, 9)))[:, :, ::-1]
    best, part = share_out(first, second)
    for row, c in itertools.product(range(3), range(9)):
        options = [first[row, c - used] + second[row, used] for used in range(c + 1)]
        assert best[row, c] == min(options)
        assert options[part[row, c]] == min(options)


def multiples(solution):
    order = solution.partition.model.topology.order
    for before, i in itertools.pairwise(order):
        if not solution.anchors[i]:
            ratio = solution.frequency[before] / solution.frequency[i]
            assert ratio == pytest.approx(round(ratio), rel=1e-9)
            assert ratio >= 1 - 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_exchanges_help_and_keep_multiples(seed):
    """Section 3.3 lowers recovery, keeps the bound, and frequencies divide one another."""
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, chain_pairs(9), 9, rate=3000, wide=True)
    goal = Goal("overhead", 0.6)
    start = chain_on_grid(problem_of(topology, goal), Solve())
    found = rsrfs(problem_of(topology, goal), Solve())
    assert found.solution.objective <= start.solution.objective * (1 + 1e-12)
    assert found.solution.allocation.overhead <= goal.limit
    multiples(found.solution)


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_form_is_at_least_as_good(seed):
    """Better than one frequency per segment and than exchanges, within 4.1% of its bound."""
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, chain_pairs(9), 9, rate=3000, wide=True)
    goal = Goal("overhead", 0.6)
    found = rsrfs_exact(problem_of(topology, goal), Solve())
    assert found.solution.allocation.overhead <= goal.limit
    assert found.solution.objective <= rsrfs(problem_of(topology, goal), Solve()).solution.objective
    plain = exact_chain(problem_of(topology, goal), Solve()).solution.objective
    assert found.bound <= plain * (1 + 1e-6)
    assert found.solution.objective <= plain * (1 + 1e-6)
    assert found.solution.objective <= found.bound * 1.041
    multiples(found.solution)


def test_relaxed_frequencies_equal_brute_force_over_powers():
    """On three operators, no partition and no powers of two do better."""
    topology = random_topology(np.random.default_rng(4), chain_pairs(3), 3, rate=3000, wide=True)
    goal = Goal("overhead", 0.5)
    model = checkpoint_model(topology)
    best = math.inf
    for anchors in ((0,), (0, 1), (0, 2), (0, 1, 2)):
        chosen = np.isin(np.arange(3), anchors)
        room = goal.limit - float(model.save[chosen].sum())
        if room <= 0:
            continue
        parts = problem_of(topology, goal).solve(chosen).partition
        a, b = model.failure * parts.exposure.rework, model.state
        ranges = [range(1) if chosen[i] else range(-6, 1) for i in range(3)]
        total = math.inf
        for steps in itertools.product(*ranges):
            scale = np.zeros(3)
            for i in range(3):
                scale[i] = 1.0 if chosen[i] else scale[i - 1] * 2.0 ** steps[i]
            costs = [
                math.sqrt((a[m] / scale[m]).sum() * (b[m] * scale[m]).sum())
                for m in stretches(anchors, 3)
            ]
            total = min(total, sum(costs))
        best = min(best, float(parts.fixed.sum()) + total**2 / room)
    found = rsrfs_exact(problem_of(topology, goal), Solve())
    assert found.solution.objective == pytest.approx(best, rel=1e-6)


def test_pools_fall_along_the_segment():
    """Pooling leaves ratios that strictly fall, and loses nothing."""
    rng = np.random.default_rng(3)
    pools: list[Pool] = []
    replay, write = rng.random(20), rng.random(20)
    for i in range(20):
        add_to_pools(pools, i, replay[i], write[i])
    ratios = [pool.replay / pool.write for pool in pools]
    assert all(x > y for x, y in itertools.pairwise(ratios))
    assert sum(pool.replay for pool in pools) == pytest.approx(replay.sum())
    assert [pool.first for pool in pools[1:]] == [pool.last + 1 for pool in pools[:-1]]
