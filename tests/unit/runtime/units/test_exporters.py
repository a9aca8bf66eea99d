"""Delivering: each batch once, by whoever is current, and never among the rows of another run."""

from __future__ import annotations

import math
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed
from tests.unit.runtime.units.exporting import SCHEMA, context_of, publish_rows

from holdfast.deployment import Boundary, UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline import Console, ForeachBatch, Parquet, Pipeline, Rate, Sqlite
from holdfast.runtime.log.damage import find_damage
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.units.exporters import ExporterUnit, SqliteDelivery, make_delivery
from holdfast.runtime.units.places import Life, check_sinks

pytestmark = pytest.mark.unit

DEADLINE_S = 30.0


def deployment(upsert_key=()):
    return deployed(a_source(upsert_key=upsert_key), a_sink("out"))


def publish(run, *batches):
    """Slices 0, 1, ... of the boundary, each a list of (key, value)."""
    log = SliceLog(run)
    begin(log, deployment())
    for number, rows in enumerate(batches):
        if log.slice("a.0#0", number) is not None:
            continue
        publish_rows(log, "a.0#0", number, rows)


def exporter(run, sink, generation=0, upsert_key=(), make_frame=lambda rows: rows):
    plan = deployment(upsert_key)
    log = SliceLog(run)
    begin(log, plan)
    log.claim("out.0#0", generation)
    context = context_of(log, UnitId(segment="out"), generation, plan)
    delivery = make_delivery(
        sink,
        context=context,
        boundary=plan.boundary("a"),
        schema=SCHEMA,
        make_frame=make_frame,
    )
    return ExporterUnit(context, delivery, SCHEMA)


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not reached"
        time.sleep(0.005)


def deliver(unit, epoch):
    """Run an exporter until it has delivered an epoch."""
    unit.start()
    wait_for(lambda: unit.status().epoch >= epoch or unit.status().state == "failed")
    unit.stop()
    unit.join(DEADLINE_S)
    assert unit.status().state == "stopped", unit.status().error


def rows_of(path, table="results"):
    with closing(sqlite3.connect(path)) as base:
        return sorted(base.execute(f'SELECT * FROM "{table}"'), key=str)  # noqa: S608


def parts(folder):
    return {path.name: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}


class Sleeper:
    """An exporter's process that falls asleep where a batch is about to be made visible."""

    def __init__(self, run, sink):
        self.asleep, self.woken = threading.Event(), threading.Event()
        self.unit = exporter(run, sink)
        prepared = self.unit._delivery.prepared

        def slow(number, rows, upto):
            if number == 0:
                self.asleep.set()
                assert self.woken.wait(DEADLINE_S)
            return prepared(number, rows, upto)

        self.unit._delivery.prepared = slow
        self.unit.start()
        assert self.asleep.wait(DEADLINE_S)

    def wake(self):
        self.woken.set()
        self.unit.join(DEADLINE_S)
        return self.unit.status()


def test_a_function_is_not_called_late_by_a_zombie(tmp_path):
    """An old generation that wakes up when later batches are delivered calls nothing."""
    calls = []
    publish(tmp_path, [(1, 1)], [(2, 2)], [(3, 3)])
    sink = ForeachBatch(lambda rows, delivery: calls.append((delivery, rows.num_rows)))
    zombie = Sleeper(tmp_path, sink)
    deliver(exporter(tmp_path, sink, generation=1), 2)
    delivered = list(calls)
    assert len(delivered) >= 2
    status = zombie.wake()
    assert calls == delivered
    assert status.state == "stopped"
    assert "generation 0 was replaced by 1" in status.error


def test_a_file_that_was_taken_away_is_not_made_again_by_a_zombie(tmp_path):
    """Whoever moves delivered files on must not find one of them twice."""
    publish(tmp_path, [(1, 1)], [(2, 2)])
    zombie = Sleeper(tmp_path, Parquet("out"))
    deliver(exporter(tmp_path, Parquet("out"), generation=1), 1)
    for path in (tmp_path / "out").glob("*.parquet"):
        path.unlink()
    zombie.wake()
    assert parts(tmp_path / "out") == {}


@pytest.mark.parametrize("sink", [Parquet("out"), Sqlite("out.db")])
def test_a_zombie_past_its_last_look_delivers_nothing_twice(tmp_path, sink):
    """Asleep after the look and before the write, it finds the batch done."""
    publish(tmp_path, [(1, 1)], [(2, 2)])
    zombie = exporter(tmp_path, sink)
    rows = pa.Table.from_pylist([{"key": 1, "value": 1}], schema=SCHEMA)
    deliver(exporter(tmp_path, sink, generation=1), 1)
    with zombie._delivery.prepared(0, rows) as late:
        late()
    if isinstance(sink, Sqlite):
        assert rows_of(tmp_path / "out.db") == [(1, 1), (2, 2)]
    else:
        found = parts(tmp_path / "out")
        assert sorted(row["key"] for rows in found.values() for row in rows) == [1, 2]


