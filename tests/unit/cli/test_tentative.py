"""When results go on without an input, as the command line and the plan say."""

from __future__ import annotations

import pytest

from holdfast.cli.live import forked
from holdfast.cli.tentative import tell_default, tentative
from holdfast.control.status import ForkUnitView, ForkView, RunView
from holdfast.errors import BadInputError
from holdfast.health.policy import Tentative
from holdfast.pipeline import Console, Pipeline, Rate, deploy
from holdfast.plan import JointPlan, Latency

pytestmark = pytest.mark.unit


@pytest.fixture
def pipeline():
    """Two sources united, and one joined with the second."""
    made = Pipeline("p")
    left, right = (made.source(name, Rate(rows_per_second=100)) for name in ("left", "right"))
    both = left.union("both", right).map("work", lambda frame: frame)
    made.sink("out", both, Console())
    made.sink("half", right.map("other", lambda frame: frame), Console(), priority=0.25)
    return made


def test_without_a_bound_nothing_is_tentative_unless_asked_for(pipeline):
    """Neither without a plan, nor with one that promises nothing, nor where it is switched off."""
    bounded = JointPlan(algorithm="exact", feasible=True, max_recovery=2.0)
    unbounded = JointPlan(algorithm="exact", feasible=True)
    deployment = deploy(pipeline, cuts="none")
    assert tentative(None, pipeline, deployment, None) == Tentative()
    assert tentative(None, pipeline, deployment, unbounded) == Tentative()
    assert tentative("never", pipeline, deployment, bounded) == Tentative()
    told: list[str] = []
    tell_default(None, Tentative(), told.append)
    tell_default("2s", Tentative(after_s=2.0), told.append)
    assert told == []


def test_the_bound_of_a_plan_is_the_default(pipeline):
    """Whoever has not asked for it is told, and how to switch it off."""
    plan = JointPlan(algorithm="exact", feasible=True, max_recovery=2.0)
    deployment = deploy(pipeline, cuts="none")
    found = tentative(None, pipeline, deployment, plan)
    assert found == tentative("plan", pipeline, deployment, plan)
    told: list[str] = []
    tell_default(None, found, told.append)
    assert "longer than 2 s" in told[0]
    assert "--tentative-after never" in told[0]


def test_a_time_is_taken_as_it_is(pipeline):
    """With the share of the input that each sink reflects without each unit."""
    found = tentative("500ms", pipeline, deploy(pipeline, cuts="none"), None)
    assert (found.after_s, found.at_once) == (0.5, ())
    assert found.predicted("out", ["left.0#0"]) == 0.5
    assert found.predicted("out", ["right.0#0", "left.0#0"]) == 0.0
    assert found.predicted("half", ["left.0#0"]) == 1.0
    assert found.predicted("out", []) == 1.0
    assert found.priorities == {"out": 1.0, "half": 0.25}
    with pytest.raises(BadInputError):
        tentative("soon", pipeline, deploy(pipeline, cuts="none"), None)


def test_the_bound_of_a_plan_can_be_asked_for(pipeline):
    """And nobody waits for what is predicted to miss it; a plan without one is refused."""
    plan = JointPlan(
        algorithm="exact",
        feasible=True,
        max_recovery=2.0,
        recovery_latency={
            "left": Latency(median=1.0, p95=1.5),
            "right": Latency(median=2.0, p95=3.0),
        },
    )
    deployment = deploy(pipeline, cuts="none")
    with pytest.raises(BadInputError, match="no plan with a bound"):
        tentative("plan", pipeline, deployment, None)
    found = tentative("plan", pipeline, deployment, plan)
    assert (found.after_s, found.at_once) == (2.0, ("right",))


def test_what_was_not_planned_for_is_bounded_by_its_parts():
    """The smallest share that any of them alone leaves; unknown if none is known."""
    policy = Tentative(fidelity={"out": {"a": 0.5, "b": 0.25}})
    assert policy.predicted("out", ["a", "b", "c"]) == 0.25
    assert policy.predicted("out", ["c"]) is None
    assert policy.predicted("other", ["a"]) is None


def test_the_live_view_says_what_results_go_on_without():
    """One line for the fork, and one for each of its units; none when all is exact."""
    fork = ForkView(
        fork=1,
        began_at=10.0,
        ended_at=None,
        reason="left.0#0 gone for 2.0 s",
        why="",
        silent=("left.0#0",),
        fidelity={"out": 0.5},
        units=(
            ForkUnitView(unit="work+1.0#0", node="n1", generation=1, running=True, epoch=7),
            ForkUnitView(unit="out+1.0#0", node=None, generation=0, running=False, epoch=None),
        ),
    )
    view = RunView(
        pipeline="p",
        launch="L",
        status="recovering",
        now=15.0,
        opened_at=0.0,
        trouble=None,
        units=(),
        nodes=(),
        recoveries=(),
        timeline=(),
        forks=(fork,),
    )
    head, *units = forked(view)
    assert "fork 1: left.0#0 gone for 2.0 s; predicted fidelity: out 50%" in head
    assert units == ["  work+1.0#0 on n1, epoch 7", "  out+1.0#0 waits for its exact unit, -"]
    assert RunView.from_json(view.to_json()) == view
