"""Runs that are rescaled and broken at the same time: every row counts once."""

import pytest

from holdfast.faults.campaign import Campaign, run_campaign
from holdfast.faults.schedule import draw_schedule
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.replicas import with_followers

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full, pytest.mark.timeout(600)]

APP = "tests/chaos/elastic_app.py"
SEEDS = range(30)
KINDS = ("scale", "scale", "scale", "kill", "suspend", "coordinator", "lose-slice", "tear-slice")
"""Scaling as often as all that breaks."""


@pytest.mark.parametrize("seed", SEEDS)
def test_rescaled_and_broken_by_a_drawn_schedule(tmp_path, seed):
    """Kills, hangs, lost slices and a lost coordinator between and during handovers."""
    pipeline = load_pipeline(APP)
    outcome = run_campaign(
        Campaign(
            app=APP,
            pipeline=pipeline,
            deployment=deploy(pipeline),
            schedule=draw_schedule(seed, faults=6, start_s=3.0, gap_s=4.0, kinds=KINDS),
            ack_levels=2,
        ),
        tmp_path / "run",
    )
    assert all(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.ok, outcome.to_json()


@pytest.mark.parametrize("seed", range(4))
def test_units_with_followers_are_rescaled_and_lost(tmp_path, seed):
    """New shards have followers as well, which go on when a leader is killed."""
    pipeline = load_pipeline(APP)
    outcome = run_campaign(
        Campaign(
            app=APP,
            pipeline=pipeline,
            deployment=with_followers(pipeline, deploy(pipeline), ["rows", "count"]),
            schedule=draw_schedule(
                seed, faults=4, start_s=4.0, gap_s=6.0, kinds=("scale", "kill", "suspend")
            ),
            spares=2,
            heal_s=180.0,
        ),
        tmp_path / "run",
    )
    assert all(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.ok, outcome.to_json()
