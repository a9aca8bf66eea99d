"""Slices that Java reads and writes: the same files, rows and digests as through Python."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.deployment import Boundary
from holdfast.deployment.slicefiles import bytes_in, content_digest
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin_alone
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.io.native import Asker, NativeSource, write_natively
from holdfast.runtime.spark.io.publish import keyed, write_files
from holdfast.runtime.spark.io.reader import TICK, InputSpec, LogReader, ReaderSpec
from holdfast.runtime.spark.start import daemon
from holdfast.runtime.spark.start.native import side_of
from holdfast.runtime.spark.start.session import start_session
from holdfast.streams.records import Slice

pytestmark = pytest.mark.spark

FLAT = {
    "long": "id * 3000000000",
    "int": "int(id) - 5",
    "short": "smallint(id - 3)",
    "byte": "tinyint(id % 100 - 3)",
    "boolean": "id % 2 = 0",
    "double": "if(id = 2, double('nan'), if(id = 3, double('-0.0'), id / 7))",
    "float": "float(id / 7)",
    "string": "repeat(string(id), int(id) * 3)",
    "unicode": "concat('ä€𝄞', string(id))",
    "binary": "cast(string(id) AS binary)",
    "timestamp": "timestamp_micros(id * 1000001 - 5)",
    "timestamp_ntz": "timestamp_ntz '1926-01-01 01:02:03.4'",
    "date": "date_add(date '1969-12-01', int(id))",
}
OTHER = {
    "decimal": "cast(decimal(id) / 3 AS decimal(20, 6))",
    "large decimal": "cast(-id AS decimal(38, 10))",
    "small decimal": "cast(id AS decimal(7, 2))",
    "day time": "make_dt_interval(int(id))",
    "struct": "named_struct('a', id, 'b', string(id))",
    "array": "array(id, NULL, id + 1)",
    "empty array": "if(id = 1, array(), array('x'))",
    "map": "map(string(id), id, 'k', NULL)",
    "deep": "array(named_struct('a', map(id, array(string(id))), 'b', NULL))",
    "map in struct": "named_struct('m', map(id, 'v'))",
}
SOME = 40
OP = "op.0#0"
OUT = (Boundary(operator="op", key=("key",)), Boundary(operator="op"))


@pytest.fixture(scope="module")
def spark():
    session = start_session("native")
    assert side_of(session) == "native"
    yield session
    session.stop()


def test_units_without_python_functions_start_no_python_worker(spark, tmp_path):
    """Two units with a boundary between them read, count and write; Java alone does it.

    The first of its session: workers of others would still be there.
    """
    app = Pipeline("lean", event_time=("ts", "1 second"), epoch="0.3s")
    source = app.source("rows", Generator(rows_of_epoch, "ts timestamp, key string, n bigint"))
    doubled = source.map("double", lambda frame: frame.withColumn("n", F.col("n") * 2))
    app.sink("out", doubled.aggregate("sum", sums, key="key", output="upsert"), Parquet("out"))
    deployment = deploy(app, cuts="all", shards={"sum": 2})
    host = SparkUnitHost(deployment, app, tmp_path, spark=spark)
    end = time.monotonic() + 300
    try:
        # The last ones first, so that they wait, each in a question of its own, for the others.
        inner = [unit for unit in deployment.units() if unit.segment in ("double", "sum")]
        for unit in reversed(inner):
            host.start(unit, 0, None)
            while not asked(host, unit):
                assert time.monotonic() < end, host.poll()
                time.sleep(0.05)
        for unit in deployment.units():
            if unit not in inner:
                host.start(unit, 0, None)
        while len(host.poll()) < 5 or not all(item.batch >= 3 for item in host.poll()):
            assert time.monotonic() < end, host.poll()
            assert not [item.error for item in host.poll() if item.state == "failed"]
            time.sleep(0.05)
        assert not [words for words in started() if daemon.__name__ in words]
    finally:
        host.close()
    upto = SliceLog(tmp_path).range("out.0#0", 2).upto
    found = {}
    for number in range(3):
        for path in (tmp_path / "out").glob(f"part-{number:010d}*.parquet"):
            found.update({row["key"]: row["total"] for row in pq.read_table(path).to_pylist()})
    rows = [row for epoch in range(upto + 1) for row in rows_of_epoch(epoch, 0)]
    assert found == {
        key: sum(2 * n for _, at, n in rows if at == key) for key in {row[1] for row in rows}
    }


def started():
    """Command lines of all processes below this one."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # ended meanwhile
            found.append(child.cmdline())
    return found


def asked(host, unit):
    """Whether Java has asked what the first batch of a unit reads."""
    planned = getattr(host._units[unit], "_planned", None)
    return planned is not None and planned.side.ready_at() > 0


def rows_of_epoch(epoch, seed):
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=epoch)
    return [(start, f"k{n % 5}", n + seed) for n in range(epoch, epoch + 8)]


