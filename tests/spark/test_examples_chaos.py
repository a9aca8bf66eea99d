"""Seeded fault schedules over the examples, on real processes: every one must end verified."""

import pytest

from holdfast.faults.campaign import Campaign, run_campaign
from holdfast.faults.schedule import draw_schedule
from holdfast.pipeline import deploy, load_pipeline
from holdfast.runtime.spark.start.native import VARIABLE
from holdfast.verify.slice_log import dead_rows

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

EXAMPLES = ["word_count", "distinct_count", "top_k", "traffic", "fan_out", "sessions", "loyalty"]
SHARDED = {
    "word_count": {"count": 2},
    "traffic": {"match": 2},
    "loyalty": {"reward": 2},
    "receipts": {"takings": 2},
}
HEAL_S = {"receipts": 300.0}
"""Finding a bad row takes many runs of its batch, the more so on a busy machine."""


@pytest.mark.sample(seed=0)
@pytest.mark.parametrize("seed", range(21))
def test_a_schedule_ends_verified(tmp_path, monkeypatch, seed):
    """Kills, suspensions, lost domains, full disks and torn files leave every row right.

    Every example with two schedules where Java reads and writes slices, with one through Python.
    """
    monkeypatch.setenv(VARIABLE, "python" if seed // len(EXAMPLES) == 1 else "native")
    play(tmp_path, EXAMPLES[seed % len(EXAMPLES)], seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(21, 24))
def test_a_schedule_with_quarantined_rows_ends_verified(tmp_path, seed):
    """Whoever takes over skips the same rows, and only those."""
    outcome = play(tmp_path, "receipts", seed)
    dead = [row["amount"] for rows in dead_rows(outcome.run_dir).values() for row in rows]
    assert dead
    assert set(dead) == {"12.3O"}


def play(tmp_path, name, seed):
    app = f"examples/{name}.py"
    pipeline = load_pipeline(app)
    campaign = Campaign(
        app=app,
        pipeline=pipeline,
        deployment=deploy(
            pipeline,
            cuts="all" if seed % 2 else "none",
            shards=SHARDED.get(name, {}) if seed % 3 == 0 else {},
        ),
        schedule=draw_schedule(seed, faults=3, detection_s=3.0),
        heal_s=HEAL_S.get(name, 120.0),
        # Most keep their input as `prove` does; these trim it as every other run does.
        trim=seed % 4 == 3,
    )
    outcome = run_campaign(campaign, tmp_path / "run")
    assert any(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.ok, outcome.to_json()
    assert all(outcome.trimmed.values()), outcome.trimmed
    return outcome