def test_a_part_is_created_once(tmp_path):
    """A redo of the last batch leaves the file that is there as it is, and no leftover."""
    publish(tmp_path, [(1, 1)], [(2, 2)])
    deliver(exporter(tmp_path, Parquet("out")), 1)
    (tmp_path / "out" / ".holdfast-dead.tmp").write_bytes(b"of a killed generation")
    before = {path.name: path.stat().st_ino for path in (tmp_path / "out").glob("*.parquet")}
    deliver(exporter(tmp_path, Parquet("out"), generation=1), 1)
    after = {path.name: path.stat().st_ino for path in (tmp_path / "out").glob("*.parquet")}
    assert after == before
    assert list((tmp_path / "out").glob(".*")) == []


@pytest.mark.parametrize("sink", [Parquet, Sqlite])
def test_another_run_into_the_same_place_is_refused_and_an_emptied_one_taken(tmp_path, sink):
    """No row is skipped, replaced or mixed with those of another run."""
    place = sink(str(tmp_path / "shared"))
    one, two = tmp_path / "one", tmp_path / "two"
    publish(one, [(1, 1)], [(2, 2)])
    publish(two, [(3, 3)], [(4, 4)])
    deliver(exporter(one, place), 1)
    with pytest.raises(BadInputError, match=r"out: .* holds results of another run"):
        exporter(two, place)
    if sink is Parquet:
        for path in (tmp_path / "shared").glob("*.parquet"):
            path.unlink()
    else:
        with closing(sqlite3.connect(tmp_path / "shared")) as base, base:
            base.execute("DELETE FROM results")
    deliver(exporter(two, place, generation=1), 1)
    if sink is Parquet:
        found = [row["key"] for rows in parts(tmp_path / "shared").values() for row in rows]
        assert sorted(found) == [3, 4]
    else:
        assert rows_of(tmp_path / "shared") == [(3, 3), (4, 4)]
    # The first run has lost its place, and says so instead of writing into it.
    publish(one, [(1, 1)], [(2, 2)], [(5, 5)])
    with pytest.raises(BadInputError, match="holds results of another run"):
        exporter(one, place, generation=1)


@pytest.mark.parametrize("sink", [Parquet("out"), Sqlite("out.db")])
def test_a_reset_sink_does_not_skip_rows(tmp_path, sink):
    """After a reset batches are numbered from 0 again; the old results must be moved first."""
    publish(tmp_path, [(1, 1)], [(2, 2)])
    deliver(exporter(tmp_path, sink), 1)
    pipeline = Pipeline("p")
    pipeline.sink("out", pipeline.source("a", Rate(1)), sink)
    check_sinks(pipeline, tmp_path)
    with pytest.raises(BadInputError, match="before a reset; move or delete them"):
        check_sinks(pipeline, tmp_path, fresh={"out"})
    shutil.rmtree(tmp_path / "units" / "out.0#0")
    with pytest.raises(BadInputError, match="before a reset; move or delete them"):
        exporter(tmp_path, sink, generation=1)
    place = tmp_path / sink.path
    place.rename(tmp_path / "moved")
    check_sinks(pipeline, tmp_path, fresh={"out"})
    deliver(exporter(tmp_path, sink, generation=2), 1)
    if isinstance(sink, Sqlite):
        assert rows_of(place) == [(1, 1), (2, 2)]
    else:
        assert sorted(row["key"] for rows in parts(place).values() for row in rows) == [1, 2]


def test_a_run_goes_on_where_it_stopped(tmp_path):
    """The same run finds its own rows and adds to them."""
    for sink in (Parquet("out"), Sqlite("out.db")):
        run = tmp_path / type(sink).__name__
        publish(run, [(1, 1)], [(2, 2)])
        deliver(exporter(run, sink), 1)
        publish(run, [(1, 1)], [(2, 2)], [(3, 3)])
        deliver(exporter(run, sink, generation=1), 2)
    assert rows_of(tmp_path / "Sqlite" / "out.db") == [(1, 1), (2, 2), (3, 3)]
    found = parts(tmp_path / "Parquet" / "out")
    assert [row["key"] for name in sorted(found) for row in found[name]] == [1, 2, 3]


