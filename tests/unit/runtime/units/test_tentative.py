"""Tentative deliveries: marked, apart, beyond the exact ones, and gone when these come."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pyarrow.parquet as pq
import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed
from tests.unit.runtime.units.exporting import SCHEMA, context_of, publish_rows
from tests.unit.runtime.units.test_exporters import deliver, rows_of, wait_for

from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError
from holdfast.pipeline import Console, ForeachBatch, Parquet, Sqlite
from holdfast.runtime.log.forked import ForkedLog, Patience
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.units.exporters import ExporterUnit, make_delivery
from holdfast.runtime.units.tentative import TentativeExporter, make_tentative
from holdfast.streams.fork import end_fork, put_fork
from holdfast.streams.records import Fork, ForkEnd
from holdfast.verify.claims import ParquetFolder, SqliteTable
from holdfast.verify.tentative import left_over

pytestmark = pytest.mark.unit

OUT = UnitId(segment="out")


def deployment(upsert_key=()):
    """Two shards of a source, and a sink of both."""
    return deployed(a_source(upsert_key=upsert_key, shards=2), a_sink("out"))


def publish(run, shard, first, *batches):
    """Slices of one shard from a number on, an epoch each: lists of (key, value)."""
    log, unit = SliceLog(run), f"a.0#{shard}"
    begin(log, deployment())
    for number, rows in enumerate(batches, first):
        publish_rows(log, unit, number, rows)


def exact(run, sink, generation=0, upsert_key=()):
    plan, log = deployment(upsert_key), SliceLog(run)
    begin(log, plan)
    log.claim("out.0#0", generation)
    context = context_of(log, OUT, generation, plan)
    made = make_delivery(
        sink,
        context=context,
        boundary=plan.boundary("a"),
        schema=SCHEMA,
        make_frame=lambda rows: rows.to_pylist(),
    )
    return ExporterUnit(context, made, SCHEMA)


def forked(run, sink, fork=1, generation=0, upsert_key=(), silent=("a.0#1",)):
    """The exporter in a fork, which begins where the exact one stands."""
    plan, unit = deployment(upsert_key), OUT.forked(fork)
    SliceLog(run).run(put_fork(Fork(number=fork, units=(unit.name,), silent=silent)))
    log = ForkedLog(
        run, unit=unit.name, streams=("a",), predict=lambda _, missing: 0.5 if missing else 1.0
    )
    log.claim(unit.name, generation)
    log.run(log.steps().begin(log.newest_batch("out.0#0") + 1))
    context = context_of(log, unit, generation, plan)
    made = make_tentative(
        sink,
        context=context,
        boundary=plan.boundary("a"),
        schema=SCHEMA,
        make_frame=lambda rows: rows.to_pylist(),
    )
    return TentativeExporter(context, made, SCHEMA)


def test_rows_of_a_table_are_tentative_until_the_exact_ones_come(tmp_path):
    """Marked with what is missing; a view has the newest; the exact rows remove them."""
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)], [(3, 3)])
    publish(tmp_path, 1, 0, [(11, 1)])
    sink = Sqlite("out.db")
    deliver(exact(tmp_path, sink), 0)
    deliver(forked(tmp_path, sink), 2)
    assert rows_of(tmp_path / "out.db") == [(1, 1), (11, 1)]
    found = rows_of(tmp_path / "out.db", "results_tentative")
    assert [(row[0], row[2], row[4], row[6], row[7]) for row in found] == [
        (2, 1, 0, "a.0#1", 0.5),
        (3, 1, 1, "a.0#1", 0.5),
    ]
    assert rows_of(tmp_path / "out.db", "results_newest") == [
        (1, 1, 0),
        (11, 1, 0),
        (2, 2, 1),
        (3, 3, 1),
    ]
    place = SqliteTable(path="out.db", table="results")
    assert left_over(tmp_path, place, 0) == []
    assert len(left_over(tmp_path, place, 2)) == 2
    publish(tmp_path, 1, 1, [(12, 2)])
    deliver(exact(tmp_path, sink, generation=1), 1)
    assert [row[0] for row in rows_of(tmp_path / "out.db", "results_tentative")] == [3]
    publish(tmp_path, 1, 2, [(13, 3)])
    deliver(exact(tmp_path, sink, generation=2), 2)
    assert rows_of(tmp_path / "out.db", "results_tentative") == []
    assert [row[0] for row in rows_of(tmp_path / "out.db")] == [1, 11, 12, 13, 2, 3]


def test_the_newest_row_of_an_upsert_is_the_tentative_one(tmp_path):
    """One row a key, also where its key is NULL; the exact one again when it has come."""
    publish(tmp_path, 0, 0, [(1, 1), (None, 1)], [(1, 2)], [(1, 3), (None, 4)])
    publish(tmp_path, 1, 0, [(11, 1)])
    sink, key = Sqlite("out.db"), ("key",)
    deliver(exact(tmp_path, sink, upsert_key=key), 0)
    deliver(forked(tmp_path, sink, upsert_key=key), 2)
    newest = rows_of(tmp_path / "out.db", "results_newest")
    assert newest == [(1, 3, 1), (11, 1, 0), (None, 4, 1)]


def test_files_are_tentative_until_the_exact_ones_come(tmp_path):
    """In a folder that readers leave out, with what is missing in every row."""
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    sink = Parquet("out")
    deliver(exact(tmp_path, sink), 0)
    deliver(forked(tmp_path, sink), 1)
    (file,) = (tmp_path / "out/_tentative").glob("*.parquet")
    assert pq.read_table(file).select(["key", "_missing", "_fidelity"]).to_pylist() == [
        {"key": 2, "_missing": "a.0#1", "_fidelity": 0.5}
    ]
    assert pq.read_table(tmp_path / "out").num_rows == 2
    assert len(left_over(tmp_path, ParquetFolder(path="out"), 1)) == 1
    publish(tmp_path, 1, 1, [])
    deliver(exact(tmp_path, sink, generation=1), 1)
    assert list((tmp_path / "out/_tentative").iterdir()) == []


@pytest.mark.parametrize("sink", [Sqlite("out.db"), Parquet("out")], ids=["table", "files"])
def test_a_late_tentative_delivery_is_none(tmp_path, sink):
    """The exact rows have come while its exporter slept: nothing is delivered."""
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    deliver(exact(tmp_path, sink), 0)
    late = forked(tmp_path, sink)
    publish(tmp_path, 1, 1, [(12, 2)])
    deliver(exact(tmp_path, sink, generation=1), 1)
    deliver(late, 1)
    assert late.status().rows_out == 0
    if isinstance(sink, Sqlite):
        with closing(sqlite3.connect(tmp_path / "out.db")) as base:
            made = base.execute("SELECT 1 FROM sqlite_master WHERE name LIKE '%_tentative'")
            assert made.fetchone() is None
    else:
        assert not (tmp_path / "out/_tentative").exists()


@pytest.mark.parametrize("sink", [Sqlite("out.db"), Parquet("out")], ids=["table", "files"])
def test_a_later_fork_replaces_what_an_earlier_one_delivered(tmp_path, sink):
    """It has begun where the exact results stood, and knows better."""
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    deliver(exact(tmp_path, sink), 0)
    deliver(forked(tmp_path, sink), 1)
    deliver(forked(tmp_path, sink, fork=2), 1)
    if isinstance(sink, Sqlite):
        found = [row[2] for row in rows_of(tmp_path / "out.db", "results_tentative")]
    else:
        files = (tmp_path / "out/_tentative").iterdir()
        found = [pq.read_table(file)["_fork"][0].as_py() for file in files]
    assert found == [2]


def test_a_function_is_told_what_is_tentative_and_what_that_replaces(tmp_path):
    """Tentative deliveries have ids of their own, which the exact ones supersede."""
    calls = []

    def call(rows, delivery, tentative=None, supersedes=()):
        calls.append((len(rows), delivery, tentative, supersedes))

    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    deliver(exact(tmp_path, ForeachBatch(call)), 0)
    deliver(forked(tmp_path, ForeachBatch(call)), 1)
    publish(tmp_path, 1, 1, [(12, 2)])
    deliver(exact(tmp_path, ForeachBatch(call), generation=1), 1)
    (tentative,) = [item for item in calls if item[2]]
    first, last = calls[0], calls[-1]
    assert first[2:] == (None, ())
    assert tentative[2]["_missing"] == "a.0#1"
    assert "fork1" in tentative[1]
    assert last[0] == 2
    assert last[2:] == (None, (tentative[1],))
    assert not SliceLog(tmp_path).store.names("units/out.0#0/tentative")


def test_a_function_that_takes_no_tentative_gets_none(tmp_path):
    """It is called as before."""
    calls = []
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    sink = ForeachBatch(lambda rows, delivery: calls.append(delivery))
    deliver(exact(tmp_path, sink), 0)
    deliver(forked(tmp_path, sink), 1)
    assert len(calls) == 1


def test_the_console_says_what_is_missing(tmp_path, capsys):
    """People see that rows are tentative."""
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    deliver(exact(tmp_path, Console()), 0)
    deliver(forked(tmp_path, Console()), 1)
    assert "1 tentative rows, without a.0#1" in capsys.readouterr().out


def test_the_end_of_a_fork_ends_its_exporter_and_its_records_go(tmp_path):
    """It says why; what it has left is removed when the exact unit is trimmed."""
    publish(tmp_path, 0, 0, [(1, 1)], [(2, 2)])
    publish(tmp_path, 1, 0, [(11, 1)])
    deliver(exact(tmp_path, Console()), 0)
    unit = forked(tmp_path, Console())
    unit.start()
    wait_for(lambda: unit.status().epoch == 1)
    log = SliceLog(tmp_path)
    log.run(end_fork(ForkEnd(number=1, reason="enough")))
    wait_for(lambda: unit.status().state == "ended")
    unit.join(10)
    assert unit.status().error == "out+1.0#0: its fork is over, enough"
    assert log.store.folders("units/out+1.0#0")
    Trimmer(log, deployment()).trim("out.0#0")
    assert not log.store.folders("units/out+1.0#0")


def test_a_fork_that_is_not_on_record_is_refused(tmp_path):
    """Whoever starts its unit has to put it there first."""
    with pytest.raises(HoldfastError, match="not on record"):
        ForkedLog(tmp_path, unit="out+7.0#0")


def test_patience_ends_for_each_log_by_itself():
    """A log that gave something meanwhile is waited for anew."""
    now = [0.0]

    class Clock:
        def now(self):
            return now[0]

    patience = Patience(lambda name: 60.0 if name == "unborn" else 2.0, Clock())
    assert not patience.over(["a"])
    now[0] = 2.0
    assert patience.over(["a"])
    assert not patience.over(["a", "b"])
    assert patience.over([])
    assert not patience.over(["a"])
    now[0] = 30.0
    assert not patience.over(["unborn"])