def sums(frame):
    return frame.groupBy("key").agg(F.sum("n").alias("total"))


def made(spark, kinds, rows=SOME, tasks=2):
    """A column of every kind, each with nulls, behind one with a key."""
    columns = [
        f"if(id % 5 = {place % 5}, NULL, {told}) AS `{name}`"
        for place, (name, told) in enumerate(kinds.items())
    ]
    return spark.range(0, rows, 1, tasks).selectExpr("concat('k', id) AS key", *columns)


def publish(log, written, number=0):
    """A slice with both boundaries."""
    begin_alone(log, "op", "reader")
    return log.publish(
        Slice(
            unit=OP,
            number=number,
            after=number - 1,
            upto=number,
            files=written.files,
            rows=written.rows,
            digest=content_digest(written.files),
        )
    )


def reading(log, schema, boundary=OUT[0], **told):
    return ReaderSpec(
        root=log.root,
        unit="reader.0#0",
        generation=0,
        inputs=(InputSpec(boundary=boundary.name, stream="op", schema=schema.json()),),
        groups=(0, 128),
        batching=Batching(one_epoch_per_batch=True),
        **told,
    )


def source_of(spark, log, spec):
    """What answers Java; nobody waits for it."""
    asker = Asker(log=log, failed=lambda *_: None)
    return NativeSource(spark, spec, asker)


def native(spark, log, spec, number=0):
    """The rows of a batch as Java reads them."""
    source = source_of(spark, log, spec)
    try:
        return source.batch_rows(spark, 0, number).toArrow().to_pylist()
    finally:
        source.close()


def python(spec, number=0):
    """The same as Python reads them."""
    reader = LogReader(spec)
    parts = [batch for part in range(spec.partitions) for batch in reader.read(number, 0, part)]
    return pa.Table.from_batches(parts).drop_columns([TICK]).to_pylist()


def check_both_directions(spark, folder, frame):
    """What one side writes the other reads, in the same order, with the same digests."""
    logs = [SliceLog(folder / side) for side in ("python", "native")]
    wanted = {"unit": OP, "number": 0, "generation": 0}
    theirs = publish(logs[0], write_files(frame, OUT, log=logs[0], **wanted))
    rows = keyed(frame, OUT)
    ours = publish(logs[1], write_natively(rows, OUT, log=logs[1], **wanted))
    assert ours.same_content(theirs)
    assert ours.rows == SOME
    for boundary in OUT:
        names = [[file.name[:13] for file in item.files[boundary.name]] for item in (ours, theirs)]
        assert names[0] == names[1]
    for boundary in OUT:
        found = []
        for log in logs:
            spec = reading(log, frame.schema, boundary)
            found += [native(spark, log, spec), python(spec)]
        assert len({repr(rows) for rows in found}) == 1
        assert sorted(row["key"] for row in found[0]) == sorted(f"k{at}" for at in range(SOME))


@pytest.mark.parametrize("kinds", [FLAT, OTHER], ids=["flat", "other"])
def test_what_one_side_writes_the_other_reads(spark, tmp_path, kinds):
    """All types at once, on two boundaries: same rows, same order, same digests, file by file."""
    check_both_directions(spark, tmp_path, made(spark, kinds))


@pytest.mark.full
@pytest.mark.parametrize("kind", [*FLAT, *OTHER])
def test_every_type_by_itself(spark, tmp_path, kind):
    """No type hides behind another."""
    check_both_directions(spark, tmp_path, made(spark, {kind: {**FLAT, **OTHER}[kind]}))


@pytest.mark.parametrize("rows", [600, pytest.param(6000, marks=pytest.mark.full)])
def test_a_large_slice_is_written_piece_by_piece(spark, tmp_path, rows):
    """Rows beyond what a task holds go into further files; nothing is lost, moved or changed.

    In full, a slice that is larger than the heap.
    """
    heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()
    frame = spark.range(0, rows, 1, 1).selectExpr(
        "concat('k', id) AS key", "id", "repeat(lpad(string(id), 5, '0'), 20000) AS text"
    )
    log, out = SliceLog(tmp_path), OUT[:1]
    written = write_natively(keyed(frame, out), out, log=log, unit=OP, number=0, generation=0)
    files = publish(log, written).files[out[0].name]
    assert written.rows == rows
    assert rows < 6000 or bytes_in(files) > heap
    sizes = [bytes_in([file]) for file in files]
    assert len(sizes) > 2
    assert max(sizes) < 17 << 20
    source = source_of(spark, log, reading(log, frame.schema, tasks=3))
    whole = "text = repeat(lpad(string(id), 5, '0'), 20000)"
    told = source.batch_rows(spark, 0, 0).selectExpr(
        "count(DISTINCT id) AS ids", "count(*) AS rows", f"bool_and({whole}) AS same"
    )
    assert told.collect()[0].asDict() == {"ids": rows, "rows": rows, "same": True}
    source.close()