def test_a_delivery_id_belongs_to_one_run(tmp_path):
    """Who keeps ids to tell repeated deliveries must not skip those of a new run."""
    seen = []
    for run in (tmp_path / "one", tmp_path / "two"):
        publish(run, [(1, 1)])
        sink = ForeachBatch(lambda _, delivery: seen.append(delivery))
        deliver(exporter(run, sink), 0)
        deliver(exporter(run, sink, generation=1), 0)
    assert len(seen) == 4
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert seen[0].startswith("out-")
    assert seen[0].endswith("-0")


def test_null_is_a_key_like_any_other(tmp_path):
    """New versions of a row replace it, also where its key is NULL."""
    publish(tmp_path, [(None, 1), (1, 1), (None, 2)], [(None, 3), (2, 5)], [(1, 9)])
    deliver(exporter(tmp_path, Sqlite("out.db"), upsert_key=("key",)), 2)
    assert rows_of(tmp_path / "out.db") == [(1, 9), (2, 5), (None, 3)]


def test_a_key_that_is_no_number_is_not_the_key_null(tmp_path):
    """Sqlite would take NaN for NULL; as a key it is another one, as in Spark."""
    schema = pa.schema([("key", pa.float64()), ("value", pa.float64())])
    boundary = Boundary(operator="a", mode="upsert", upsert_key=("key",))
    life = Life(sink="out", id="1")
    delivery = SqliteDelivery(tmp_path / "out.db", "results", life, boundary, schema)
    for number in range(2):
        values = [(math.nan, number), (None, number + 10), (-0.0, math.nan), (0.0, number + 20)]
        rows = pa.Table.from_pylist([{"key": k, "value": v} for k, v in values], schema=schema)
        with delivery.prepared(number, rows) as deliver_now:
            deliver_now()
    assert rows_of(tmp_path / "out.db") == [("NaN", 1.0), (0.0, 21.0), (None, 11.0)]


def test_an_upsert_finds_its_row_by_an_index(tmp_path):
    """The cost of an upsert must not grow with the table."""
    publish(tmp_path, [(1, 1)])
    unit = exporter(tmp_path, Sqlite("out.db"), upsert_key=("key", "value"))
    with closing(sqlite3.connect(tmp_path / "out.db")) as base:
        steps = base.execute(f"EXPLAIN QUERY PLAN {unit._delivery._delete}", (1, None)).fetchall()
    assert "USING INDEX results by key, value (key=? AND value=?)" in steps[0][3]


def test_two_tables_of_one_file_never_want_the_same_name(tmp_path):
    """An index by which upserts are found has a name that no table can have."""
    publish(tmp_path, [(1, 1)])
    deliver(exporter(tmp_path, Sqlite("out.db", "a"), upsert_key=("key",)), 0)
    other = tmp_path / "other"
    publish(other, [(2, 2)])
    place = Sqlite(str(tmp_path / "out.db"), "a_key")
    deliver(exporter(other, place, upsert_key=("key",)), 0)
    assert rows_of(tmp_path / "out.db", "a") == [(1, 1)]
    assert rows_of(tmp_path / "out.db", "a_key") == [(2, 2)]


@pytest.mark.parametrize("upsert_key", [("key", "value"), ()], ids=["another key", "no key"])
def test_an_emptied_table_may_be_taken_with_another_key(tmp_path, upsert_key):
    """What tells rows apart may change with a reset, and the table stays."""
    publish(tmp_path / "one", [(1, 1)])
    publish(tmp_path / "two", [(1, 1), (1, 2)])
    place = Sqlite(str(tmp_path / "out.db"))
    deliver(exporter(tmp_path / "one", place, upsert_key=("key",)), 0)
    with closing(sqlite3.connect(tmp_path / "out.db")) as base, base:
        base.execute("DELETE FROM results")
    deliver(exporter(tmp_path / "two", place, upsert_key=upsert_key), 0)
    assert rows_of(tmp_path / "out.db") == [(1, 1), (1, 2)]


def test_a_table_of_the_users_own_is_written_to(tmp_path):
    """A table made beforehand, with rows that no run has delivered, is not in the way."""
    with closing(sqlite3.connect(tmp_path / "out.db")) as base, base:
        base.execute("CREATE TABLE results (key INTEGER, value INTEGER, note TEXT)")
        base.execute("INSERT INTO results VALUES (7, 7, 'mine')")
    publish(tmp_path, [(1, 1)])
    deliver(exporter(tmp_path, Sqlite("out.db")), 0)
    assert rows_of(tmp_path / "out.db") == [(1, 1, None), (7, 7, "mine")]


