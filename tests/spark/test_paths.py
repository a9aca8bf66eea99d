"""A split that takes another path while it runs: every row once, made by one path or the other."""

import itertools
import signal
import sqlite3
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver
from tests.spark.paths_driver import KEYS, ROWS, Split, as_text, count, counting, pipeline

from holdfast.control.shell.carriers import Carriers
from holdfast.errors import BadInputError
from holdfast.pipeline import deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.paths import carried, take
from holdfast.runtime.spark.frames.check import check_pipeline
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

BATCH_POINTS = ("after-range-record", "after-data-files", "after-slice-record", "before-commit")


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-paths", memory_mb=800)
    yield session
    session.stop()


def delivered(folder):
    """Every row once, as its path makes it; gives the paths taken after the first."""
    files = sorted((folder / "out").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert max(Counter(row["n"] for row in rows).values()) == 1
    last = max(row["n"] for row in rows)
    assert {row["n"] for row in rows} == set(range(last + 1))
    for row in rows:
        assert row["score"] == (row["n"] * 2 if row["path"] == "model" else -row["n"])
    made = [row["path"] for row in sorted(rows, key=lambda row: row["n"])]
    return [b for a, b in itertools.pairwise(made) if a != b]


def counted(folder, *, since=-1):
    """The counts are those of all rows after an epoch; gives the rows that each path has seen."""
    with sqlite3.connect(folder / "out.db") as database:
        found = database.execute("SELECT key, rows, first, last, sum FROM results").fetchall()
    assert len(found) == KEYS
    first_row = (since + 1) * ROWS
    for key, rows, first, last, _ in found:
        expected = [n for n in range(first_row, last + 1) if n % KEYS == key]
        assert (rows, first, last) == (len(expected), expected[0], expected[-1])
    by_rules = sum((total - rows) // 999 for _, rows, _, _, total in found)
    return sum(rows for _, rows, *_ in found) - by_rules, by_rules


def born_at(folder, unit):
    log = SliceLog(folder)
    return log.run(log.steps().birth(unit)).epoch


def test_paths_are_left_and_taken_again(spark, tmp_path):
    """There and back: each row is delivered once, with the path that made it."""
    run = Split(spark, tmp_path)
    try:
        run.until(lambda found: "out.0#0" in found and found["out.0#0"].epoch >= 4)
        assert carried(run.log, run.split).path == "model"
        assert run.take("rules").change == 1
        run.deliver(5)
        assert take(run.log, run.split, "rules", reason="again") is None
        assert run.take("model").change == 2
        run.deliver(5)
        now = carried(run.log, run.split)
        assert (now.path, now.change, now.reason) == ("model", 2, "test")
        with pytest.raises(BadInputError, match="no path 'x'; there are: model, rules"):
            take(run.log, run.split, "x", reason="test")
    finally:
        run.host.close()
    assert delivered(tmp_path) == ["rules", "model"]


def test_paths_with_other_columns_are_refused(spark):
    """Before anything starts, with both."""
    (problem,) = check_pipeline(pipeline(rules=as_text), spark).problems
    assert "its path 'rules' gives struct<n:bigint,score:string,path:string>" in str(problem)
    assert "'model' gives struct<n:bigint,score:bigint,path:string>" in str(problem)


@pytest.mark.sample(state="shared")
@pytest.mark.parametrize("state", ["fresh", "shared"])
def test_paths_with_state_begin_with_none_or_with_that_of_the_path_before(spark, tmp_path, state):
    """There and back: counts are those of all rows, or of those since the last path began."""
    run = Split(spark, tmp_path, what=state)
    try:
        run.until(lambda found: "out.0#0" in found and found["out.0#0"].epoch >= 4)
        run.take("rules")
        run.deliver(5)
        run.take("model")
        run.deliver(5)
    finally:
        run.host.close()
    if state == "fresh":
        assert counted(tmp_path, since=born_at(tmp_path, "score.2#0"))[1] == 0
    else:
        assert all(seen > 0 for seen in counted(tmp_path))


def test_hot_paths_have_their_own_state_when_their_turn_comes(spark, tmp_path):
    """Each has seen all rows, whichever of them was taken; all of them end at every epoch."""
    run = Split(spark, tmp_path, what="hot")
    try:
        run.until(lambda found: "out.0#0" in found and found["out.0#0"].epoch >= 4)
        run.take("rules")
        run.deliver(5)
        run.until(lambda found: counted(tmp_path)[0] == 0)
        run.take("model")
        run.deliver(5)
        run.until(lambda found: counted(tmp_path)[1] == 0)
    finally:
        run.host.close()
    log = SliceLog(tmp_path)
    newest = log.run(log.steps().last_end("score.rules"))
    ends = log.run(log.steps().ends("score.rules", newest - 4))
    assert ends == list(range(newest - 3, newest + 1))


def test_a_hot_path_that_was_shut_down_begins_again(spark, tmp_path):
    """With no state, where its split is; every row after that is counted once."""
    run = Split(spark, tmp_path, what="hot")
    carriers = Carriers(tmp_path, deploy(counting("hot")), writer="test")
    try:
        run.until(lambda found: "out.0#0" in found and found["out.0#0"].epoch >= 4)
        run.take("rules")
        assert carriers.keep("score.model", runs=False, reason="test") == ()
        run.deliver(5)
        (unit,) = carriers.keep("score.model", runs=True, reason="test")
        run.start(unit)
        run.until(lambda found: unit in found and found[unit].batch >= 2)
        run.take("model")
        run.deliver(5)
    finally:
        run.host.close()
    assert unit == "score.model.2#0"
    assert counted(tmp_path, since=born_at(tmp_path, unit))[1] == 0


def test_paths_that_keep_other_state_cannot_share_it(spark):
    """By another function, or of other columns; before anything starts."""

    def other(frame):
        return count(frame.where("n > 0"))

    (problem,) = check_pipeline(counting("shared", rules=other), spark).problems
    assert "'rules' cannot go on with the state of 'model': they keep it by different" in str(
        problem
    )
    assert not check_pipeline(counting("fresh", rules=other), spark).problems
    assert not check_pipeline(counting("shared"), spark).problems


STATE_POINTS = [
    *(f"{point}:score.0#0@4" for point in BATCH_POINTS),
    *(f"{point}:score.1#0@{batch}" for point in BATCH_POINTS for batch in (0, 1)),
    *(f"{point}:score.2#0@0" for point in BATCH_POINTS),
    "during-handover:score.1#0",
    "during-handover:score.2#0",
]


@pytest.mark.sample(crash_at="before-commit:score.1#0@0")
@pytest.mark.parametrize("crash_at", STATE_POINTS)
def test_killed_at_any_step_state_that_is_shared_is_whole(tmp_path, crash_at):
    """SIGKILL of everything, also between what is published and its commit, then another path."""
    folder = tmp_path / "run"
    words = ("shared", folder, 1, "rules", 3, "model", 3)
    killed = run_driver("paths_driver.py", *words, log=tmp_path / "1.log", crash_at=crash_at)
    assert killed == -signal.SIGKILL, (tmp_path / "1.log").read_text()[-2000:]
    # The path that was killed is left before its unit can commit what it has published.
    left = "model" if ".1#0" in crash_at else "rules"
    words = ("shared", folder, 2, left, 3, "rules", 2, "model", 3)
    code = run_driver("paths_driver.py", *words, log=tmp_path / "2.log")
    assert code == 0, (tmp_path / "2.log").read_text()[-2000:]
    assert all(seen > 0 for seen in counted(folder))
    if crash_at.startswith(("after-slice-record", "before-commit")):
        assert "was run again for its state" in (tmp_path / "2.log").read_text()


@pytest.mark.sample(crash_at="after-slice-record:score.1#0@0")
@pytest.mark.parametrize(
    "crash_at",
    [
        *(f"{point}:score.0#0@{batch}" for point in BATCH_POINTS for batch in (3, 4)),
        *(f"{point}:score.1#0@{batch}" for point in BATCH_POINTS for batch in (0, 1)),
        *(f"{point}:score.2#0@0" for point in BATCH_POINTS),
    ],
)
def test_killed_at_any_step_every_row_is_there_once(tmp_path, crash_at):
    """SIGKILL of everything, there and back; another generation goes on with what is on record."""
    folder = tmp_path / "run"
    words = ("score", folder, 1, "rules", 3, "model", 3)
    killed = run_driver("paths_driver.py", *words, log=tmp_path / "1.log", crash_at=crash_at)
    assert killed == -signal.SIGKILL, (tmp_path / "1.log").read_text()[-2000:]
    words = ("score", folder, 2, "rules", 3, "model", 3)
    code = run_driver("paths_driver.py", *words, log=tmp_path / "2.log")
    assert code == 0, (tmp_path / "2.log").read_text()[-2000:]
    assert delivered(folder)[-2:] == ["rules", "model"]
