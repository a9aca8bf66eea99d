"""What a batch with few rows is spared: moves of rows, calls between Python and Java, processes."""

from __future__ import annotations

import datetime as dt
import stat

import py4j.clientserver
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.in_process import Running

from holdfast.deployment import UnitId
from holdfast.pipeline import Generator, Parquet, Pipeline
from holdfast.runtime.spark.start.native import FILES_CLASS
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, key string, n bigint"
BATCHES = 6
CALLS_PER_BATCH = 2
"""One that looks the writer up, and one that writes."""


@pytest.fixture(scope="module")
def spark():
    session = start_session("small")
    yield session
    session.stop()


def rows_of_epoch(epoch, seed):
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=epoch)
    return [(start, f"k{n % 5}", n + seed) for n in range(epoch, epoch + 8)]


def sums(frame):
    return frame.where("n >= 0").groupBy("key").agg(F.sum("n").alias("total"))


def test_rows_of_one_task_stay_in_it_and_java_is_called_once_a_batch(spark, tmp_path, monkeypatch):
    """A unit with one input and one partition of state has one stage, and the right sums."""
    app = Pipeline("small", event_time=("ts", "1 second"), epoch="0.3s")
    source = app.source("rows", Generator(rows_of_epoch, SCHEMA))
    app.sink("out", source.aggregate("sum", sums, key="key", output="upsert"), Parquet("out"))
    calls = []
    send = py4j.clientserver.JavaClient.send_command
    monkeypatch.setattr(
        py4j.clientserver.JavaClient,
        "send_command",
        lambda self, command, *args, **more: (
            calls.append(command) or send(self, command, *args, **more)
        ),
    )
    running = Running(spark, app, tmp_path, sink="out")
    try:
        unit = UnitId.parse("sum.0#0")
        running.until(lambda found: found["sum.0#0"].batch >= 2)
        began, calls[:] = running.poll()["sum.0#0"].batch, []
        running.until(lambda found: found["sum.0#0"].batch >= began + BATCHES)
        # Objects are given back whenever Python finds that they are not used, also those of others.
        asked = [call for call in calls if not call.startswith("m\n")]
        writes = sum(call.startswith("c\nz:holdfast.SliceWriter") for call in asked)
        assert writes >= BATCHES
        assert len(asked) <= CALLS_PER_BATCH * (writes + 1), asked  # one may have just begun
        java = running.host._units[unit]._query._jsq.streamingQuery().lastExecution()
        plan = str(java.executedPlan().toString())
        assert "StateStoreSave" in plan
        assert "Exchange" not in plan
        running.deliver(1)
    finally:
        running.host.close()
    assert delivered(tmp_path) == expected(running.log.range("out.0#0", BATCHES).upto)


def delivered(folder):
    """Totals by key after the first batches of the sink."""
    found = {}
    for number in range(BATCHES + 1):
        for path in (folder / "out").glob(f"part-{number:010d}*.parquet"):
            found.update({row["key"]: row["total"] for row in pq.read_table(path).to_pylist()})
    return found


def expected(upto):
    rows = [row for epoch in range(upto + 1) for row in rows_of_epoch(epoch, 0)]
    return {key: sum(n for _, at, n in rows if at == key) for key in {row[1] for row in rows}}


def test_files_are_those_that_hadoop_would_make(spark, tmp_path):
    """Same names, bytes, checksums and permissions, without a process for each."""
    jvm = spark._jvm
    files = jvm.org.apache.hadoop.fs
    conf = spark._jsc.hadoopConfiguration()
    ours = files.FileSystem.get(jvm.java.net.URI("file:///"), conf)
    assert ours.getClass().getName() == FILES_CLASS
    theirs = files.LocalFileSystem()
    theirs.initialize(jvm.java.net.URI("file:///"), conf)
    made = []
    for name, system in (("ours", ours), ("theirs", theirs)):
        folder = tmp_path / name
        for mode in ("1777", "0755", "0700"):
            wanted = jvm.org.apache.hadoop.fs.permission.FsPermission(mode)
            system.mkdirs(files.Path(str(folder / mode)), wanted)
            at = files.Path(str(folder / mode / "file"))
            out = system.create(at, True)
            out.writeBytes("some text")
            out.close()
            system.setPermission(at, wanted)
        made.append(
            {
                str(path.relative_to(folder)): (
                    stat.filemode(path.stat().st_mode),
                    path.read_bytes() if path.is_file() else b"",
                )
                for path in sorted(folder.rglob("*"))
            }
        )
    assert made[0] == made[1]
    assert made[0]["0700/file"][0] == "-rwx------"
    assert "0755/.file.crc" in made[0]


def test_settings_are_all_there_without_their_origins(spark):
    """What Spark serializes for every batch that keeps state has the same values, and no more."""
    jvm, name = spark._jvm, "fs.trash.interval"
    lean, whole = (jvm.org.apache.hadoop.conf.Configuration() for _ in range(2))
    assert lean.getPropertySources(name) is not None
    assert jvm.holdfast.Origins.forget(lean)
    assert lean.getPropertySources(name) is None
    assert lean.size() == whole.size() > 100
    assert lean.get(name) == whole.get(name) is not None
    assert jvm.org.apache.hadoop.conf.Configuration(lean).getPropertySources(name) is None
    assert spark._jsc.hadoopConfiguration().getPropertySources(name) is None


def test_there_is_room_for_the_code_of_many_queries(spark):
    """Java with its quick compiler alone has 48 MB, and compiles nothing once they are full."""
    beans = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    most = {bean.getName(): bean.getUsage().getMax() for bean in beans}
    assert sum(size for name, size in most.items() if name.startswith("Code")) >= 200 * 2**20