def test_a_follower_holds_its_files_until_they_are_wanted(spark, tmp_path):
    """Nothing is on disk before they are kept; then they are those that would have been written."""
    frame, held = made(spark, FLAT), spark._jvm.holdfast.Held
    log = SliceLog(tmp_path)
    before = held.bytes()

    def hold(number):
        rows = keyed(frame, OUT)
        return write_natively(rows, OUT, log=log, unit=OP, number=number, generation=0, hold=True)

    dropped = hold(0)
    assert held.bytes() > before
    dropped.forget()
    assert held.bytes() == before
    wanted = hold(0)
    folder = Path(log.data(OP, OUT[0].name).address(""))
    assert not list(folder.glob("*"))
    wanted.keep()
    wanted.forget()
    assert {path.name for path in folder.glob("*")} == {
        file.name for file in wanted.files[OUT[0].name]
    }
    publish(log, wanted)
    assert len(native(spark, log, reading(log, frame.schema))) == SOME
    assert held.bytes() == before


def test_more_than_a_follower_may_hold_goes_to_disk(spark, tmp_path):
    """A slice larger than the bound is written as a leader's is; keeping it changes nothing."""
    frame = spark.range(0, 600, 1, 1).selectExpr(
        "concat('k', id) AS key", "id", "repeat(lpad(string(id), 5, '0'), 20000) AS text"
    )
    log, out = SliceLog(tmp_path), OUT[:1]
    written = write_natively(
        keyed(frame, out), out, log=log, unit=OP, number=0, generation=0, hold=True
    )
    on_disk = Path(log.data(OP, out[0].name).address("")).glob("*")
    held = spark._jvm.holdfast.Held.bytes()
    assert 0 < held <= 32 << 20
    assert bytes_in(written.files[out[0].name]) < held + sum(p.stat().st_size for p in on_disk)
    written.keep()
    written.forget()
    publish(log, written)
    rows = native(spark, log, reading(log, frame.schema))
    assert len(rows) == written.rows == 600


def test_rows_that_are_left_out(spark, tmp_path):
    """Quarantined rows are those that Python would leave out, at any place of any slice."""
    frame = made(spark, FLAT, rows=200)
    log = SliceLog(tmp_path)
    for number in range(2):
        written = write_natively(
            keyed(frame, OUT), OUT, log=log, unit=OP, number=number, generation=0
        )
        publish(log, written, number)
    spec = reading(log, frame.schema, tasks=2)
    assert len(native(spark, log, spec, 0)) == 200
    everything = native(spark, log, replace(spec, tasks=1), 1)
    assert len(everything) == 200
    for skipped in ((0,), (199,), (3, 4, 5, 100), tuple(range(200))):
        some = replace(spec, skips={1: {OUT[0].name: skipped}})
        rows = native(spark, log, some, 1)
        assert repr(rows) == repr([row for at, row in enumerate(everything) if at not in skipped])


def test_an_altered_slice_is_named(spark, tmp_path):
    """A flipped byte, a torn file and a missing one fail the batch with the file's name."""
    frame = made(spark, {"n": "id"}, tasks=1)
    log = SliceLog(tmp_path)
    record = publish(
        log,
        write_natively(keyed(frame, OUT), OUT, log=log, unit=OP, number=0, generation=0),
    )
    (file,) = record.files[OUT[0].name]
    path = Path(log.data(OP, OUT[0].name).address(file.name))
    whole = path.read_bytes()
    end = max(part.offset + part.size for part in file.parts)
    spec = reading(log, frame.schema)
    damage = {
        "altered": whole[: end - 1] + bytes([whole[end - 1] ^ 1]) + whole[end:],
        "torn": whole[: end - 1],
    }
    for what, data in damage.items():
        path.write_bytes(data)
        with pytest.raises(Exception, match=f"slice file (is|was) {what}") as error:
            native(spark, log, spec)
        assert path.name in str(error.value)
    path.unlink()
    with pytest.raises(Exception, match=r"slice file is missing.*\.arrow"):
        native(spark, log, spec)


def test_reading_and_writing_leave_no_memory_behind(spark, tmp_path):
    """All of Arrow's buffers are given back, whatever the types and however a batch ends."""
    allocator = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = allocator.getAllocatedMemory()  # queries of other tests in this Java may hold some
    for kinds in (FLAT, OTHER):
        frame = made(spark, kinds)
        log = SliceLog(tmp_path / str(len(kinds)))
        publish(
            log,
            write_natively(keyed(frame, OUT), OUT, log=log, unit=OP, number=0, generation=0),
        )
        spec = reading(log, frame.schema, skips={0: {OUT[0].name: (1, 7)}})
        assert len(native(spark, log, spec)) == SOME - 2
        source = source_of(spark, log, spec)
        assert source.batch_rows(spark, 0, 0).limit(1).count() == 1
        source.close()
    assert allocator.getAllocatedMemory() <= before
