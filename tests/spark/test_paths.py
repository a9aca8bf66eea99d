"""A split that takes another path while it runs: every row once, made by one path or the other."""

import itertools
import signal
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver
from tests.spark.paths_driver import Split, as_text, pipeline

from holdfast.errors import BadInputError
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


@pytest.mark.sample(crash_at="after-slice-record:score.1#0@0")
@pytest.mark.parametrize(
    "crash_at",
    [
        *(f"{point}:score.0#0@{batch}" for point in BATCH_POINTS for batch in (3, 6)),
        *(f"{point}:score.1#0@{batch}" for point in BATCH_POINTS for batch in (0, 1)),
        *(f"{point}:score.2#0@0" for point in BATCH_POINTS),
    ],
)
def test_killed_at_any_step_every_row_is_there_once(tmp_path, crash_at):
    """SIGKILL of everything, there and back; another generation goes on with what is on record."""
    folder = tmp_path / "run"
    words = (folder, 1, "rules", 3, "model", 3)
    killed = run_driver("paths_driver.py", *words, log=tmp_path / "1.log", crash_at=crash_at)
    assert killed == -signal.SIGKILL, (tmp_path / "1.log").read_text()[-2000:]
    words = (folder, 2, "rules", 3, "model", 3)
    code = run_driver("paths_driver.py", *words, log=tmp_path / "2.log")
    assert code == 0, (tmp_path / "2.log").read_text()[-2000:]
    assert delivered(folder)[-2:] == ["rules", "model"]
