"""Making lost slices again: what it takes is looked for upstream, what is gone for good is told."""

import datetime as dt
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.clock import ManualClock
from holdfast.deployment import Boundary, Segment, UnitId
from holdfast.pipeline import EventTime, Generator
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.damage import find_damage, inputs_of
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import read_slice
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.spark.units.healing import SparkHealer, Workshop
from holdfast.runtime.units.healing import NotHealedError
from holdfast.runtime.units.sources import GeneratedRows, SourceUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Floor, Range, Slice
from holdfast.streams.steps import Put, RaiseFloor, ranges, slices

pytestmark = pytest.mark.unit

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
EVENT_TIME = EventTime(column="ts", delay_s=1)
A, COUNT = "a.0#0", "count.0#0"
DEPLOYMENT = deployed(
    a_source(),
    Segment(
        name="count",
        kind="inner",
        operators=("count",),
        inputs=("a",),
        outputs=(Boundary(operator="count"),),
        stateful=True,
    ),
    a_sink("x", reads="count"),
)


def events(epoch, seed):
    """Two rows in time, and one that is late for the sake of the epochs before."""
    times = (0.9, 0.1, -3.0)
    return [(START + dt.timedelta(seconds=epoch + at), epoch) for at in times]


class Node:
    """A node's workshop, without Spark: sources can be run again, queries cannot."""

    def __init__(self, folder, function=events):
        self.log = SliceLog(folder)
        begin(self.log, DEPLOYMENT)
        self.function = function
        self.told = []

    def context(self, unit, generation):
        return UnitContext(
            unit=unit,
            generation=generation,
            segment=DEPLOYMENT.segment(unit.segment),
            deployment=DEPLOYMENT,
            log=self.log,
            trimmer=Trimmer(self.log, DEPLOYMENT),
            crash=Crash(),
            wall=ManualClock(start=8.5),
        )

    def rows(self, context):
        source = Generator(self.function, "ts timestamp, n bigint")
        return GeneratedRows(source=source, epoch_s=1.0)

    def run_source(self, batches):
        """Publish batches of one epoch each."""
        self.log.put_origin(0.0)
        context = self.context(UnitId(segment="a"), 0)
        segment = replace(context.segment, one_epoch_per_batch=True)
        unit = SourceUnit(
            replace(context, segment=segment), self.rows(context), event_time=EVENT_TIME
        )
        position = unit._position(0)
        for _ in range(batches):
            step = unit._next(position)
            unit.run_batch(step)
            position = step.done

    def heal(self, segment, after=-1, upto=3):
        workshop = Workshop(
            context=self.context,
            bench=lambda _: SimpleNamespace(
                pipeline=SimpleNamespace(event_time=EVENT_TIME), partitions=1
            ),
            source=self.rows,
            alone=threading.RLock(),
            scratch="scratch/n0",
        )
        inputs = inputs_of(DEPLOYMENT, DEPLOYMENT.segment(segment))
        healer = SparkHealer(workshop, self.log, Crash())
        return healer.heal(inputs, after, upto, heeded=-1, tell=self.told.append)


def rows_of(log, number):
    item, repairs = log.run(log.steps().repaired(log.slice(A, number)))
    found = read_slice(log.data(A, "a"), item.files["a"], range(128))
    return [row["n"] for batch in found for row in batch.to_pylist()], repairs


def lose(folder):
    for file in (folder / "units").rglob("*.arrow"):
        file.unlink()


def test_slices_of_a_source_are_made_again_from_its_records(tmp_path):
    """All that are lost, those behind the range in hand too; late rows stay out."""
    node = Node(tmp_path)
    node.run_source(6)
    before = [rows_of(node.log, number) for number in range(6)]
    assert before[3] == ([3, 3], 0)
    lose(tmp_path)
    assert node.heal("count", upto=2) == 5
    assert [rows_of(node.log, number)[0] for number in range(6)] == [rows for rows, _ in before]
    assert node.told == [node.told[0]]
    assert "making slice 0, 1, 2, 3, 4, 5 of a.0#0 again" in node.told[0]
    assert find_damage(node.log, node.log.steps(), (("a", "a"),), -1, 5).damage == ()


def test_the_slice_before_need_not_be_there(tmp_path):
    """The watermark that made rows late stands in the range record as well."""
    node = Node(tmp_path)
    node.run_source(4)
    before = rows_of(node.log, 3)[0]
    lose(tmp_path)
    node.log.records.execute(RaiseFloor(slices(A), Floor(number=3, epoch=2)))
    for number in range(3):
        node.log.store.delete(f"units/{A}/slices/{number:010d}")
    assert node.heal("count", after=2) == 3
    assert rows_of(node.log, 3) == (before, 1)


def test_whole_slices_are_left_alone(tmp_path):
    """Whatever else made a batch fail, nothing is made again; nor for one who was left behind."""
    node = Node(tmp_path)
    node.run_source(4)
    assert node.heal("count") is None
    lose(tmp_path)
    node.log.records.execute(RaiseFloor(slices(A), Floor(number=4, epoch=3)))
    assert node.heal("count") is None


def test_other_rows_are_no_repair(tmp_path):
    """A source that gives other rows for the same range cannot heal; one line says so."""
    Node(tmp_path).run_source(4)
    lose(tmp_path)
    changed = Node(tmp_path, lambda epoch, seed: events(epoch + 1, seed))
    with pytest.raises(NotHealedError, match="gave other rows: the segment is not deterministic"):
        changed.heal("count")
    assert find_damage(changed.log, changed.log.steps(), (("a", "a"),), -1, 3).heed == 3


def test_what_is_trimmed_is_told_with_what_would_keep_it(tmp_path):
    """The range of the batch is gone."""
    node = Node(tmp_path)
    node.run_source(4)
    lose(tmp_path)
    node.log.records.execute(RaiseFloor(ranges(A), Floor(number=4)))
    with pytest.raises(NotHealedError) as told:
        node.heal("count")
    assert "slice 0 is lost" in str(told.value)
    assert "trimmed; with --ack-levels 2 or more" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_state_whose_commits_are_gone_is_not_replayed_from_a_trimmed_beginning(tmp_path):
    """It began with nothing, so its first batch would do; but what that has read is gone."""
    node = Node(tmp_path)
    node.run_source(4)
    for number in range(4):
        record = Range(unit=COUNT, number=number, after=number - 1, upto=number)
        node.log.records.execute(Put(ranges(COUNT), number, record))
        files = {"count": node.log.slice(A, number).files["a"]}
        item = Slice(unit=COUNT, number=number, after=number - 1, upto=number, files=files, rows=2)
        node.log.records.execute(Put(slices(COUNT), number, item))
    node.log.records.execute(RaiseFloor(ranges(COUNT), Floor(number=1)))
    node.log.records.execute(RaiseFloor(slices(COUNT), Floor(number=1, epoch=0)))
    with pytest.raises(NotHealedError, match="trimmed"):
        node.heal("x", after=0)
