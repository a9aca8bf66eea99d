"""The list of plans against the program, which knows nothing of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.planners.interface import Solve
from holdfast.planners.joint import master as masters
from holdfast.planners.joint.columns import all_segments
from holdfast.planners.joint.master import Master
from holdfast.planners.joint.problem import Choice, Problem, make_problem
from holdfast.testing.joint import random_joint_problem

pytestmark = pytest.mark.unit

PLANS = 5
"""Plans that are asked for, each barred before the next."""


def cheapest(problem: Problem, at_cpu: float) -> list[float]:
    """Cores of the cheapest plans; infinite: there are no more."""
    master = Master(problem, all_segments(problem))
    found = []
    for _ in range(PLANS):
        one = master.solve(1, at_cpu, Solve())
        assert one.proved
        found.append(one.cpu_bound)
        if one.segments is None:
            break
        pace = problem.pace(one.segments, at_cpu=at_cpu)
        assert pace.end_to_end_s <= problem.bounds.latency_s * (1 + 1e-6)
        assert pace.cpu == pytest.approx(one.cpu_bound)
        master.bar(one.segments)
    return found


@pytest.mark.sample(seed={0, 3, 15, 22}, followers=0)
@pytest.mark.parametrize("followers", [0, 2])
@pytest.mark.parametrize("seed", range(24))
def test_the_list_equals_the_program(
    seed: int, followers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan after plan has the same cores, with and without a bound on latency and followers."""
    topology, request = random_joint_problem(seed, most_operators=6)
    problem = make_problem(topology, replace(request, max_replicas=followers))
    at_cpu = problem.uncut_cpu * 1.1
    listed = cheapest(problem, at_cpu)
    monkeypatch.setattr(masters, "MOST_STEPS", 0)
    assert listed == pytest.approx(cheapest(problem, at_cpu), abs=1e-6)


def test_what_few_failures_tell_is_what_all_tell() -> None:
    """A plan of which few failures say that it breaks a bound breaks one in all of them."""
    seen = set()
    for seed in (0, 1, 3):
        topology, request = random_joint_problem(seed, most_operators=5)
        problem = make_problem(topology, replace(request, max_latency=None, max_overhead=None))
        master = Master(problem, all_segments(problem))
        for _ in range(PLANS):
            one = master.solve(1, problem.uncut_cpu, Solve())
            if one.segments is None:
                break
            choice = Choice(segments=one.segments, spares=1)
            broken = bool(replace(problem).evaluate(choice).broken)
            seen.add((problem.surely_broken(choice), broken))
            master.bar(one.segments)
    assert {(True, True), (False, False)} <= seen
    assert (True, False) not in seen
