"""The launcher's machine with several coordinators."""

import pytest
from tests.unit.control.launcher.test_transitions import FAILED, KILLED, launcher, tick, up

from holdfast.control.election import DEPOSED
from holdfast.control.launcher import commands as c
from holdfast.control.launcher import events as e
from holdfast.control.launcher.machine import Launcher
from holdfast.control.launcher.settings import LaunchSettings
from holdfast.health.budget import RestartBudget

pytestmark = pytest.mark.unit


def several(**settings):
    """Three coordinators and a node that is up."""
    made = launcher(nodes=1, coordinators=3, **settings)
    up(made, "n0")
    return made


def coordinator_ended(made, name, code, now=0.0):
    return made.handle(e.CoordinatorEnded(coordinator=name, code=code), now)


def test_several_coordinators_are_started_by_rank():
    """All at once; who leads is their own affair."""
    made = Launcher(LaunchSettings(nodes=1, coordinators=3))
    assert made.handle(e.LaunchBegan(), 0.0)[:3] == [
        c.StartCoordinator(coordinator="c0", rank=0),
        c.StartCoordinator(coordinator="c1", rank=1),
        c.StartCoordinator(coordinator="c2", rank=2),
    ]


@pytest.mark.parametrize("code", [KILLED, DEPOSED])
def test_each_coordinator_is_replaced_by_its_own_kind(code):
    """One that was killed or deposed comes back under its name and rank, to follow."""
    made = several()
    assert coordinator_ended(made, "c1", code) == [
        c.Log(level="info", text=f"coordinator c1 ended with {code}, starting another")
    ]
    assert tick(made, 0.0) == [c.StartCoordinator(coordinator="c1", rank=1)]


def test_a_run_is_not_given_up_while_a_coordinator_runs():
    """One that cannot be started again stays ended; with the last one the run ends."""
    budget = RestartBudget(limit=0, window_s=60.0)
    made = several(restarts=budget, coordinator_retries=budget)
    (said,) = coordinator_ended(made, "c0", KILLED)
    assert said.text == "the coordinator ended 1 times, last with -9; c0 is not started again"
    (said,) = coordinator_ended(made, "c1", FAILED)
    assert said.text.endswith("1 times in 60 s; c1 is not started again")
    assert made.given_up is None
    assert not made.coordinator_due
    coordinator_ended(made, "c2", FAILED)
    assert "the coordinator ended with 1" in made.given_up


def test_the_end_of_the_run_ends_the_coordinators_that_follow():
    """They are asked to, and then say so with a code that means nothing any more."""
    made = several()
    assert coordinator_ended(made, "c1", 0) == [
        c.TerminateCoordinator(coordinator="c0"),
        c.TerminateCoordinator(coordinator="c2"),
        c.TerminateNode(node="n0"),
        c.Finish(),
    ]
    assert coordinator_ended(made, "c0", 0) == []
    assert coordinator_ended(made, "c2", -15) == []
    assert made.given_up is None