def test_a_file_of_an_earlier_version_is_refused(tmp_path):
    """Progress that does not say of which run it is must not be gone by."""
    with closing(sqlite3.connect(tmp_path / "out.db")) as base, base:
        base.execute("CREATE TABLE holdfast_progress (sink TEXT PRIMARY KEY, batch INT)")
    publish(tmp_path, [(1, 1)])
    with pytest.raises(BadInputError, match="does not say of which run"):
        exporter(tmp_path, Sqlite("out.db"))


@pytest.mark.parametrize("sink", [Parquet, Sqlite])
def test_a_file_of_another_kind_is_named(tmp_path, sink):
    """What cannot be a place is refused before the start, in one line."""
    (tmp_path / "out").write_text("not a database, not a directory")
    pipeline = Pipeline("p")
    pipeline.sink("out", pipeline.source("a", Rate(1)), sink("out"))
    with pytest.raises(BadInputError, match=r"out: .*(not a directory|cannot be used)"):
        check_sinks(pipeline, tmp_path)


def test_paths_are_compared_in_the_run_directory(tmp_path):
    """A relative and an absolute spelling of one directory are one place."""
    pipeline = Pipeline("p")
    stream = pipeline.source("a", Rate(1))
    pipeline.sink("one", stream, Parquet("out"))
    pipeline.sink("two", stream, Parquet(str(tmp_path / "out")))
    pipeline.sink("shown", stream, Console())
    pipeline.validate()
    with pytest.raises(BadInputError, match=r"two: its path .* overlap"):
        check_sinks(pipeline, tmp_path)


@pytest.mark.parametrize(
    "sink",
    [
        Parquet("streams"),
        Parquet("units/mine"),
        Parquet("out/../checkpoints"),
        Parquet("."),
        Sqlite("run.json"),
        Sqlite("nodes/out.db"),
    ],
)
def test_a_sink_keeps_out_of_what_the_run_keeps(tmp_path, sink):
    """Results among the records would be taken for them, or removed with them."""
    pipeline = Pipeline("p")
    pipeline.sink("out", pipeline.source("a", Rate(1)), sink)
    with pytest.raises(BadInputError, match=r"out: its path .* and the run's own .* overlap"):
        check_sinks(pipeline, tmp_path)


def test_a_database_may_lie_beside_the_records(tmp_path):
    """Only a directory is read as a whole."""
    pipeline = Pipeline("p")
    stream = pipeline.source("a", Rate(1))
    pipeline.sink("one", stream, Sqlite("out.db"))
    pipeline.sink("two", stream, Parquet("logs"))
    check_sinks(pipeline, tmp_path)


class Mender:
    """Puts the rows of lost slices into new files, as one who has run their batches again."""

    def __init__(self, run):
        self.log, self.asked = SliceLog(run), []

    def heal(self, inputs, after, upto, *, heeded, tell):
        self.asked.append((inputs, after, upto, heeded))
        found = find_damage(self.log, self.log.steps(), inputs, after, upto, beyond=True)
        for one in found.damage:
            tell("making it again")
            table = pa.Table.from_pylist([{"key": 1, "value": one.item.number}], schema=SCHEMA)
            zeros = np.zeros(1, dtype=np.int64)
            data = self.log.data(one.item.unit, "a")
            file = write_slice_file(data, f"{one.item.number:010d}-new.arrow", table, zeros, zeros)
            steps = self.log.steps().repair(one.item, {"a": (file,)}, one.item.digest, number=0)
            self.log.run(steps)
        return found.heed if found.damage or (found.heed or -1) > heeded else None


def test_slices_that_are_lost_are_made_again_and_delivered(tmp_path):
    """The exporter that finds them gone has them made, and goes on."""
    publish(tmp_path, *[[(1, number)] for number in range(4)])
    for file in (tmp_path / "units").rglob("*.arrow"):
        file.unlink()
    unit = exporter(tmp_path, Sqlite("out.db"))
    mender = Mender(tmp_path)
    unit.context = replace(unit.context, healer=mender)
    deliver(unit, 3)
    assert rows_of(tmp_path / "out.db") == [(1, number) for number in range(4)]
    assert mender.asked[0] == ((("a", "a"),), -1, 3, -1)


def test_what_cannot_be_made_again_fails_by_name(tmp_path):
    """The unit says which file is missing."""
    publish(tmp_path, [(1, 1)])
    (lost,) = (tmp_path / "units").rglob("*.arrow")
    lost.unlink()
    unit = exporter(tmp_path, Sqlite("out.db"))
    unit.start()
    wait_for(lambda: unit.status().state == "failed")
    assert f"{lost.name}: slice file is missing" in unit.status().error
