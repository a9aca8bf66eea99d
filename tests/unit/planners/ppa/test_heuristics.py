"""The structure-aware plan, its baselines, and how near they come."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._ppa_common import small_topology
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planners.ppa.shapes import few_trees, fig5, mixed, shape

from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import sa as sa_module
from holdfast.planners.ppa.completion import cheapest_tree, completer
from holdfast.planners.ppa.exact import exact
from holdfast.planners.ppa.greedy import greedy
from holdfast.planners.ppa.problem import problem_of
from holdfast.planners.ppa.sa import sa
from holdfast.planners.ppa.sa_as_printed import sa_as_printed
from holdfast.testing.generators import ppa_random

pytestmark = pytest.mark.unit
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.slow
def test_sa_is_within_a_tenth_of_the_optimum_on_mixed_topologies():
    """On about 37 tasks: at least 90% on average, never below greedy, far above the print."""
    ratios, printed = [], []
    for topology in mixed(5):
        for share in (0.3, 0.5):
            problem = problem_of(topology, PlanRequest(replicas=int(topology.task_count * share)))
            best = exact(problem, Solve())
            assert best.optimal
            value = problem.model.fidelity(best.chosen)
            if value == 0:
                continue
            reached = problem.model.fidelity(sa(problem, Solve()).chosen)
            assert reached >= problem.model.fidelity(greedy(problem, Solve()).chosen)
            assert reached <= value + 1e-9
            ratios.append(reached / value)
            literal = sa_as_printed(problem, Solve()).chosen
            assert problem.fits(literal)
            printed.append(problem.model.fidelity(literal) / value)
    assert np.mean(ratios) >= 0.9
    assert np.mean(printed) < np.mean(ratios) - 0.1


@given(seeds, st.booleans())
def test_sa_plans_something_whenever_a_tree_fits(seed, is_large):
    """A plan is never empty when one tree fits; it fits, and is never below greedy."""
    rng = np.random.default_rng(seed)
    topology = small_topology(rng, costs=bool(rng.random() < 0.5))
    costs = problem_of(topology, PlanRequest(replicas=0)).cost
    listed = few_trees(problem_of(topology, PlanRequest(replicas=0)).model)
    trees = [float(costs[list(tree.tasks)].sum()) for tree in listed]
    problem = problem_of(topology, PlanRequest(replicas=min(trees)))
    with pytest.MonkeyPatch.context() as patch:
        if is_large:
            # The way taken on large topologies, on small ones.
            patch.setattr(sa_module, "POLISH_TASKS", 0)
            patch.setattr(sa_module, "SINGLE_STEPS", 0)
        choice = sa(problem, Solve())
    value = problem.model.fidelity(choice.chosen)
    assert value > 0
    assert problem.fits(choice.chosen)
    assert value >= problem.model.fidelity(greedy(problem, Solve()).chosen) - 1e-12
    below = problem_of(topology, PlanRequest(replicas=min(trees) * 0.99))
    assert below.model.fidelity(sa(below, Solve()).chosen) == 0


@given(seeds)
def test_the_cheapest_tree_is_found_also_where_branches_share_tasks(seed):
    """The set-cover program agrees with the list of all trees."""
    topology = small_topology(np.random.default_rng(seed), costs=True)
    problem = problem_of(topology, PlanRequest(replicas=1000))
    wanted = min(float(problem.cost[list(t.tasks)].sum()) for t in few_trees(problem.model))
    found = cheapest_tree(problem, Solve())
    assert found is not None
    assert problem.price(found) == pytest.approx(wanted)


@given(seeds)
def test_every_extension_completes_a_tree(seed):
    """Adding an extension raises fidelity, from nothing and from any plan."""
    rng = np.random.default_rng(seed)
    problem = problem_of(small_topology(rng), PlanRequest(replicas=1000))
    helper = completer(problem)
    for chosen in (problem.base, rng.random(problem.size) < 0.4):
        before = problem.model.fidelity(chosen)
        for added in helper.extensions(chosen):
            grown = chosen.copy()
            grown[added] = True
            assert not chosen[added].any()
            assert problem.model.fidelity(grown) > before


def test_large_topologies_are_planned_above_greedy():
    """The coarse ways keep the promise on some hundred tasks."""
    topology = ppa_random(30, parallelism=(5, 10), full=0.5, joins=0.3, seed=5)
    for share in (0.2, 0.5, 0.8):
        problem = problem_of(topology, PlanRequest(replicas=int(topology.task_count * share)))
        choice = sa(problem, Solve())
        value = problem.model.fidelity(choice.chosen)
        assert problem.fits(choice.chosen)
        assert value > 0
        assert value >= problem.model.fidelity(greedy(problem, Solve()).chosen)


def test_sa_stopped_at_once_still_fits():
    """Without any time the plan is the baseline's, and it says so."""
    problem = problem_of(mixed(1)[0], PlanRequest(replicas=20))
    choice = sa(problem, Solve(should_stop=lambda: True))
    assert problem.fits(choice.chosen)
    assert "stopped early" in choice.note


def test_greedy_ranks_by_single_failures():
    """The root of a merge tree hurts most, then its children; no tree is complete with three."""
    problem = problem_of(fig5(), PlanRequest(replicas=3))
    chosen = greedy(problem, Solve()).chosen
    assert np.flatnonzero(chosen).tolist() == [4, 5, 6]
    assert problem.model.fidelity(chosen) == 0


def test_the_print_gives_up_where_first_plans_do_not_fit():
    """A short query would fit, but one task of every operator does not: the print plans nothing."""
    topology = shape([2, 2, 2, 2], [(0, 1, "full"), (1, 2, "full"), (1, 3, "full")])
    problem = problem_of(topology, PlanRequest(replicas=3))
    assert problem.model.fidelity(sa_as_printed(problem, Solve()).chosen) == 0
    assert problem.model.fidelity(sa(problem, Solve()).chosen) > 0
