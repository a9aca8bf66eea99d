"""A split that takes another path while it runs: every row once, made by one path or the other."""

import itertools
from collections import Counter

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.in_process import Running

from holdfast.errors import BadInputError
from holdfast.pipeline import Generator, Parquet, Pipeline
from holdfast.runtime.paths import carried, take
from holdfast.runtime.spark.frames.check import check_pipeline
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

ROWS = 7


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-paths", memory_mb=800)
    yield session
    session.stop()


def events(epoch, seed):
    return [(epoch * ROWS + i,) for i in range(ROWS)]


def double(frame):
    return frame.withColumn("score", F.col("n") * 2)


def as_text(frame):
    return frame.withColumn("score", F.col("n").cast("string"))


def negative(frame):
    return frame.withColumn("score", -F.col("n"))


def pipeline(rules=negative):
    p = Pipeline("split", epoch="0.4s")
    rows = p.source("events", Generator(function=events, schema="n bigint", seed=0))
    scored = rows.paths(
        "score",
        column="path",
        model=lambda s: s.map("double", double),
        rules=lambda s: s.map("keep", lambda frame: frame.where("n >= 0")).map("negative", rules),
    )
    p.sink("out", scored, Parquet("out"))
    return p


class Split(Running):
    """The pipeline above, which can be had take another path."""

    def __init__(self, spark, folder):
        super().__init__(spark, pipeline(), folder, sink="out")
        self.split = self.deployment.segment("score")

    def take(self, path):
        """Take a path, and wait until its unit has published."""
        change = take(self.log, self.split, path, reason="test")
        unit = change.children[0].unit
        self.until(lambda found: unit in found and found[unit].batch >= 0)
        return change


def test_paths_are_left_and_taken_again(spark, tmp_path):
    """There and back: each row is delivered once, with the path that made it."""
    run = Split(spark, tmp_path)
    try:
        run.until(lambda found: "out.0#0" in found and found["out.0#0"].epoch >= 4)
        assert carried(run.log, run.split).path == "model"
        assert run.take("rules").number == 1
        run.deliver(5)
        assert take(run.log, run.split, "rules", reason="again") is None
        assert run.take("model").number == 2
        run.deliver(5)
        now = carried(run.log, run.split)
        assert (now.path, now.change, now.reason) == ("model", 2, "test")
        with pytest.raises(BadInputError, match="no path 'x'; there are: model, rules"):
            take(run.log, run.split, "x", reason="test")
    finally:
        run.host.close()
    files = sorted((tmp_path / "out").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert max(Counter(row["n"] for row in rows).values()) == 1
    last = max(row["n"] for row in rows)
    assert {row["n"] for row in rows} == set(range(last + 1))
    for row in rows:
        assert row["score"] == (row["n"] * 2 if row["path"] == "model" else -row["n"])
    made = [row["path"] for row in sorted(rows, key=lambda row: row["n"])]
    changes = [b for a, b in itertools.pairwise(made) if a != b]
    assert changes == ["rules", "model"]


def test_paths_with_other_columns_are_refused(spark):
    """Before anything starts, with both."""
    (problem,) = check_pipeline(pipeline(rules=as_text), spark).problems
    assert "its path 'rules' gives struct<n:bigint,score:string,path:string>" in str(problem)
    assert "'model' gives struct<n:bigint,score:bigint,path:string>" in str(problem)
