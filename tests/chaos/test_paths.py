"""Splits on real processes: failing paths are left and taken again, every row is there once."""

import pytest

from holdfast.control.facts import BreakerChanged, PathTaken
from holdfast.control.shell.journal import read
from holdfast.faults.campaign import Campaign, run_campaign
from holdfast.faults.schedule import PATH_FAULTS, Fault, Schedule, draw_schedule
from holdfast.health.breaker import BreakerPolicy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.rundir.contents import journals

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

APP = "examples/locations.py"
COUNTING = "tests/chaos/counting_paths_app.py"
QUICK = BreakerPolicy(open_s=3.0, cooldown_s=3.0, settled_s=5.0)


def play(folder, schedule, *, app=APP, **more):
    pipeline = load_pipeline(app)
    campaign = Campaign(
        app=app,
        pipeline=pipeline,
        deployment=deploy(pipeline),
        schedule=schedule,
        nodes=1,
        breaker=QUICK,
        **more,
    )
    outcome = run_campaign(campaign, folder)
    assert any(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.ok, outcome.to_json()
    return facts(folder)


def facts(folder):
    """All that the newest journal tells."""
    newest = max(journals(folder).items())[1]
    found = read(newest)
    return [*(found.state.timeline if found.state else ()), *found.facts]


@pytest.mark.sample(kind="slp")
@pytest.mark.parametrize(
    ("kind", "at_s", "says"),
    [
        ("err", 3.0, ("a fault schedule wants this path to fail",)),
        ("slp", 3.0, ("",)),
        # Whichever is seen first: it gives nothing out, or less than comes.
        ("thr", 10.0, ("no output", "overload")),
        # A leak is told from a start by what was used for half a minute.
        ("mem", 45.0, ("leak",)),
    ],
)
def test_a_path_that_fails_is_left_and_taken_again(tmp_path, kind, at_s, says):
    """There by its breaker, back by a probe; every position is advertised to once."""
    # Long enough that a first batch of several seconds, on a busy machine, does not outlast it.
    fault = Fault(at_s=at_s, kind=kind, target="keywords:P3", duration_s=20.0)
    told = play(tmp_path / "run", Schedule(faults=(fault,)), batches_before=2)
    taken = [(fact.before, fact.path) for fact in told if isinstance(fact, PathTaken)]
    assert ("P3", "P6") in taken
    changed = [
        fact.breaker
        for fact in told
        if isinstance(fact, BreakerChanged) and fact.breaker.path == "P3"
    ]
    assert any(words in changed[0].why for words in says), changed[0].why
    if taken[-1] == ("P6", "P3"):
        assert [breaker.state for breaker in changed[:2]] == ["open", "half-open"]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(30))
def test_a_schedule_with_paths_ends_verified(tmp_path, seed, monkeypatch):
    """Leaks, stopped workers, throttled functions and exceptions among kills and hangs.

    A third with paths that share their state, a third with paths that all run along.
    """
    kinds = (*PATH_FAULTS, "kill", "suspend", "coordinator", "coordinator-hang")
    schedule = draw_schedule(seed, faults=4, gap_s=7.0, detection_s=3.0, kinds=kinds)
    if seed % 3 == 2:
        monkeypatch.setenv("STANDBY", "hot")
    app = COUNTING if seed % 3 else APP
    play(tmp_path / "run", schedule, app=app, coordinators=2, trim=seed % 4 > 1)
