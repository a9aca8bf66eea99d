"""Replicas on real runs: killed, suspended, left alone and lost together; every row counts once."""

import pytest

from holdfast.faults.campaign import Campaign, Outcome, run_campaign
from holdfast.faults.schedule import Fault, Schedule, draw_schedule
from holdfast.health.policy import Tentative
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.replicas import with_followers
from holdfast.plan import FtcPlan
from holdfast.prove.run import Proving, prove
from holdfast.rundir.contents import journals
from holdfast.runtime.spark.start.native import VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

APPS = {"word_count": "count", "traffic": "slow"}
"""Examples, and the segment of each that keeps state."""
KINDS = ("kill", "suspend", "domain", "correlated", "coordinator", "disk", "tear")
FATES = {
    "leader killed": [Fault(at_s=4, kind="kill", target="leader:{}")],
    "follower killed": [Fault(at_s=4, kind="kill", target="follower:{}")],
    "leader hangs and wakes up": [
        Fault(at_s=4, kind="suspend", target="leader:{}", duration_s=8),
    ],
    "follower hangs and wakes up": [
        Fault(at_s=4, kind="suspend", target="follower:{}", duration_s=8),
    ],
    "both lost": [Fault(at_s=4, kind="correlated", target="leader:{},follower:{}")],
    "one after the other": [
        Fault(at_s=4, kind="kill", target="leader:{}"),
        Fault(at_s=5, kind="kill", target="leader:{}"),
        Fault(at_s=20, kind="kill", target="follower:{}"),
    ],
}


def play(
    tmp_path, name, schedule, *, app="examples/{}.py", replicate=("all",), **options
) -> Outcome:
    app = app.format(name)
    pipeline = load_pipeline(app)
    campaign = Campaign(
        app=app,
        pipeline=pipeline,
        deployment=with_followers(pipeline, deploy(pipeline), replicate),
        schedule=schedule,
        # One in each failure domain: a lost replica comes back before the next fault.
        spares=2,
        heal_s=180.0,
        **options,
    )
    outcome = run_campaign(campaign, tmp_path / "run")
    assert outcome.ok, outcome.to_json()
    assert any(item.done for item in outcome.injected), outcome.to_json()
    return outcome


@pytest.mark.sample(name="word_count", seed=1)
@pytest.mark.sample(name="traffic", seed=2)
@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("name", APPS)
def test_a_schedule_with_followers_ends_verified(tmp_path, monkeypatch, name, seed):
    """Everything has a follower, one schedule in four through Python, one with trimmed input."""
    monkeypatch.setenv(VARIABLE, "python" if seed % 4 == 3 else "native")
    schedule = draw_schedule(seed, faults=3, detection_s=3.0, kinds=KINDS)
    play(tmp_path, name, schedule, trim=seed % 4 == 0)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(30))
def test_a_schedule_with_a_follower_and_forks_ends_verified(tmp_path, seed):
    """The sum has a follower, the two sources and the sinks have none: what loses a source goes on
    without it, and in the end every sink holds the exact rows and no tentative one.
    """
    play(
        tmp_path,
        "tentative_app",
        draw_schedule(seed, faults=3, detection_s=3.0, kinds=KINDS),
        app="tests/spark/{}.py",
        replicate=("total",),
        tentative=Tentative(after_s=0.3),
    )


@pytest.mark.full
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("name", APPS)
def test_what_may_become_of_two_replicas(tmp_path, name, fate):
    """Whichever of them is gone, for a while or for good: exact, and told in the timeline."""
    operator = APPS[name]
    faults = [
        Fault(
            at_s=fault.at_s,
            kind=fault.kind,
            target=fault.target.replace("{}", operator),
            duration_s=fault.duration_s,
        )
        for fault in FATES[fate]
    ]
    outcome = play(tmp_path, name, Schedule(faults=tuple(faults)))
    assert all(item.done for item in outcome.injected), outcome.to_json()
    told = "".join(path.read_text() for path in journals(outcome.run_dir).values())
    assert "node_lost" in told
    assert "unit_promoted" in told


STATES = {
    "once": [
        Fault(at_s=4, kind="suspend", target="leader:once", duration_s=20),
        Fault(at_s=30, kind="suspend", target="leader:once", duration_s=5),
    ],
    "timers": [
        *[Fault(at_s=4 + number, kind="kill", target="leader:timers") for number in range(3)],
        Fault(at_s=20, kind="kill", target="follower:timers"),
        Fault(at_s=30, kind="correlated", target="leader:timers,follower:timers"),
    ],
}
"""State of a kind, and what happens to its replicas."""


@pytest.mark.full
@pytest.mark.parametrize("operator", STATES)
def test_replicas_of_unusual_state(tmp_path, operator):
    """A deduplication whose leaders wake up long after another has gone on; custom state whose
    leaders are killed in a row, then its follower, then both.
    """
    schedule = Schedule(faults=tuple(STATES[operator]))
    app = "tests/spark/{}.py"
    outcome = play(tmp_path, "replicas_app", schedule, app=app, replicate=(operator,))
    assert all(item.done for item in outcome.injected), outcome.to_json()


@pytest.mark.full
def test_a_proof_measures_failovers(tmp_path):
    """The node that leads is killed; readers see how late slices were, and nothing is lost."""
    app = "examples/word_count.py"
    pipeline = load_pipeline(app)
    proof = prove(
        Proving(
            app=app,
            pipeline=pipeline,
            deployment=with_followers(pipeline, deploy(pipeline), ["all"]),
            plan=FtcPlan(algorithm="by hand", feasible=True),
            faults=2,
            spares=2,
            max_recovery=120.0,
            calm_slices=4,
        ),
        tmp_path / "run",
    )
    assert not proof.note, proof.note
    assert proof.failovers is not None
    assert all(item.hot and item.next_slice is not None for item in proof.recoveries)
    assert proof.kept
    assert proof.exact, proof.to_json()
