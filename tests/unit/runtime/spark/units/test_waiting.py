"""How units wait: woken by the watcher, without looking for themselves meanwhile."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.clock import ManualClock
from holdfast.deployment import UnitId
from holdfast.pipeline import Rate
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog, SupersededError
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.watch import NodeWatch
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.spark.io import reader as reader_module
from holdfast.runtime.spark.io.native import _NodeWait
from holdfast.runtime.spark.io.reader import InputSpec, LogReader, ReaderSpec
from holdfast.runtime.units import threads
from holdfast.runtime.units.sources import GeneratedRows, SourceUnit
from holdfast.runtime.units.threads import ThreadUnit, UnitContext
from holdfast.storage.local import LocalStorage
from holdfast.streams.records import Change, Child, Slice
from holdfast.streams.steps import Put, changes
from holdfast.streams.unit import Proposal

pytestmark = pytest.mark.unit

LONG_S = 60.0
SCHEMA = StructType([StructField("v", LongType())]).json()
DEPLOYMENT = deployed(a_source(batch_epochs=4), a_sink("x"), epoch_s=0.5)


@pytest.fixture
def watch(monkeypatch):
    """A watcher; nobody looks for itself."""
    monkeypatch.setattr(reader_module, "LOOK_S", LONG_S)
    monkeypatch.setattr(threads, "LOOK_S", LONG_S)
    made = NodeWatch()
    made.start()
    yield made
    made.close()


def eventually(condition):
    deadline = time.monotonic() + LONG_S / 2
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def publish(log, stream, shard, number):
    log.publish(Slice(unit=f"{stream}.0#{shard}", number=number, after=number - 1, upto=number))


def begin_streams(log, shards):
    """Streams with so many logs each."""
    for stream, count in shards.items():
        children = tuple(
            Child(unit=f"{stream}.0#{shard}", segment=stream, groups=(0, 128))
            for shard in range(count)
        )
        change = Change(stream=stream, number=0, how="run", children=children)
        log.records.execute(Put(changes(stream), 0, change))


class Task:
    """A waiting task: a thread instead of a worker process."""

    def __init__(self, tmp_path, watch, shards, *, driver=False):
        spec = ReaderSpec(
            root=str(tmp_path),
            unit="u.0#0",
            generation=0,
            inputs=tuple(InputSpec(boundary=name, stream=name, schema=SCHEMA) for name in shards),
            groups=(0, 128),
            batching=Batching(),
            watch=watch.address,
        )
        begin_streams(SliceLog(tmp_path), {**shards, "u": 1})
        own = _NodeWait(watch, threading.Event()) if driver else None
        self.reader = LogReader(spec, watch=own)
        self.reads = 0
        get = self.reader.log.store.get

        def counted(name):
            self.reads += 1
            return get(name)

        self.reader.log.store.get = counted
        self.rows, self.error = None, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.rows = list(self.reader.read(0, 0, 0))
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def result(self):
        self.thread.join(LONG_S / 2)
        assert not self.thread.is_alive()
        return self.error or self.rows


def watched(watch, part):
    eventually(lambda: any(part in path for path in watch._paths.by_path))


@pytest.mark.parametrize("driver", [False, True], ids=["task", "driver"])
def test_a_waiting_task_reads_nothing_until_its_input_is_there(tmp_path, watch, driver):
    """While the watcher looks many times, the task, or the driver for Java, does not look once."""
    task = Task(tmp_path, watch, {"b": 2}, driver=driver)
    watched(watch, "b.0#0/slices/0000000000")
    reads, looks = task.reads, watch.looks
    eventually(lambda: watch.looks > looks + 60)
    assert task.reads == reads
    log = SliceLog(tmp_path)  # another node's: nobody is told
    publish(log, "b", 0, 0)
    watched(watch, "b.0#1/slices/0000000000")
    publish(log, "b", 1, 0)
    assert task.result() == []
    assert log.range("u.0#0", 0).upto == 0


def test_a_join_waits_for_what_is_missing(tmp_path, watch):
    """Slices of an input that is ahead wake nobody."""
    task = Task(tmp_path, watch, {"b": 1, "c": 1})
    log = SliceLog(tmp_path)
    for number in range(5):
        publish(log, "b", 0, number)
    watched(watch, "c.0#0/slices/0000000000")
    eventually(lambda: not any("b.0#0/slices" in path for path in watch._paths.by_path))
    publish(log, "c", 0, 0)
    assert task.result() == []
    assert log.range("u.0#0", 0).upto == 0


def test_a_waiting_task_is_told_to_stop(tmp_path, watch):
    """The stop mark wakes it, and it ends in an orderly way without a range."""
    task = Task(tmp_path, watch, {"b": 1})
    watched(watch, "stop-0")
    log = SliceLog(tmp_path)
    log.store.put_if_absent(log.layout.stop_marker("u.0#0", 0), b"")
    assert task.result() == []
    assert SliceLog(tmp_path).range("u.0#0", 0) is None


def test_a_waiting_task_learns_of_its_successor(tmp_path, watch):
    """A claim by the next generation ends the wait."""
    task = Task(tmp_path, watch, {"b": 1})
    watched(watch, "claims-0")
    SliceLog(tmp_path).claim("u.0#0", 1)
    assert isinstance(task.result(), SupersededError)


def test_a_lost_hint_costs_one_look(tmp_path, watch, monkeypatch):
    """A watcher that never says anything delays a batch and nothing more."""
    monkeypatch.setattr(reader_module, "LOOK_S", 0.01)
    monkeypatch.setattr(watch, "_look", lambda paths: None)
    task = Task(tmp_path, watch, {"b": 1})
    watched(watch, "b.0#0")
    publish(SliceLog(tmp_path), "b", 0, 0)
    assert task.result() == []


def test_a_task_whose_watcher_dies_goes_on(tmp_path, watch):
    """The records are still there to be looked at."""
    task = Task(tmp_path, watch, {"b": 1})
    watched(watch, "b.0#0")
    watch.close()
    publish(SliceLog(tmp_path), "b", 0, 0)
    assert task.result() == []


class Unit(ThreadUnit):
    """Reads one epoch after another, as an exporter does."""

    looked = 0
    reach = 4

    def propose(self, after, ends, limit):
        self.looked += 1
        return Proposal(upto=ends[0].epoch) if ends else None

    def run_batch(self, step):
        pass


def context_of(tmp_path, watch, segment, **options):
    log = SliceLog(tmp_path, LocalStorage(tmp_path, told=watch.told))
    begin(log, DEPLOYMENT)
    return UnitContext(
        unit=UnitId(segment=segment, shard=0),
        generation=0,
        segment=DEPLOYMENT.segment(segment),
        deployment=DEPLOYMENT,
        log=log,
        trimmer=Trimmer(log, DEPLOYMENT),
        crash=Crash(),
        watch=watch,
        **options,
    )


def test_a_thread_looks_once_per_record(tmp_path, watch):
    """An idle exporter sleeps until a slice is there, and takes each with one look."""
    unit = Unit(context_of(tmp_path, watch, "x"))
    unit.start()
    for number in range(5):
        watched(watch, f"a.0#0/slices/{number:010d}")
        looks = watch.looks
        eventually(lambda looks=looks: watch.looks > looks + 10)
        assert unit.looked == 2 * number + 1
        publish(unit.context.log, "a", 0, number)
        eventually(lambda number=number: unit.progress.report.batch == number)
    unit.stop()
    unit.join(LONG_S / 2)
    assert unit.progress.report.state == "stopped"


def test_a_thread_learns_of_its_successor(tmp_path, watch):
    """A claim by the next generation stops it, with the reason."""
    unit = Unit(context_of(tmp_path, watch, "x"))
    unit.start()
    watched(watch, "claims-0")
    SliceLog(tmp_path).claim("x.0#0", 1)
    eventually(lambda: unit.progress.report.state == "stopped")
    assert "replaced by 1" in (unit.progress.report.error or "")


@pytest.mark.parametrize(
    ("epoch", "now", "left_s"), [(-1, 100.0, 2.0), (-1, 101.5, 0.5), (3, 102.5, 1.5), (4, 103, 1)]
)
def test_a_source_knows_when_it_is_due(tmp_path, watch, epoch, now, left_s):
    """It waits for the end of its batch interval instead of asking the clock all the time."""
    wall = ManualClock(100.0)
    rows = GeneratedRows(source=Rate(rows_per_second=1), epoch_s=0.5)
    unit = SourceUnit(context_of(tmp_path, watch, "a", wall=wall), rows, event_time=None)
    unit.progress.tell(epoch=epoch)
    wall.advance(now - 100.0)
    assert unit.due_s() == pytest.approx(left_s)
    assert unit.propose(epoch, (), None) is None
    wall.advance(left_s)
    assert unit.propose(epoch, (), None) is not None
