"""The algorithms that promise the optimum, against every set of tasks; and the bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks._ppa_common import all_sets, brute_force, costs_of, judge, small_topology
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.planners.ppa.shapes import mixed, shape

from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa.auto import auto
from holdfast.planners.ppa.dp import dp
from holdfast.planners.ppa.exact import exact, undominated
from holdfast.planners.ppa.problem import Problem, problem_of
from holdfast.planners.ppa.relaxation import upper_bound

pytestmark = pytest.mark.unit


def small_problem(seed: int) -> tuple[Problem, float]:
    """A random problem with its optimum: some with unlike costs, some with pinned tasks."""
    rng = np.random.default_rng(seed)
    topology = small_topology(rng, most_tasks=13, costs=bool(rng.random() < 0.3))
    total = float(costs_of(topology).sum())
    budget = round(total * float(rng.choice([0.3, 0.5, 0.7, 0.9])) * 2) / 2
    names = [op.task_name(k) for op in topology.operators for k in range(op.parallelism)]
    picks = rng.permutation(len(names))[: 2 if rng.random() < 0.3 else 0].tolist()
    required, forbidden = picks[:1], picks[1:]
    wanted = brute_force(topology, budget, required=required, forbidden=forbidden)
    request = PlanRequest(
        replicas=budget,
        required=tuple(names[t] for t in required),
        forbidden=tuple(names[t] for t in forbidden),
    )
    problem = problem_of(topology, request)
    assert (wanted is None) == (problem.left < 0)
    return problem, -1.0 if wanted is None else wanted


@given(st.integers(0, 2**32 - 1))
def test_exact_auto_and_dp_equal_brute_force(seed):
    """The proved optimum is the best of all sets, within the budget and the pins."""
    problem, wanted = small_problem(seed)
    if wanted < 0:
        return
    for algorithm in (exact, auto, dp):
        choice = algorithm(problem, Solve())
        assert problem.fits(choice.chosen)
        assert choice.chosen[problem.required].all()
        assert not choice.chosen[problem.forbidden].any()
        assert problem.model.fidelity(choice.chosen) == pytest.approx(wanted, abs=1e-9)
        assert choice.optimal
        assert choice.bound == pytest.approx(wanted, abs=1e-9)


@example(seed=20106, share=0.3)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.5, 0.7]))
def test_sinks_of_priority_0_change_nothing_but_what_counts(seed, share):
    """What only they read is in no plan's way: the optimum is still that of all sets."""
    topology = small_topology(np.random.default_rng(seed), most_tasks=10, costs=False)
    first, *others = topology.effective_queries
    queries = (first, *(replace(query, priority=0.0) for query in others))
    topology = replace(topology, queries=queries)
    budget = round(topology.task_count * share)
    problem = problem_of(topology, PlanRequest(replicas=budget))
    wanted = brute_force(topology, budget)
    for algorithm in (exact, auto, dp):
        choice = algorithm(problem, Solve())
        assert problem.model.fidelity(choice.chosen) == pytest.approx(wanted, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_the_operator_bound_is_never_too_low(seed):
    """No plan exceeds the bound that looks at operators only."""
    problem, wanted = small_problem(seed)
    if wanted >= 0:
        assert upper_bound(problem) >= wanted - 1e-9


@given(st.integers(0, 2**32 - 1), st.integers(0, 12))
def test_stopped_early_there_is_a_plan_and_a_true_bound(seed, looks):
    """Wherever time runs out, the plan fits and the optimum lies between it and the bound."""
    problem, wanted = small_problem(seed)
    if wanted < 0:
        return
    calls = iter(range(10_000))
    for algorithm in (exact, dp):
        choice = algorithm(problem, Solve(should_stop=lambda: next(calls) >= looks))
        assert problem.fits(choice.chosen)
        assert choice.bound is not None
        assert problem.model.fidelity(choice.chosen) - 1e-9 <= wanted <= choice.bound + 1e-9
        assert choice.optimal or "stopped early" in choice.note


def test_too_few_states_still_give_a_true_bound():
    """With 5 states kept, what was dropped is in the bound."""
    for topology in mixed(3):
        problem = problem_of(topology, PlanRequest(replicas=topology.task_count // 3))
        best = exact(problem, Solve())
        cut = exact(problem, Solve(), states=5)
        assert best.optimal
        value = problem.model.fidelity(best.chosen)
        assert cut.bound is not None
        assert problem.model.fidelity(cut.chosen) <= value + 1e-9 <= cut.bound + 2e-9


def test_full_chains_are_solved_by_ratio():
    """On a chain of Full links, adding the task with the best ratio is optimal; exact agrees."""
    widths = [7, 11, 5, 9]
    topology = shape(widths, [(i, i + 1, "full") for i in range(3)])
    problem = problem_of(topology, PlanRequest(replicas=17))
    taken = [1] * 4
    for _ in range(17 - 4):
        ratios = [(k + 1) / k if k < w else 0 for k, w in zip(taken, widths, strict=True)]
        taken[int(np.argmax(ratios))] += 1
    wanted = np.prod(np.asarray(taken) / widths)
    choice = exact(problem, Solve())
    assert problem.model.fidelity(choice.chosen) == pytest.approx(wanted)
    assert choice.optimal


def test_dp_refuses_what_it_cannot_list():
    """Too many trees for the list is one clear line."""
    topology = shape([12] * 5, [(i, i + 1, "full") for i in range(4)])
    with pytest.raises(BadInputError, match="MC-trees"):
        dp(problem_of(topology, PlanRequest(replicas=20)), Solve())


@given(st.integers(0, 2**32 - 1))
def test_dominance_keeps_a_better_state_for_every_dropped_one(seed):
    """Whatever is dropped costs no less than a kept state and has no more of anything."""
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 4, 300).astype(float)
    values = rng.integers(0, 4, (300, int(rng.integers(1, 4)))) / 4
    kept = undominated(cost, values)
    for row in range(300):
        better = (cost[kept] <= cost[row]) & (values[kept] >= values[row] - 1e-9).all(axis=1)
        assert better.any()


def test_judge_and_model_agree_on_the_optimum():
    """The judge used here is not the model: both name the same best value on one example."""
    topology = replace(shape([2, 2], [(0, 1, "one-to-one")]), rates={"o0": 4.0})
    sets = all_sets(4)
    best = judge(topology, sets[sets.sum(axis=1) <= 2]).max()
    problem = problem_of(topology, PlanRequest(replicas=2))
    assert best == problem.model.fidelity(exact(problem, Solve()).chosen) == 0.5
