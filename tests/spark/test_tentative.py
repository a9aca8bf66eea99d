"""An input is lost and nobody can replace it: results go on without it, and end exact."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.control.shell.wire import ConnectionLostError
from holdfast.health.policy import Policy, Tentative
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.spark.units.unit import DRAFT_EVERY
from holdfast.verify.check import verify

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(600)]

DEADLINE_S = 240.0
APP = "tests/spark/tentative_app.py"
BESIDE = ("right", "double", "total", "rows", "totals", "calls")
"""All that is on another node than the left source, which leaves no room for it there."""


class Started:
    """A run whose left source is alone on a node."""

    def __init__(self, folder: Path, monkeypatch, **tentative) -> None:
        self.calls = folder / "calls"
        monkeypatch.setenv("HOLDFAST_TEST_CALLS", str(self.calls))
        self.pipeline = load_pipeline(APP)
        spec = RunSpec(
            app=APP,
            host="spark",
            deployment=deploy(self.pipeline, cuts="none"),
            policy=Policy(
                workers=2,
                max_units_per_node=len(BESIDE),
                together=(tuple(f"{name}.0#0" for name in BESIDE),),
                tentative=Tentative(
                    after_s=1.0, fidelity={"totals": {"left.0#0": 0.5}}, **tentative
                ),
            ),
            options={"keep_input": True},
        )
        settings = LaunchSettings(nodes=2, spares=0, replace=False)
        self.run = LocalRun(folder / "run", spec, settings)

    def __enter__(self):
        self.run.start()
        self.run.wait_for(all_running, DEADLINE_S, "the start")
        self.reach("totals.0#0", 6)
        return self

    def __exit__(self, *_):
        assert self.run.stop().left == ()

    def unit(self, name):
        return next(unit for unit in self.run.status().units if unit.unit == name)

    def reach(self, name, epoch):
        self.wait_for(lambda view: _epoch(view, name) >= epoch, f"{name} at epoch {epoch}")

    def wait_for(self, condition, what):
        return self.run.wait_for(condition, DEADLINE_S, what)

    def until(self, condition, what):
        end, pause = time.monotonic() + DEADLINE_S, threading.Event()
        while not (found := condition()):
            assert time.monotonic() < end, what
            pause.wait(0.05)
        return found

    def tentative_totals(self):
        return self._select("totals_tentative")

    def newest_totals(self):
        return self._select("totals_newest")

    def _select(self, table):
        path = f"file:{self.run.run_dir}/out/totals.db?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=30)) as base:
            base.row_factory = sqlite3.Row
            known = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if base.execute(known, (table,)).fetchone() is None:
                return []
            return [dict(row) for row in base.execute(f"SELECT * FROM {table}")]  # noqa: S608

    def tentative_files(self):
        return sorted((self.run.run_dir / "out/rows/_tentative").glob("*.parquet"))

    def called(self):
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [json.loads(line) for line in lines]

    def tentative_calls(self):
        return {call["id"] for call in self.called() if call["tentative"]}

    def superseded(self):
        return {name for call in self.called() for name in call["supersedes"]}

    def logs(self):
        return "".join(path.read_text() for path in self.run.run_dir.glob("nodes/*.log"))

    def lose_left(self):
        self.run.kill_node(self.unit("left.0#0").node)

    def await_tentative(self):
        self.until(lambda: len(self.tentative_files()) > 1, "tentative files")
        self.until(self.tentative_totals, "tentative totals")

    def await_exact(self):
        """Nothing is tentative any more, and everything runs."""
        self.wait_for(
            lambda view: bool(view.forks) and view.forks[-1].ended_at is not None, "its end"
        )
        self.until(
            lambda: not self.tentative_files() and not self.tentative_totals(), "only exact rows"
        )
        self.wait_for(all_running, "all running")

    def check(self):
        assert self.run.stop().left == ()
        verdict = verify(self.run.run_dir, claims(self.pipeline))
        assert verdict.ok, verdict.to_json()
        assert not self.tentative_files()
        assert not self.tentative_totals()


def _batch(view, name):
    return next((unit.batch for unit in view.units if unit.unit == name), None) or -1


def _epoch(view, name):
    return next((unit.epoch for unit in view.units if unit.unit == name), None) or -1


def test_results_go_on_without_a_lost_source_and_are_exact_in_the_end(tmp_path, monkeypatch):
    """Tentative rows appear marked, apart and beyond the exact ones; the source comes back, and
    every sink holds what a run without failures leaves. The fork's queries were planned before.
    """
    with Started(tmp_path, monkeypatch) as it:
        it.wait_for(lambda view: _batch(view, "total.0#0") > DRAFT_EVERY, "enough batches")
        it.lose_left()
        it.await_tentative()
        assert "total+1.0#0 takes the query that was planned beforehand" in it.logs()
        exact = it.unit("totals.0#0").epoch
        found = it.tentative_totals()
        lacking = [row for row in found if row["_missing"]]
        assert {row["_missing"] for row in lacking} == {"left.0#0"}
        assert {row["_fidelity"] for row in lacking} == {0.5}
        assert all(row["key"].startswith("r") for row in lacking)
        assert all(row["_after"] >= exact for row in found)
        newest = {row["key"]: row for row in it.newest_totals()}
        assert len(newest) == 6
        assert newest["r0"]["_tentative"] == 1
        (file, *_) = it.tentative_files()
        assert set(pq.read_table(file)["_missing"].to_pylist()) <= {"left.0#0", ""}
        it.until(lambda: any(call["tentative"] for call in it.called()), "a tentative call")
        it.run.add_spare()
        it.await_exact()
        it.until(lambda: it.superseded() == it.tentative_calls(), "all of them superseded")
        it.check()


def fork_of(it):
    try:
        forks = it.run.status().forks
    except ConnectionLostError:
        return None
    return forks[-1] if forks else None


@pytest.mark.full
@pytest.mark.parametrize(
    "point",
    [
        "before-branch:double+1.0#0",
        "after-branch:double+1.0#0",
        "during-clone:total+1.0#0",
        "after-range-record:total+1.0#0",
        "after-data-files:double+1.0#0",
        "after-slice-record:total+1.0#0",
        "before-commit:total+1.0#0",
        "before-tentative:totals+1.0#0",
        "after-tentative:rows+1.0#0",
    ],
)
def test_a_fork_is_killed_at_a_named_point(tmp_path, monkeypatch, point):
    """With the node and the exact units that wait there: the fork comes back beside them, or ends,
    and the result is exact.
    """
    # Only the nodes of this launch that meet the point die of it: the spare added later has none.
    monkeypatch.setenv("HOLDFAST_CRASH_AT", point)
    with Started(tmp_path, monkeypatch) as it:
        it.lose_left()
        it.wait_for(lambda view: not view.nodes, "the death of the other node as well")
        monkeypatch.delenv("HOLDFAST_CRASH_AT")
        it.run.add_spare()
        it.run.add_spare()
        it.wait_for(
            lambda view: bool(view.forks) and view.forks[-1].ended_at is not None, "its end"
        )
        it.await_exact()
        it.check()


@pytest.mark.full
def test_the_coordinator_is_killed_while_a_fork_lives(tmp_path, monkeypatch):
    """Its successor finds the fork in the journal, and ends it when all is exact."""
    with Started(tmp_path, monkeypatch) as it:
        it.lose_left()
        it.await_tentative()
        it.run.kill_coordinator()
        before = it.until(lambda: fork_of(it), "another coordinator").fork
        known = len(it.tentative_files())
        it.until(lambda: len(it.tentative_files()) > known, "more tentative files")
        assert fork_of(it).fork == before
        it.run.add_spare()
        it.await_exact()
        it.check()


@pytest.mark.full
def test_an_input_that_comes_back_and_goes_again(tmp_path, monkeypatch):
    """Twice, by two forks or one; exact after each."""
    with Started(tmp_path, monkeypatch) as it:
        for _ in range(2):
            it.lose_left()
            it.await_tentative()
            it.run.add_spare()
            it.await_exact()
        it.check()
