"""Runs that are rescaled and broken at the same time: every row counts once."""

import json
import shutil
from pathlib import Path

import pytest

from holdfast.faults.campaign import Campaign, run_campaign
from holdfast.faults.schedule import Fault, Schedule, draw_schedule
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.replicas import with_followers
from holdfast.rundir.contents import journals

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


FOLLOWED = (
    Fault(at_s=4, kind="scale", target="count", text="2"),
    Fault(at_s=8, kind="scale", target="rows", text="2"),
    Fault(at_s=16, kind="kill", target="leader:count"),
    Fault(at_s=18, kind="scale", target="count", text="4"),
    Fault(at_s=26, kind="kill", target="leader:rows"),
    Fault(at_s=28, kind="scale", target="count", text="1"),
    Fault(at_s=36, kind="kill", target="follower:count"),
)


def test_units_with_followers_are_rescaled_and_lost(tmp_path):
    """New shards have followers as well, which go on when a leader is killed."""
    pipeline = load_pipeline(APP)
    outcome = run_campaign(
        Campaign(
            app=APP,
            pipeline=pipeline,
            deployment=with_followers(pipeline, deploy(pipeline), ["rows", "count"]),
            schedule=Schedule(faults=FOLLOWED),
            spares=2,
            heal_s=180.0,
        ),
        tmp_path / "run",
    )
    assert all(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.ok, outcome.to_json()
    told = "".join(path.read_text() for path in journals(outcome.run_dir).values())
    assert "count.1#0~1" in told
    assert "rows.1#1~1" in told


DEALT = (
    Fault(at_s=3, kind="scale", target="rows", text="3"),
    Fault(at_s=8, kind="kill"),
    Fault(at_s=12, kind="scale", target="count", text="2"),
    Fault(at_s=14, kind="kill"),
    Fault(at_s=18, kind="coordinator"),
    Fault(at_s=20, kind="scale", target="rows", text="1"),
    Fault(at_s=24, kind="kill"),
)
FILES, LINES = 600, 5


def test_files_are_dealt_out_to_shards_that_come_and_go(tmp_path):
    """Each is read by one shard, also when the deal changes and a reader is killed."""
    app = tmp_path / "app.py"
    shutil.copy(Path(__file__).parent / "dealt_files_app.py", app)
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        lines = ({"key": f"k{(number + at) % 13}", "n": number * LINES + at} for at in range(LINES))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "in" / f"{number:04}.json").write_text(text)
    pipeline = load_pipeline(str(app))
    outcome = run_campaign(
        Campaign(
            app=str(app),
            pipeline=pipeline,
            deployment=deploy(pipeline),
            schedule=Schedule(faults=DEALT),
            spares=1,
            heal_s=180.0,
        ),
        tmp_path / "run",
    )
    assert all(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.ok, outcome.to_json()
    told = "".join(path.read_text() for path in journals(outcome.run_dir).values())
    assert "rows.1#2" in told
    assert "rows.2#0" in told
