"""Replicas of sources and exporters on one log: one result, whoever lives."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.deployment import UnitId
from holdfast.pipeline import ForeachBatch, Parquet, Rate, Sqlite
from holdfast.rundir.layout import unit_folder
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import NondeterministicError, SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale
from holdfast.runtime.units.exporters import ExporterUnit, make_delivery
from holdfast.runtime.units.replicas import ALIVE, lead_of
from holdfast.runtime.units.sources import GeneratedRows, SourceUnit, parts_of
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Slice

pytestmark = pytest.mark.unit

EPOCH_S = 0.02
DEADLINE_S = 30.0
SOURCE = Rate(1000)
SCHEMA = SOURCE.table(0, epoch_s=EPOCH_S).schema
PLAN = deployed(
    a_source(followers=(0,), max_shards=2), a_sink("out", followers=(0,)), epoch_s=EPOCH_S
)


def context(run, segment, replica, generation=1, *, change=0, shard=0):
    log = SliceLog(run)
    begin(log, PLAN)
    unit = UnitId(segment=segment, change=change, shard=shard, replica=replica)
    log.claim(unit.name, generation, replica)
    made = UnitContext(
        unit=unit,
        generation=generation,
        segment=PLAN.segment(segment),
        deployment=PLAN,
        log=log,
        trimmer=Trimmer(log, PLAN, keep_input=True),
        crash=Crash(),
    )
    return replace(made, lead=lead_of(made))


def source(run, replica, generation=1, **unit):
    here = context(run, "a", replica, generation, **unit)
    rows = GeneratedRows(source=SOURCE, epoch_s=EPOCH_S, block=parts_of(here))
    return SourceUnit(here, rows, event_time=None)


def exporter(run, sink, replica, generation=1):
    here = context(run, "out", replica, generation)
    boundary = PLAN.boundary("a")
    made = make_delivery(
        sink, context=here, boundary=boundary, schema=SCHEMA, make_frame=lambda rows: rows
    )
    return ExporterUnit(here, made, SCHEMA)


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not reached"
        time.sleep(0.005)


def reach(unit, batch):
    ended = ("failed", "stopped", "ended")
    wait_for(lambda: unit.status().batch >= batch or unit.status().state in ended)
    assert unit.status().state == "running", unit.status().error


def end(*units):
    for unit in units:
        unit.stop()
    for unit in units:
        unit.join(DEADLINE_S)


@pytest.fixture
def units():
    """Units that a test has started; they are stopped after it."""
    started = []
    yield started
    end(*started)


def start(units, unit):
    units.append(unit)
    unit.start()
    return unit


def test_the_follower_of_a_source_goes_on_and_the_old_leader_follows(tmp_path, units):
    """The leader ends without a word; its follower publishes, and whoever comes back follows."""
    leader = start(units, source(tmp_path, 0))
    reach(leader, 3)
    follower = start(units, source(tmp_path, 1))
    reach(follower, 6)
    # On a machine that has much else to do the lead may change: it comes to this all the same.
    wait_for(lambda: (leader.status().leads, follower.status().leads) == (True, False))
    end(leader)
    reach(follower, follower.status().batch + 5)
    assert follower.status().leads
    back = start(units, source(tmp_path, 0, generation=2))
    reach(back, follower.status().batch + 5)
    wait_for(lambda: (back.status().leads, follower.status().leads) == (False, True))
    end(follower, back)
    log = SliceLog(tmp_path)
    published = list(log.slices_from("a.0#0", 0))
    assert published[0].after == -1
    for one, other in pairwise(published):
        assert other.after == one.upto


def test_replicas_hand_over_to_replicas(tmp_path, units):
    """A leader is gone before its parent hands over, another one after it: the followers go on."""
    leader, follower = start(units, source(tmp_path, 0)), start(units, source(tmp_path, 1))
    reach(follower, 3)
    end(leader)
    rescale(SliceLog(tmp_path), PLAN.segment("a"), 2, reason="test")
    heirs = [
        start(units, source(tmp_path, replica, change=1, shard=shard))
        for replica in (0, 1)
        for shard in (0, 1)
    ]
    wait_for(lambda: follower.status().state == "ended")
    assert follower.status().heirs == ("a.1#0", "a.1#1")
    for heir in heirs:
        reach(heir, 2)
    end(*heirs[:2])
    for heir in heirs[2:]:
        reach(heir, heir.status().batch + 3)
    end(*heirs[2:])
    log = SliceLog(tmp_path)
    seal = log.run(log.steps().seal_of("a.0#0"))
    (first, *_), (second, *_) = (list(log.slices_from(f"a.1#{n}", 0)) for n in (0, 1))
    assert {first.after, second.after} == {seal.end}
    for unit in ("a.0#0", "a.1#0", "a.1#1"):
        for one, other in pairwise(log.slices_from(unit, 0)):
            assert other.after == one.upto


def test_a_replica_shows_that_it_lives_while_it_does(tmp_path):
    """What killed ones have left is removed by the next to come."""
    here = context(tmp_path, "a", 0)
    folder = f"{unit_folder(here.name)}/{ALIVE}"
    here.log.store.put_if_absent(f"{folder}/killed", b"")
    assert here.log.store.names(folder) == [here.log.writer, "killed"]
    other = context(tmp_path, "a", 1)
    assert set(other.log.store.names(folder)) == {here.log.writer, other.log.writer}
    here.lead.let_go()
    assert other.log.store.names(folder) == [other.log.writer]


def test_a_follower_leaves_no_files_that_nobody_published(tmp_path, units):
    """What lies in the data folder is what slices name."""
    leader, follower = start(units, source(tmp_path, 0)), start(units, source(tmp_path, 1))
    reach(follower, 20)
    end(leader, follower)
    log = SliceLog(tmp_path)
    named = {file.name for item in log.slices_from("a.0#0", 0) for file in item.files.get("a", ())}
    assert set(log.data("a.0#0", "a").names("")) == named


def delivered_to_sqlite(path):
    with closing(sqlite3.connect(path)) as base:
        return [row[0] for row in base.execute("SELECT value FROM results ORDER BY value")]


@pytest.mark.parametrize("kind", ["sqlite", "parquet"])
def test_two_exporters_deliver_every_row_once(tmp_path, units, kind):
    """Both replicas run, one ends in between: nothing twice, nothing missing."""
    sink = Sqlite("out.db", "results") if kind == "sqlite" else Parquet("out")
    feeding = start(units, source(tmp_path, 0))
    leader = start(units, exporter(tmp_path, sink, 0))
    reach(leader, 3)
    follower = start(units, exporter(tmp_path, sink, 1))
    reach(follower, 6)
    end(leader)
    reach(follower, follower.status().batch + 4)
    assert follower.status().leads
    end(feeding)
    end(follower)
    if kind == "sqlite":
        found = delivered_to_sqlite(tmp_path / "out.db")
    else:
        parts = sorted((tmp_path / "out").glob("*.parquet"))
        found = [value for part in parts for value in pq.read_table(part)["value"].to_pylist()]
    assert found == list(range(len(found)))
    assert found


def test_a_follower_does_not_call_a_function_for_what_was_delivered(tmp_path, units):
    """It passes over the batch that its leader has noted as delivered."""
    calls: list[str] = []
    sink = ForeachBatch(lambda rows, identity: calls.append(identity))
    feeding = start(units, source(tmp_path, 0))
    leader = start(units, exporter(tmp_path, sink, 0))
    reach(feeding, 10)
    end(feeding)
    reach(leader, 5)
    wait_for(lambda: leader.status().epoch == feeding.status().epoch)
    end(leader)
    before = list(calls)
    follower = start(units, exporter(tmp_path, sink, 1))
    reach(follower, leader.status().batch)
    assert not follower.status().leads
    assert calls == before
    assert len(set(calls)) == len(calls)


def slice_of(here, digest):
    return Slice(
        unit=here.name,
        number=0,
        after=-1,
        upto=0,
        files={"a": ()},
        rows=len(digest),
        digest=digest,
        generation=1,
    )


@pytest.mark.parametrize(("published", "kept"), [("same", 0), ("other", 1), (None, 1)])
def test_a_follower_puts_its_files_on_disk_only_if_they_may_be_wanted(tmp_path, published, kept):
    """Not when its leader has published the same rows; but for comparing others with its own."""
    leader, follower = context(tmp_path, "a", 0), context(tmp_path, "a", 1)
    if published:
        leader.publish(slice_of(leader, published))
    calls: list[int] = []

    def publish():
        follower.publish(slice_of(follower, "same"), keep=lambda: calls.append(1))

    if published == "other":
        with pytest.raises(NondeterministicError):
            publish()
    else:
        publish()
    assert len(calls) == kept
    assert follower.lead.leads == (published is None)
