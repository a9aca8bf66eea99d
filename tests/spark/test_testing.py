"""What users test their pipelines with, and static tables, on a real session."""

import datetime as dt
import time

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from holdfast import testing
from holdfast.errors import BadInputsError
from holdfast.pipeline import (
    Console,
    Files,
    Generator,
    Parquet,
    Pipeline,
    Rate,
    Table,
    deploy,
    load_pipeline,
)
from holdfast.runtime.spark.frames.check import check_pipeline
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LINES = {
    "lines": [
        [("2026-01-01T00:00:01", "kelp and rock"), ("2026-01-01T00:00:09", "kelp")],
        [("2026-01-01T00:00:02", "late one"), ("2026-01-01T00:00:08", "tide kelp")],
    ]
}


@pytest.fixture(scope="module")
def spark():
    return start_session("tests")


def test_both_engines_give_the_rows_that_the_test_expects(spark):
    """Windows close, late rows are put aside, whether the rows are a table or a stream."""
    pipeline = load_pipeline("examples/word_count.py")
    found = testing.run(pipeline, LINES)
    assert found.engine == "batch"
    assert [(row["word"], row["count"]) for row in found["counts"]] == [
        ("kelp", 1),
        ("rock", 1),
        ("kelp", 2),
        ("tide", 1),
    ]
    assert [row["line"] for row in found.late["lines"]] == ["late one"]
    streamed = testing.run(pipeline, LINES, engine="stream")
    assert streamed.sinks == found.sinks
    assert streamed.late == found.late


def test_custom_state_is_run_as_a_stream_and_mistakes_are_told(spark):
    """The first of duplicates counts, epoch by epoch; a wrong column is one line."""

    def first_of_key(frame):
        return frame.select("key").dropDuplicates(["key"])

    p = Pipeline("keys")
    p.sink("out", p.source("rows", Rate(1)).stateful(first_of_key, key="key"), Console())
    found = testing.run(p, {"rows": [(0, 1, 7), {"ts": 1, "key": 7}, {"ts": 2, "key": 8}]})
    assert found.engine == "stream"
    assert found["out"] == [{"key": 7}, {"key": 8}]

    broken = Pipeline("broken")
    broken.sink("out", broken.source("rows", Rate(1)).select("valu"), Console())
    with pytest.raises(BadInputsError, match="rows-select: unknown column 'valu'"):
        testing.run(broken, {"rows": []})


def stops(path):
    """Trips by stop number, with the names of stops from a file."""

    def trips(epoch, seed):
        return [(START + dt.timedelta(seconds=epoch), epoch % 2)]

    def name_stops(trips, stops):
        return trips.join(sf.broadcast(stops), "stop").select("ts", "name")

    p = Pipeline("trips", event_time="ts", watermark="2 seconds", epoch="0.2s")
    table = p.table("stops", Table(str(path), "stop bigint, name string"))
    rows = p.source("trips", Generator(trips, "ts timestamp, stop bigint"))
    p.sink("out", rows.where("stop >= 0").join(table, name_stops), Parquet("out"))
    return p


def run_until(spark, p, folder, epoch, generation):
    deployment = deploy(p)
    host = SparkUnitHost(deployment, p, folder, keep_input=True, spark=spark)
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation else None)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            reports = host.poll()
            assert not [one.error for one in reports if one.state == "failed"]
            if all((one.epoch or -1) >= epoch for one in reports if one.unit.segment == "out"):
                return max(one.epoch for one in reports if one.unit.segment == "out")
            time.sleep(0.05)
    finally:
        host.close()
    return pytest.fail("nothing was delivered")


def test_a_static_table_is_the_one_that_the_run_began_with(spark, tmp_path):
    """A file that changes does no harm to what is redone or resumed."""
    file = tmp_path / "stops.csv"
    file.write_text("0,quay\n1,reef\n")
    folder = tmp_path / "run"
    reached = run_until(spark, stops(file), folder, 2, 0)
    file.write_text("0,other\n1,another\n")
    run_until(spark, stops(file), folder, reached + 3, 1)
    rows = [
        r for f in sorted((folder / "out").glob("*.parquet")) for r in pq.read_table(f).to_pylist()
    ]
    assert len(rows) > reached + 3
    assert {row["name"] for row in rows} == {"quay", "reef"}
    assert (folder / "tables" / "name_stops" / "stops").is_dir()
    assert testing.run(stops(file), {"trips": [(3, 1)]}, tables={"stops": [(1, "pier")]})[
        "out"
    ] == [{"ts": dt.datetime(1970, 1, 1, 0, 0, 3, tzinfo=dt.UTC), "name": "pier"}]


def test_what_no_run_keeps_is_refused(spark, tmp_path):
    """A file that a function reads by itself may have changed when a batch is redone."""
    file = tmp_path / "stops.csv"
    file.write_text("0,quay\n")
    other = tmp_path / "other.csv"
    other.write_text("0,quay\n")

    def reads(frame):
        table = frame.sparkSession.read.schema("value bigint, name string").csv(str(file))
        return frame.join(table, "value")

    def made(frame):
        return frame.join(
            frame.sparkSession.createDataFrame([(1, "a")], "value bigint, n string"), "value"
        )

    def problems(*, fn, table=None, **options):
        p = Pipeline("p")
        rows = p.source("s", Rate(1))
        if table:
            made = rows.join("m", p.table("t", Table(str(table), "value bigint, name string")), fn)
        else:
            made = rows.map("m", fn, **options)
        p.sink("a", made, Console())
        return [str(one) for one in check_pipeline(p, spark).problems]

    def twice(frame, table):
        again = table.withColumnRenamed("name", "again")
        return frame.join(table, "value").join(again, "value")

    assert "m: reads files or tables that may have changed" in problems(fn=reads)[0]
    assert problems(fn=reads, deterministic=False) == []
    assert problems(fn=made) == []
    assert problems(fn=twice, table=file) == []
    assert "m: reads files" in problems(fn=lambda frame, _: reads(frame), table=other)[0]
    (gone,) = problems(fn=twice, table=tmp_path / "gone.csv")
    assert gone.startswith("m: ")
    assert "gone.csv" in gone


def test_a_join_on_columns_and_sql_steps_need_no_function(spark, tmp_path):
    """select, where, with_columns and join(on=...) are what they are in Spark."""
    p = Pipeline("sql")
    names = p.table("names", Table([(1, "one"), (2, "two")], "key bigint, name string"))
    files = p.source("rows", Files(str(tmp_path), schema="key bigint, tags array<string>"))
    rows = files.select("key", "explode(tags) AS tag").where("tag <> ''")
    joined = rows.with_columns(tag="upper(tag)").join(names, on="key", how="left")
    p.sink("out", joined, Console())
    assert [one.name for one in p.operators[1:-1]] == [
        "rows-select",
        "rows-select-where",
        "rows-select-where-with-tag",
        "rows-select-where-with-tag-names",
    ]
    found = testing.run(p, {"rows": [(1, ["a", ""]), (3, ["b"])]})
    assert found["out"] == [
        {"key": 1, "tag": "A", "name": "one"},
        {"key": 3, "tag": "B", "name": None},
    ]
