"""A run whose load goes to three times as much and back: shards follow it, results stay exact."""

import pytest

from holdfast.control.elastic.predict import PredictPolicy
from holdfast.deployment import UnitId
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.autoscale import AutoscaleThread, Rescaler
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import announce, shape_of
from holdfast.verify.check import verify

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full, pytest.mark.timeout(900)]

APP = "tests/chaos/load_app.py"
DEADLINE_S = 240.0


def _level(view):
    """Nothing waits that would take more than a batch or two."""
    sink = next(unit for unit in view.units if UnitId.parse(unit.unit).segment == "totals")
    return all_running(view) and (sink.waiting or 0) <= 2


def test_shards_follow_a_load_of_one_three_and_one(tmp_path):
    """More shards while it lasts, as before afterwards, nobody far behind in the end."""
    pipeline = load_pipeline(APP)
    deployment = deploy(pipeline)
    spec = RunSpec(
        app=APP,
        host="spark",
        deployment=deployment,
        policy=Policy(),
        options={"keep_input": True},
    )
    run = LocalRun(tmp_path / "run", spec, LaunchSettings(nodes=1, spares=0))
    log, segment = SliceLog(run.run_dir), deployment.segment("sum")
    told = []
    rescaler = Rescaler(
        log,
        deployment,
        PredictPolicy(settle_s=10.0, calm_s=30.0),  # a minute and a half would take long here
        most_in_all=4,
        announce=lambda put: announce(run.run_dir, put),
        tell=told.append,
    )
    looking = AutoscaleThread(rescaler, run.status)
    try:
        run.start()
        run.wait_for(all_running, DEADLINE_S, "the start")
        looking.start()
        try:
            run.wait_for(lambda _: len(shape_of(log, segment)) > 1, DEADLINE_S, "more shards")
            run.wait_for(lambda _: len(shape_of(log, segment)) == 1, DEADLINE_S, "fewer shards")
        finally:
            looking.stop()
        run.wait_for(_level, DEADLINE_S, "catching up")
    finally:
        stopped = run.stop()
    assert stopped.left == ()
    assert any("a shard would work" in line or "rows wait" in line for line in told), told
    verdict = verify(run.run_dir, claims(pipeline))
    assert verdict.ok, verdict.to_json()
