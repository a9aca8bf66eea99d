"""What is slow and what is stuck, told apart on real Spark with limits short enough for a test."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from holdfast.health.policy import Policy
from holdfast.health.stall import StallPolicy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.verify.check import verify

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full, pytest.mark.timeout(900)]

DEADLINE_S = 400.0
APP = str(Path(__file__).with_name("slow_app.py"))


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start the slow application; whatever happens, it is stopped and has left nothing."""
    runs = []

    def begin(stall, *, first_rows=1, pause_s=0.0, batch_epochs=1):
        monkeypatch.setenv("SLOW_FIRST_ROWS", str(first_rows))
        monkeypatch.setenv("SLOW_PAUSE_S", str(pause_s))
        monkeypatch.setenv("SLOW_PID_FILE", str(tmp_path / "pid"))
        pipeline = load_pipeline(APP)
        spec = RunSpec(
            app=APP,
            host="spark",
            deployment=deploy(pipeline, batch_epochs={"paced": batch_epochs}),
            policy=Policy(stall=stall),
            options={"keep_input": True},
        )
        run = LocalRun(tmp_path / "run", spec, LaunchSettings(nodes=1))
        runs.append(run)
        run.start()
        return run, pipeline

    yield begin
    for run in runs:
        assert run.stop().left == ()


def unit(view, name):
    return next(item for item in view.units if item.unit == name)


def delivered_beyond(epoch):
    """Whether all units run and results of an epoch have been delivered."""
    return lambda view: all_running(view) and (unit(view, "out.0#0").epoch or -1) >= epoch


def stop_and_verify(run, pipeline):
    assert run.stop().left == ()
    verdict = verify(run.run_dir, claims(pipeline))
    assert verdict.ok, verdict.to_json()


def test_a_batch_interval_above_every_limit_is_no_stall(start):
    """Epochs of an interval that is not over are not due, so nothing waits for the unit."""
    policy = StallPolicy(stall_s=3.0, intervals=0.1, batches=0.1, first_batch_s=60.0)
    run, pipeline = start(policy, batch_epochs=16)
    view = run.wait_for(delivered_beyond(47), DEADLINE_S, "three intervals")
    assert not view.recoveries
    assert unit(view, "paced.0#0").generation == 1
    stop_and_verify(run, pipeline)


def test_a_long_first_batch_that_works_is_no_stall(start):
    """It takes three times the limit and gives out a row now and then, as a large state would."""
    policy = StallPolicy(stall_s=20.0, first_batch_s=20.0)
    run, pipeline = start(policy, first_rows=150, pause_s=0.4)
    view = run.wait_for(delivered_beyond(1), DEADLINE_S, "the first batch")
    assert not view.recoveries
    assert unit(view, "paced.0#0").generation == 1
    stop_and_verify(run, pipeline)


def test_a_suspended_worker_is_killed_as_stalled(start, tmp_path):
    """Its Python process answers no more; the unit is taken over, and every row comes once."""
    policy = StallPolicy(stall_s=5.0, first_batch_s=60.0, batches=1.0)
    run, pipeline = start(policy)
    view = run.wait_for(delivered_beyond(3), DEADLINE_S, "the first results")
    pause, end = threading.Event(), time.monotonic() + DEADLINE_S
    while not (found := [item for item in run.status().recoveries if item.reason == "stalled"]):
        # Another worker may have taken the next batch: then that one is suspended too.
        _suspend(int((tmp_path / "pid").read_text()))
        assert time.monotonic() < end, "nobody noticed"
        pause.wait(0.5)
    assert {item.unit for item in found} == {"paced.0#0"}
    beyond = unit(view, "out.0#0").epoch + 30
    run.wait_for(delivered_beyond(beyond), DEADLINE_S, "the recovery")
    stop_and_verify(run, pipeline)


def _suspend(pid):
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return
