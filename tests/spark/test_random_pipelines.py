"""Pipelines that nobody wrote, on real processes with faults: every one must end verified."""

from datetime import UTC

import pytest

from holdfast.faults.campaign import Campaign, run_campaign
from holdfast.faults.schedule import draw_schedule
from holdfast.pipeline import deploy, load_pipeline
from holdfast.testing.random_pipelines import app_text, draw, feed_rows
from holdfast.testing.random_pipelines.steps import RULES, SCHEMA, Row

pytestmark = pytest.mark.spark

SEEDS = range(24)
BATCH_KINDS = set(RULES) - {"union", "own_sessions"}
"""`own_sessions` waits for a watermark, and Spark has none outside of a stream."""


@pytest.fixture(scope="module")
def session():
    """A plain session: what operators do outside of any unit."""
    from holdfast.runtime.spark.start.session import start_session

    spark = start_session("random-pipelines")
    yield spark
    spark.stop()


def test_both_descriptions_of_an_operator_agree(session):
    """Spark as a batch gives what the plain loops give, for every kind and many numbers."""
    from holdfast.testing.random_pipelines import spark

    seen = set()
    for seed in SEEDS:
        drawing = draw(seed)
        feed = drawing.feeds[0]
        rows = [
            row
            for epoch in range(12)
            for row in feed_rows(epoch, seed, feed=feed, epoch_ms=drawing.epoch_ms)
        ]
        frame = session.createDataFrame(rows, SCHEMA).cache()
        for step in drawing.steps:
            if step.kind not in BATCH_KINDS or (step.kind, step.numbers) in seen:
                continue
            seen.add((step.kind, step.numbers))
            if sum(kind == step.kind for kind, _ in seen) > 3:
                continue
            inputs = 2 if step.kind == "join" else 1
            made = getattr(spark, step.kind)(*[frame] * inputs, **dict(step.numbers))
            found = [Row(row["ts"].astimezone(UTC), row["key"], row["n"]) for row in made.collect()]
            assert sorted(found) == sorted(step.of(*[rows] * inputs)), step
    assert {kind for kind, _ in seen} == BATCH_KINDS


@pytest.mark.chaos
@pytest.mark.sample(seed=8)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_pipeline_that_nobody_wrote_ends_verified(tmp_path, seed):
    """Whatever is drawn, cut anywhere and killed, every row comes out exactly once."""
    app = tmp_path / "app.py"
    app.write_text(app_text(seed, operators=3 + seed % 6))
    pipeline = load_pipeline(str(app))
    campaign = Campaign(
        app=str(app),
        pipeline=pipeline,
        deployment=deploy(pipeline, cuts="all" if seed % 2 else "none"),
        schedule=draw_schedule(seed, faults=2, detection_s=3.0),
        heal_s=180.0,
        trim=seed % 4 == 3,
    )
    outcome = run_campaign(campaign, tmp_path / "run")
    assert outcome.ok, outcome.to_json()
