"""Runs that go on with other cuts, killed with SIGKILL at every step: exactly once, with state."""

from __future__ import annotations

import signal
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver
from tests.spark.recut_driver import events

from holdfast.runtime.log.crash import RESTART_POINT
from holdfast.runtime.log.slicelog import SliceLog

pytestmark = pytest.mark.spark

MOST_PUTS = 40


class Run:
    """A run directory, and what is done to it by processes one after the other."""

    def __init__(self, folder):
        self.folder, self.generation = folder / "run", 0
        self.log = folder / "driver.log"
        self.late = ""

    def drive(self, cuts, batches=0, crash_at=""):
        words = (self.folder, self.generation, cuts, batches, self.late)
        self.generation += batches > 0
        return run_driver("recut_driver.py", *words, log=self.log, crash_at=crash_at)

    def go_on(self, cuts, batches=3):
        assert self.drive(cuts, batches) == 0, self.log.read_text()[-3000:]

    def killed(self, cuts, crash_at):
        assert self.drive(cuts, 10_000, crash_at) == -signal.SIGKILL, self.log.read_text()[-3000:]

    def killed_while_it_begins(self, cuts):
        """Killed after each put in turn, every time by one who goes on where the last died."""
        puts = 0
        while (code := self.drive(cuts, crash_at=RESTART_POINT)) != 0:
            puts += 1
            assert code == -signal.SIGKILL, self.log.read_text()[-3000:]
            assert puts < MOST_PUTS
        return puts

    def check(self):
        """The newest version of every row equals a sum in plain Python, over all epochs."""
        log = SliceLog(self.folder)
        upto = log.range("out.0#0", log.newest_batch("out.0#0")).upto
        expected = Counter()
        for epoch in range(upto + 1):
            for _, key, value in events(epoch, 0):
                expected[key] += 2 * value
        rows = self.rows("out")
        assert {row["key"]: row["total"] for row in rows} == dict(expected)
        assert {row["label"] for row in rows} == {f"sum of {key}" for key in expected}

    def check_late(self, operator, first):
        """The second sink has all rows from its epoch on, each once, and none before."""
        log = SliceLog(self.folder)
        upto = log.range("late.0#0", log.newest_batch("late.0#0")).upto
        rows = self.rows("late")
        if operator == "double":
            expected = [row for at in range(first, upto + 1) for row in events(at, 0)]
            assert sorted((row["key"], row["value"]) for row in rows) == sorted(
                (key, 2 * value) for _, key, value in expected
            )
            return
        expected = Counter()
        for epoch in range(upto + 1):
            for _, key, value in events(epoch, 0):
                expected[key] += 2 * value
        assert {row["key"]: row["total"] for row in rows} == dict(expected)
        published = log.run(log.steps().read("sum", first - 1, upto))
        assert len(rows) == sum(item.rows for item in published)

    def rows(self, name):
        files = sorted((self.folder / name).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


def streams(folder):
    log = SliceLog(folder)
    names = ("events", "double", "sum", "label")
    return {name for name in names if log.carriers(name)}


def test_segments_fuse_and_split_with_their_state(tmp_path):
    """All cuts, none, all again: every sum goes on; who takes over is killed after every put."""
    run = Run(tmp_path)
    run.go_on("all")
    assert run.killed_while_it_begins("none") > 6
    assert streams(run.folder) == {"events", "label"}
    run.go_on("none")
    run.check()
    assert run.killed_while_it_begins("all") > 6
    assert streams(run.folder) == {"events", "double", "sum", "label"}
    run.go_on("all")
    run.check()


def test_max_shards_that_are_declared_later_take_the_state_along(tmp_path):
    """None, four partitions in three shards, killed while Spark lays them out, and none again."""
    run = Run(tmp_path)
    run.go_on("none")
    run.killed("none/4x3", "during-restating:label.1#1")
    run.go_on("none/4x3")
    run.check()
    assert [child.of for child in SliceLog(run.folder).carriers("label")] == [4, 4, 4]
    run.go_on("none")
    run.check()
    assert [child.of for child in SliceLog(run.folder).carriers("label")] == [1]


@pytest.mark.full
def test_units_are_killed_before_and_after_their_cuts_change(tmp_path):
    """Between a slice and its commit, while state is taken over, in the first batch after."""
    run = Run(tmp_path)
    run.go_on("all")
    run.killed("all", "after-slice-record:sum.0#0")
    run.killed("none", "during-handover:label.1#0")
    run.killed("none", "after-slice-record:label.1#0@1")
    run.killed("double", "during-handover:label.2#0")
    run.killed("double", "after-range-record:label.2#0@0")
    run.killed("sum", "before-commit:label.3#0@0")
    run.killed("all", "after-slice-record:sum.3#0@0")
    run.go_on("all")
    run.check()


@pytest.mark.parametrize(
    ("operator", "steps"),
    [
        ("sum", ("during-handover:sum.0#0",)),
        pytest.param(
            "sum",
            (
                "after-slice-record:sum.0#0@0",
                "after-range-record:late.0#0@0",
                "before-commit:late.0#0@0",
                # Not yet come to while others were killed, and before anything is trimmed.
                "before-commit:sum.0#0@4",
                "after-slice-record:label.1#0@6",
            ),
            marks=pytest.mark.full,
        ),
        pytest.param(
            "double",
            ("after-data-files:double.0#0@0", "before-commit:late.0#0@1"),
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_sink_is_added_to_a_fused_operator_at_one_start(tmp_path, operator, steps):
    """At an epoch whose rows were in no log; killed after every put, then at steps of its units."""
    run = Run(tmp_path)
    run.go_on("none", batches=6)
    log = SliceLog(run.folder)
    first = log.range("label.0#0", log.newest_batch("label.0#0") - 3).upto + 1
    run.late = f"{operator}={first}"
    assert run.killed_while_it_begins("none") > 5
    assert streams(run.folder) == {"events", operator, "label"}
    assert log.run(log.steps().birth("late.0#0")).epoch == first - 1
    for step in steps:
        run.killed("none", step)
    run.go_on("none")
    run.check()
    run.check_late(operator, first)
