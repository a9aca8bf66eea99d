"""Frequencies for fixed segments: closed form, caps, lists and powers of two."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planners.fastrecover.cases import numeric_frequencies

from holdfast.planners.fastrecover.frequencies import (
    CostArrays,
    Goal,
    Rule,
    allocate,
    charge,
    measures,
    natural,
)

pytestmark = pytest.mark.unit


def costs_of(rng, count, *, capped=False, zeros=False):
    def some(low, high):
        values = 10 ** rng.uniform(low, high, count)
        return np.where(rng.random(count) < 0.3, 0.0, values) if zeros else values

    cap = 10 ** rng.uniform(-0.5, 1, count) if capped else np.full(count, np.inf)
    return CostArrays(some(-4, -3), some(-3, -1), some(-3, -2), some(-3, -1), cap)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6), capped=st.booleans())
def test_frequencies_are_the_best_there_are(seed, count, capped):
    """A general optimiser finds nothing better, with and without caps."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, count, capped=capped)
    room = float(rng.uniform(0.01, 0.5))
    goal = Goal("overhead", float(costs.save.sum()) + room)
    found = allocate(costs, goal, Rule())
    numeric = numeric_frequencies(costs.replay, costs.write, costs.max_frequency, room)
    assert found.recovery == pytest.approx(costs.fixed.sum() + numeric, rel=1e-5)
    assert found.overhead <= goal.limit
    assert (found.frequency <= costs.max_frequency).all()


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6), capped=st.booleans())
def test_the_two_questions_mirror_each_other(seed, count, capped):
    """Asking for the recovery that an overhead bought costs that overhead again."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, count, capped=capped)
    goal = Goal("overhead", float(costs.save.sum() + rng.uniform(0.01, 0.5)))
    first = allocate(costs, goal, Rule())
    back = allocate(costs, Goal("recovery", first.recovery * (1 + 1e-12)), Rule())
    assert back.recovery <= first.recovery * (1 + 1e-12)
    assert back.overhead == pytest.approx(first.overhead, rel=1e-6)


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 4),
    capped=st.booleans(),
    bounded=st.sampled_from(["overhead", "recovery"]),
)
def test_a_list_is_chosen_from_as_well_as_by_trying_all(seed, count, capped, bounded):
    """The knapsack over a list equals enumeration, infeasible cases included."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, count, capped=capped)
    choices = tuple(sorted(10 ** rng.uniform(-1, 1.3, 4)))
    limit = float(costs.save.sum() + rng.uniform(0.001, 0.3))
    if bounded == "recovery":
        limit = float(costs.fixed.sum() + rng.uniform(0.001, 0.3))
    goal = Goal(bounded, limit)
    best = math.inf
    for picked in itertools.product(choices, repeat=count):
        eta = np.asarray(picked)
        if (eta > costs.max_frequency).any():
            continue
        recovery, overhead = measures(costs, eta)
        if (overhead if bounded == "overhead" else recovery) <= limit:
            best = min(best, recovery if bounded == "overhead" else overhead)
    found = allocate(costs, goal, Rule(choices=choices))
    if math.isinf(best):
        assert found is None
    else:
        assert found.objective(goal) == pytest.approx(best, rel=1e-9)
        assert set(found.frequency.tolist()) <= set(choices)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 4))
def test_powers_of_two_are_the_best_powers_and_lose_little(seed, count):
    """No other whole exponents do better, and at most 4.1% is lost against free frequencies."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, count)
    goal = Goal("overhead", float(costs.save.sum() + 0.1))
    free = allocate(costs, goal, Rule())
    found = allocate(costs, goal, Rule(powers_of_two=True))
    steps = np.log2(found.frequency / found.frequency[0])
    assert steps == pytest.approx(np.round(steps), abs=1e-9)
    assert found.recovery <= free.recovery * 1.0408
    centre = np.round(np.log2(free.frequency / free.frequency[0]))
    best = min(
        float((costs.replay @ np.exp2(-k)) * (costs.write @ np.exp2(k)))
        for shift in itertools.product((-2, -1, 0, 1, 2), repeat=count - 1)
        for k in [centre + np.array([0, *shift])]
    )
    spent = (found.recovery - costs.fixed.sum()) * 0.1
    assert spent == pytest.approx(best, rel=1e-9)


@given(seed=st.integers(0, 10_000), bounded=st.sampled_from(["overhead", "recovery"]))
def test_powers_of_two_obey_caps(seed, bounded):
    """With minimum intervals the powers stay powers, below the caps, within the bound."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, 4, capped=True)
    goal = Goal("overhead", float(costs.save.sum() + 0.05))
    if bounded == "recovery":
        goal = Goal("recovery", 3 * allocate(costs, goal, Rule()).recovery)
    found = allocate(costs, goal, Rule(powers_of_two=True))
    if found is None:
        assert bounded == "recovery"
        return
    steps = np.log2(found.frequency / found.frequency[0])
    assert steps == pytest.approx(np.round(steps), abs=1e-6)
    assert (found.frequency <= costs.max_frequency).all()
    assert (found.overhead if bounded == "overhead" else found.recovery) <= goal.limit * (1 + 1e-12)


@given(seed=st.integers(0, 10_000), price=st.floats(1e-4, 1e3), listed=st.booleans())
def test_the_charge_is_what_the_natural_frequency_costs(seed, price, listed):
    """Minimum and minimiser belong together, and nothing nearby is cheaper."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, 5, capped=True)
    rule = Rule(choices=(0.2, 0.3)) if listed else Rule()
    eta = natural(costs, price, rule)
    value = charge(costs.replay, costs.write, costs.max_frequency, price, rule)
    assert value == pytest.approx(costs.replay / eta + price * costs.write * eta, rel=1e-9)
    if not listed:
        for factor in (0.9, 0.99):
            other = eta * factor
            assert (value <= costs.replay / other + price * costs.write * other + 1e-15).all()


@given(seed=st.integers(0, 10_000), bounded=st.sampled_from(["overhead", "recovery"]))
def test_zeros_are_no_exception(seed, bounded):
    """Segments without state, without replay or without both are allocated, not divided by."""
    rng = np.random.default_rng(seed)
    costs = costs_of(rng, 5, zeros=True)
    limit = costs.save.sum() if bounded == "overhead" else costs.fixed.sum()
    goal = Goal(bounded, float(limit + 0.05))
    found = allocate(costs, goal, Rule())
    assert found is not None
    recovery, overhead = measures(costs, found.frequency)
    assert not math.isnan(recovery)
    assert math.isfinite(recovery + overhead)
    assert (overhead if bounded == "overhead" else recovery) <= goal.limit


def test_what_nobody_needs_goes_to_what_never_fails():
    """Without failures every segment still gets checkpoints, evenly, within the bound."""
    costs = CostArrays(
        *(np.array(row) for row in ([0.0, 0], [0.0, 0], [0.1, 0.3], [0, 0.1])), np.full(2, np.inf)
    )
    found = allocate(costs, Goal("overhead", 0.5), Rule())
    assert found.frequency == pytest.approx([1.0, 1.0])


def test_an_overhead_spent_on_saving_leaves_no_plan():
    """Saving input up to the bound leaves nothing for checkpoints that are needed."""
    one = np.array([0.1])
    costs = CostArrays(one, one, one, one, np.array([np.inf]))
    assert allocate(costs, Goal("overhead", 0.1), Rule()) is None
    assert allocate(costs, Goal("recovery", 0.1), Rule()) is None
