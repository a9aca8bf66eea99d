"""How often programs are solved when there is no plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.planners.interface import Solve
from holdfast.planners.joint import master
from holdfast.planners.joint.run import make_plan
from holdfast.testing.joint import random_joint_problem

pytestmark = pytest.mark.unit

MOST_PROGRAMS = 100
"""About twice what this request takes; without remembering it was more than 200."""


@pytest.mark.slow
def test_the_same_program_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other bounds mostly leave the same candidates, and the nearest bounds ask many times."""
    solved: list[bool] = []
    model = master.Master._model

    def counted(*given: object) -> object:
        solved.append(True)
        return model(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(master.Master, "_model", counted)
    topology, request = random_joint_problem(1, operators=100)
    wanted = replace(request, max_recovery=10.0, max_latency=30.0, max_overhead=None)
    plan = make_plan(topology, wanted, Solve())
    assert not plan.feasible
    assert plan.nearest["max_recovery"] == pytest.approx(10.46, rel=0.005)
    assert len(solved) <= MOST_PROGRAMS
