"""A run whose load triples for a minute: shards and nodes follow it, and every row counts once."""

import time

import pytest

from holdfast.control.elastic.predict import PredictPolicy
from holdfast.faults.campaign import START_S, wait_delivered
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.autoscale import AutoscaleThread, Rescaler
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import announce, shape_of
from holdfast.runtime.spark.start.prepare import prepare
from holdfast.verify.check import verify

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full, pytest.mark.timeout(600)]

APP = "tests/chaos/surge_app.py"
POLICY = PredictPolicy(low=0.55, target=0.65, high=0.8, settle_s=5.0, calm_s=20.0, drain_s=20.0)
"""Quicker than a run's, so that the test is."""
OVER_S = 240.0


def test_shards_and_nodes_follow_the_load(tmp_path):
    """More while three times as much comes, as few as before in the end, and the right results."""
    pipeline = load_pipeline(APP)
    deployment = deploy(pipeline)
    spec = RunSpec(
        app=APP,
        host="spark",
        deployment=deployment,
        policy=Policy(workers=1),
        options={"keep_input": True},
    )
    prepare(print)
    run = LocalRun(tmp_path / "run", spec, LaunchSettings(nodes=1, spares=0))
    log, told = SliceLog(run.run_dir), []
    ask = deployment.segment("ask")
    rescaler = Rescaler(
        log,
        deployment,
        POLICY,
        most_in_all=4,
        announce=lambda put, node: announce(log, put, node),
        tell=told.append,
        fleet=run,
    )
    looking = AutoscaleThread(rescaler, run.status, tell=told.append, every_s=2.0)
    most = nodes = 0
    looking.start()
    try:
        run.start()
        run.wait_for(all_running, START_S, "the start")
        end = time.monotonic() + OVER_S
        while True:
            view = run.status()
            shards = len(shape_of(log, ask))
            most, nodes = max(most, shards), max(nodes, len(view.nodes))
            if most > 1 and shards == 1 and len(view.nodes) == 1 and all_running(view):
                break
            assert time.monotonic() < end, (most, shards, told)
            time.sleep(0.5)
        wait_delivered(run, pipeline, 120.0, epochs=5, batches=4)
    finally:
        looking.stop()
        run.stop()
    print(*told, sep="\n")
    assert nodes > 1
    assert any("retired" in line for line in told)
    verdict = verify(run.run_dir, claims(pipeline))
    assert verdict.ok, verdict.to_json()
