"""Operators begun anew and sinks added later, killed with SIGKILL at every step: exactly once."""

from __future__ import annotations

import signal
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver
from tests.spark.starts_driver import events

from holdfast.runtime.log.crash import RESTART_POINT
from holdfast.runtime.log.slicelog import SliceLog

pytestmark = pytest.mark.spark

RESET_PUTS = 7
"""The decision; then of each of two streams a change, a seal and a closing."""
LATE_PUTS = 2
"""The decision, and the new stream's first change."""
UNIT_STEPS = (
    "after-range-record:sum.1#0@0",
    "after-data-files:sum.1#0@0",
    "after-slice-record:sum.1#0@0",
    "before-commit:sum.1#0@0",
    "during-clone:sum.1#0",
    "after-range-record:out.1#0",
    "before-commit:out.1#0",
    "after-range-record:late.0#0@0",
    "before-commit:late.0#0@0",
)


class Run:
    """A run directory, and what is done to it by processes one after the other."""

    def __init__(self, folder):
        self.folder, self.generation = folder / "run", 0
        self.logs = folder

    def drive(self, ask="", batches=0, crash_at=""):
        log = self.logs / "driver.log"
        words = (self.folder, self.generation, ask, batches)
        self.generation += batches > 0
        code = run_driver("starts_driver.py", *words, log=log, crash_at=crash_at)
        assert code == (-signal.SIGKILL if crash_at else 0), log.read_text()[-3000:]

    def killed_while_it_begins(self, ask, puts):
        """Killed after each put in turn, every time by one who goes on where the last died."""
        for put in range(puts):
            self.drive(ask if not put else "", crash_at=RESTART_POINT)

    def third_end(self):
        log = SliceLog(self.folder)
        return log.run(log.steps().ends("events", -1))[2] + 1

    def check(self, reset, late):
        """Sums are those of plain Python from the reset on; the late sink has all that follows."""
        log = SliceLog(self.folder)
        assert log.newest_batch("out.1#0") > 0
        upto = log.range("out.1#0", log.newest_batch("out.1#0")).upto
        expected = Counter()
        for epoch in range(reset, upto + 1):
            for _, key, value in events(epoch, 0):
                expected[key] += value
        assert {row["key"]: row["total"] for row in self.rows("out")} == dict(expected)
        upto = log.range("late.0#0", log.newest_batch("late.0#0")).upto
        published = log.run(log.steps().read("sum", late - 1, upto))
        assert len(self.rows("late")) == sum(item.rows for item in published)

    def rows(self, name):
        files = sorted((self.folder / name).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


def newest_end(folder):
    log = SliceLog(folder)
    return log.run(log.steps().last_end("sum")) + 1


@pytest.mark.parametrize(
    "steps",
    [UNIT_STEPS[2:3], pytest.param(UNIT_STEPS, marks=pytest.mark.full)],
    ids=["one", "all"],
)
def test_a_reset_and_a_late_sink_survive_a_kill_at_every_step(tmp_path, steps):
    """Whoever begins them is killed after each put, then their units at each point in turn."""
    run = Run(tmp_path)
    run.drive(batches=3)
    reset = run.third_end()
    run.killed_while_it_begins(f"reset={reset}", RESET_PUTS)
    (run.folder / "out").rename(run.folder / "moved")
    for step in (item for item in steps if "late" not in item):
        if step.startswith("during-clone"):
            run.drive(batches=1)
        run.drive(batches=10_000, crash_at=step)
    run.drive(batches=2)
    late = newest_end(run.folder)
    run.killed_while_it_begins(f"late={late}", LATE_PUTS)
    for step in (item for item in steps if "late" in item):
        run.drive(batches=10_000, crash_at=step)
    run.drive(batches=2)
    run.check(reset, late)
