"""A spare's rehearsal runs the real segments and leaves the run as it was."""

from __future__ import annotations

import datetime as dt
import logging
from unittest.mock import Mock

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import Segment, UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.units.rehearse import _run
from holdfast.runtime.spark.units.starting import Starting

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(epoch, seed):
    return [(START + dt.timedelta(seconds=epoch), f"k{i + seed}", i) for i in range(4)]


def pipeline(note):
    """One stateless and one stateful segment; the first leaves a note for every row it maps."""
    made = Pipeline("rehearsed", event_time=("ts", "1 second"), epoch="200ms")
    source = made.source("rows", Generator(rows, "ts timestamp, key string, value bigint"))

    def mark(frame):
        def each(batches):
            for batch in batches:
                with open(note, "a") as file:  # noqa: PTH123 - runs in a task
                    file.write("x" * batch.num_rows)
                yield batch

        return frame.mapInArrow(each, frame.schema)

    counted = source.map("mark", mark).aggregate(
        "count", lambda frame: frame.groupBy(F.window("ts", "1 second"), "key").count(), key="key"
    )
    made.sink("out", counted, Parquet("out"))
    return made


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def published(spark, app, run):
    """A run whose source has published three slices; gives its deployment."""
    deployment = deploy(app, cuts="all")
    host = SparkUnitHost(deployment, app, run, spark=spark)
    source = next(unit for unit in deployment.units() if unit.segment == "rows")
    host.start(source, 0, None)
    log = SliceLog(run)
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=60)
    while log.slice("rows.0#0", 2) is None:
        assert dt.datetime.now(dt.UTC) < deadline, host.poll()
    host.close()
    return deployment


def test_a_rehearsal_runs_the_functions_and_touches_nothing(spark, tmp_path, caplog):
    """Real slices go through the user's own functions; the run directory stays as it was."""
    note, run = tmp_path / "note", tmp_path / "run"
    app = pipeline(str(note))
    deployment = published(spark, app, run)
    before = files(run)
    assert not note.exists()

    spare = SparkUnitHost(deployment, app, run, spark=spark)
    with caplog.at_level(logging.WARNING, logger="holdfast.spark"):
        spare.warm()
    spare.close()
    assert not caplog.records, caplog.text
    assert len(note.read_text()) >= 3 * 4, "three batches of at least four rows"
    assert files(run) - before <= {"schemas.json"}


def test_a_takeover_begins_with_the_query_that_the_spare_has_planned(spark, tmp_path, caplog):
    """It reads the unit's records and publishes in its name, as one planned for it would."""
    note, run = tmp_path / "note", tmp_path / "run"
    app = pipeline(str(note))
    deployment = published(spark, app, run)
    spare, log = SparkUnitHost(deployment, app, run, spark=spark), SliceLog(run)
    spare.warm()
    with caplog.at_level(logging.INFO, logger="holdfast.spark"):
        for unit in deployment.units():
            spare.start(unit, 1, None)
        deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=60)
        while log.slice("count.0#0", 5) is None:
            assert dt.datetime.now(dt.UTC) < deadline, spare.poll()
    spare.close()
    for unit in ("mark.0#0", "count.0#0"):
        assert f"unit={unit} takes the query that was planned beforehand" in caplog.text
        assert log.need_slice(unit, 5).generation == 1
    for item in (log.need_slice("mark.0#0", number) for number in range(6)):
        assert item.rows == 4 * (item.upto - item.after)


def test_a_failing_rehearsal_is_told_and_harms_nothing(spark, tmp_path, caplog):
    """A function that fails on a spare must not cost the spare."""
    made = Pipeline("failing", event_time=("ts", "1 second"), epoch="200ms")
    source = made.source("rows", Generator(rows, "ts timestamp, key string, value bigint"))

    def fail(frame):
        def each(batches):
            raise RuntimeError("not today")
            yield from batches

        return frame.mapInArrow(each, frame.schema)

    made.sink("out", source.map("fails", fail), Parquet("out"))
    host = SparkUnitHost(deploy(made), made, tmp_path, spark=spark)
    with caplog.at_level(logging.WARNING, logger="holdfast.spark"):
        host.warm()
    host.close()
    assert "rehearsal of fails.0#0 failed" in caplog.text


def test_a_spare_that_is_needed_leaves_its_rehearsals(spark, tmp_path):
    """It has units before it has rehearsed: nothing is run for nobody from then on."""
    note, run = tmp_path / "note", tmp_path / "run"
    app = pipeline(str(note))
    deployment = published(spark, app, run)
    spare = SparkUnitHost(deployment, app, run, spark=spark)
    unit = UnitId(segment="rows")
    spare._units[unit] = Starting(unit, 1, 0)
    spare.warm()
    spare.close()
    assert not note.exists()


def test_a_rehearsal_under_way_is_left_when_the_node_is_needed():
    """Its unit is stopped in the middle, and counts as not rehearsed."""
    looks = iter([False, False, True])
    unit = Mock(progress=Mock(report=Mock(batch=0, state="running")))
    assert not _run(unit, lambda: next(looks))
    unit.stop.assert_called_once()


def test_a_failure_is_raised_where_state_is_to_lie_otherwise():
    """Those who have it have not handed it over, so nobody is stuck; else it is told only."""
    report = Mock(batch=0, state="failed", error="Traceback\nBadInputError: count: rows are moved")
    context = Mock(segment=Segment(name="count", kind="inner", operators=("count",), max_shards=4))
    unit = Mock(progress=Mock(report=report), context=context)
    assert not _run(unit, lambda: False)
    line = "count: it cannot have its state in 4 partitions: BadInputError: count: rows are moved"
    with pytest.raises(BadInputError, match=line):
        _run(unit, lambda: False, strict=True)
    assert unit.stop.call_count == 2
