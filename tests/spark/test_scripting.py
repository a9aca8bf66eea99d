"""Pipelines that have no file of their own: from a script or a notebook to nodes and back."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
from datetime import UTC, datetime, timedelta

from holdfast import Files, Generator, Parquet, Pipeline, Table, plan, run
from holdfast.pipeline import load_pipeline
from holdfast.pipeline.fingerprint import fingerprints
from holdfast.runtime.spark.start.pickled import write_app

START = datetime(2026, 1, 1, tzinfo=UTC)
FACTOR = 3

def numbers(epoch, seed):
    return [(START + timedelta(seconds=epoch), epoch)]

def triple(frame):
    return frame.selectExpr("ts", f"{FACTOR} * n AS n")

pipeline = Pipeline("threes", event_time="ts", watermark="1 second", epoch="0.5s")
words = pipeline.table("words", Table("words.csv", "n bigint, word string"))
rows = pipeline.source("numbers", Generator(numbers, "ts timestamp, n bigint")).map(triple)
pipeline.sink("out", rows.join(words, on="n", how="left"), Parquet("out"))

def in_a_thread_beside_a_loop(best):
    # Notebooks have a loop of their own, and some call their cells in threads.
    import asyncio

    async def main():
        return await asyncio.to_thread(run, pipeline, plan=best, duration="5s", spares=0)

    return asyncio.run(main())

if __name__ == "__main__":
    from pathlib import Path

    made = write_app(pipeline, Path("apps"))
    again = load_pipeline(made)
    assert again.name == "threes" and again is not pipeline
    assert fingerprints(again)["triple"] == fingerprints(pipeline)["triple"]
    assert again.operator("triple-words").function.tables[0].table.content.startswith("/")
    if "--run" in sys.argv:
        best = plan(pipeline, max_recovery="20s")
        assert best._repr_html_().startswith("<p>") and "<svg" in best._repr_svg_()
        done = run(pipeline, plan=best, duration="10s", spares=0)
        found = done.rows("out")
        words = {row["n"]: row["word"] for row in found}
        assert words[0] == "none" and words[3] == "three" and words[6] is None, words
        again = in_a_thread_beside_a_loop(best)
        assert len(again.rows("out")) > len(found)  # it went on
    print("fine")
"""


def run_script(folder, *args):
    (folder / "script.py").write_text(SCRIPT)
    (folder / "words.csv").write_text("0,none\n3,three\n")
    said = subprocess.run(
        [sys.executable, "script.py", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout.endswith("fine\n"), said.stdout + said.stderr


def test_a_pickled_pipeline_is_the_same_pipeline(tmp_path):
    """With its functions, their constants, and paths that mean the same from every directory."""
    run_script(tmp_path)


@pytest.mark.full
def test_a_script_plans_and_runs_its_own_pipeline(tmp_path):
    """Nodes run functions of the script, and its rows come back."""
    run_script(tmp_path, "--run")
