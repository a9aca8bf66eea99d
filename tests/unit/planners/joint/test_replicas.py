"""Hot followers as a third choice of joint plans, against brute force and against their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast.errors import BadInputError
from holdfast.plan import JointPlan
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.joint import PLANNER
from holdfast.planners.joint.problem import make_problem
from holdfast.planners.joint.run import make_plan
from holdfast.predict.replicas import FOLLOWER_CPU, HEAD_START
from holdfast.predict.segments import SegmentPlan, segments_of
from holdfast.testing.generators import chain
from holdfast.testing.joint import every_plan, random_joint_problem

pytestmark = pytest.mark.unit


def _hot_problem(seed: int) -> tuple:
    """A random problem whose bound on recovery often asks for followers."""
    topology, request = random_joint_problem(seed, most_operators=3)
    rng = np.random.default_rng(1000 + seed)
    return topology, replace(
        request,
        max_recovery=float(rng.choice([0.3, 1.0, 2.0, 6.0])),
        max_overhead=None,
        max_replicas=int(rng.integers(1, 5)),
        intervals=(1.0, 4.0),
        snapshots=(10,),
    )


@pytest.mark.parametrize("seed", range(3))
def test_exact_equals_brute_force_with_replicas(seed: int) -> None:
    """The same cost as the best of all plans with and without followers."""
    topology, request = _hot_problem(seed)
    best = every_plan(make_problem(topology, request))
    found = make_plan(topology, request, Solve())
    assert found.feasible == np.isfinite(best)
    if found.feasible:
        assert found.optimal
        assert found.objective == pytest.approx(best, abs=1e-8)


@pytest.mark.slow
def test_the_random_problems_need_all_three_choices() -> None:
    """Among them are plans with followers, plans without, and some that cannot be."""
    plans = [make_plan(*_hot_problem(seed), Solve()) for seed in range(6)]
    assert {bool(plan.replicas) for plan in plans if plan.feasible} == {True, False}
    assert not all(plan.feasible for plan in plans)


def test_followers_need_not_be_brought_back() -> None:
    """Whoever reads from a replicated segment has its input a head start later."""
    topology, request = random_joint_problem(3, most_operators=4)
    model = make_problem(topology, request).model
    parts = segments_of(topology, set(range(len(topology.operators))))
    plans = [SegmentPlan(operators=part, interval_s=4.0, snapshot_batches=1) for part in parts]
    hot = [replace(plans[0], replicated=True), *plans[1:]]
    cold, warm = (model.predict(plan, 1, uncut_cpu=1.0) for plan in (plans, hot))
    assert warm.phases.median[0] == HEAD_START.value < cold.phases.median[0]
    assert warm.phases.p95[0] >= HEAD_START.high
    assert warm.pace.cpu == pytest.approx(cold.pace.cpu + warm.pace.follower_cpu)
    assert warm.results[0] <= cold.results[0] + 1e-9


def _planned(**asked: object) -> JointPlan:
    topology = replace(chain(3), rates={"op1": 10.0})
    return make_plan(topology, PlanRequest(**asked), Solve())  # type: ignore[arg-type]


@pytest.mark.slow
def test_followers_keep_a_bound_that_nothing_else_keeps() -> None:
    """A bound below any restore is met by followers, at the cost of a second unit each."""
    hot, cold = _planned(max_recovery=0.3), _planned(max_recovery=0.3, max_replicas=0)
    assert not cold.feasible
    assert hot.feasible
    assert hot.replicas == tuple(segment.name for segment in hot.segments if segment.replicated)
    assert all(hot.recovery_latency[name].p95 <= 0.3 for name in hot.recovery_latency)
    assert hot.cpu is not None
    assert 0 < hot.replica_cpu <= FOLLOWER_CPU * hot.cpu / 2
    assert hot.replica_memory > 0


@pytest.mark.slow
def test_followers_are_bounded_in_number_and_cost() -> None:
    """Neither more than `max_replicas` of them nor more CPU than `max_overhead` is taken."""
    enough = _planned(max_recovery=0.3)
    fewer = _planned(max_recovery=0.3, max_replicas=len(enough.replicas) - 1)
    assert not fewer.feasible
    assert f"--max-replicas {len(enough.replicas)}" in fewer.note
    assert enough.overhead is not None
    dear = _planned(max_recovery=0.3, max_overhead=enough.overhead / 2)
    assert not dear.feasible


def test_a_bound_that_can_be_kept_without_followers_has_none() -> None:
    """Nobody pays for a follower who did not ask for one and does not need it."""
    assert _planned(max_recovery=30.0).replicas == ()


def test_each_follower_is_explained() -> None:
    """The reason names the segment and what it would take without its follower."""
    topology = replace(chain(3), rates={"op1": 10.0})
    request = PlanRequest(max_recovery=0.3)
    found = make_plan(topology, request, Solve())
    said = [line for line in PLANNER.explain(topology, request, found) if "hot follower" in line]
    assert len(said) == len(found.replicas)
    assert all("above the bound of 0.3 s" in line for line in said)


def test_a_negative_number_of_replicas_is_refused() -> None:
    """One clear line, with the option's name."""
    with pytest.raises(BadInputError, match="--max-replicas"):
        _planned(max_replicas=-1)
