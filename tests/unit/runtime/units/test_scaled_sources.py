"""Sources whose shards change while they run: every row and every file once, whoever dies when."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter

import pyarrow as pa
import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.clock import ManualClock
from holdfast.deployment import UnitId
from holdfast.deployment.blocks import block_of
from holdfast.pipeline import EventTime, Files, Generator, Rate
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.survey import Survey
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import arrived, rescale, shape_of
from holdfast.runtime.units.exporters import ExporterUnit, FunctionDelivery
from holdfast.runtime.units.files import TakenFiles
from holdfast.runtime.units.places import Life
from holdfast.runtime.units.sources import SourceUnit, rows_of, split_late
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.handover import Birth
from holdfast.streams.unit import Ended, RunBatch

pytestmark = pytest.mark.unit

SEGMENT = a_source(max_shards=8)
DEPLOYMENT = deployed(SEGMENT, a_sink("x"))
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
EVENT_TIME = EventTime(column="ts", delay_s=2.0)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("value", pa.int64())])


def events(epoch, seed):
    """Five rows an epoch, one of which is often late: which, depends on all rows before."""
    at = [epoch, epoch, epoch, max(0, epoch - 5 * (epoch % 2)), epoch + 3 * (epoch % 4 == 0)]
    return [(START + dt.timedelta(seconds=at[i]), epoch * 5 + i) for i in range(5)]


GENERATED = Generator(function=events, schema="ts timestamp, value bigint", seed=0)


class World:
    """A source and a sink, without threads: units take a step when they are told to."""

    def __init__(self, source, *, event_time=None, deployment=DEPLOYMENT):
        self.source, self.event_time, self.deployment = source, event_time, deployment
        self.wall = ManualClock(1000.0)
        self.store = MemoryStorage(clock=self.wall.now)
        self.log = SliceLog("", self.store)
        begin(self.log, deployment)
        self.units, self.positions, self.generations = {}, {}, Counter()
        self.delivered, self.ended = {}, set()

    def context(self, name):
        log, unit = SliceLog("", self.store), UnitId.parse(name)
        self.generations[name] += 1
        log.claim(name, self.generations[name])
        return UnitContext(
            unit=unit,
            generation=self.generations[name],
            segment=self.deployment.segment(unit.segment),
            deployment=self.deployment,
            log=log,
            trimmer=Trimmer(log, self.deployment, clock=self.wall.now, every=4, retain=0),
            crash=Crash(),
            wall=self.wall,
            clock=self.wall,
        )

    def start(self, name):
        """A new generation; the one before is dead, or sleeps for ever."""
        context = self.context(name)
        if context.segment.kind == "exporter":
            life = Life(sink="x", id=context.log.life(name))
            delivery = FunctionDelivery(life, self._deliver, lambda rows: rows)
            self.units[name] = ExporterUnit(context, delivery, self.schema)
        else:
            rows = self.rows(context)
            unit = SourceUnit(context, rows, event_time=self.event_time)
            unit.begin()
            self.units[name] = unit
        self.positions[name] = None

    def _deliver(self, rows, batch):
        """A batch that comes again has the same name, and the same rows."""
        assert self.delivered.setdefault(batch, rows) == rows

    @property
    def schema(self):
        if isinstance(self.source, Files):
            return SCHEMA
        return self.source.table(0, epoch_s=1.0).schema

    def rows(self, context):
        return rows_of(self.source, context, reader=lambda _: self._read_files)

    def _read_files(self, paths):
        numbers = [int(path.rpartition("-")[2]) for path in paths]
        return pa.table(
            {"ts": [START + dt.timedelta(seconds=n) for n in numbers], "value": numbers},
            schema=SCHEMA,
        )

    def step(self, name):
        """One step of a unit, if it is born and there is one."""
        if name in self.ended:
            return
        if name not in self.units:
            born = self.log.run(self.log.steps().birth(name))
            if not isinstance(born, Birth):
                return
            self.start(name)
        unit = self.units[name]
        log = unit.context.log
        position = self.positions[name]
        if position is None:
            newest = log.newest_batch(name)
            position = unit._position(max(0, newest))
            step = unit._next(position)
            if isinstance(step, RunBatch) and step.position.batch == newest and unit.done(step):
                self.positions[name] = step.done
                return
        else:
            step = unit._next(position)
        if isinstance(step, RunBatch):
            unit._batch(step)
            position = step.done
        if isinstance(step, Ended):
            assert step.why == "handed over", step
            self.ended.add(name)
        self.positions[name] = position

    def names(self):
        """All units that may run."""
        made = [
            c.unit
            for change in self.log.run(self.log.steps().changes_of("a"))
            for c in change.children
        ]
        return ["x.0#0", *made]

    def run(self, rounds=1):
        for _ in range(rounds):
            self.wall.advance(1.0)
            for _ in range(3):
                for name in self.names():
                    self.step(name)

    def scale(self, shards):
        put = rescale(self.log, SEGMENT, shards, reason="test")
        self.log.run(self.log.steps().carry_out("a"))
        return put

    def values(self):
        return sorted(v for rows in self.delivered.values() for v in rows["value"].to_pylist())

    def settle(self):
        """Let everything on record be carried out and delivered."""
        self.run(6)

    def late(self):
        """Rows put aside by all units."""
        found = []
        for name in self.names()[1:]:
            folder = self.log.store.below(self.log.layout.late(name))
            for item in folder.names(""):
                found += pa.ipc.open_stream(folder.read(item)).read_all()["value"].to_pylist()
        return sorted(found)


def test_a_rate_is_split_and_merged_and_every_row_comes_once():
    """One shard, three of uneven blocks, eight, one: the same rows as of one that never changed."""
    world = World(Rate(rows_per_second=7))
    world.run(3)
    for shards in (3, 8, 1):
        world.scale(shards)
        world.run(3)
        assert len(shape_of(world.log, SEGMENT)) == shards
    world.settle()
    found = world.values()
    assert len(found) > 80
    assert found == list(range(len(found)))
    assert len(world.ended) == 1 + 3 + 8


def test_late_rows_are_the_same_ones_whatever_the_scaling():
    """Lateness is decided by the watermark of those before, which the seal carries."""
    plain, scaled = (World(GENERATED, event_time=EVENT_TIME) for _ in range(2))
    for shards in (2, 4, 1, 8):
        scaled.scale(shards)
        plain.run(4)
        scaled.run(4)
    plain.settle()
    scaled.settle()
    assert plain.late()
    assert scaled.late() == plain.late()
    assert scaled.values() == plain.values()


def test_a_seal_tells_the_watermark_of_a_source():
    """Of its last slice: that of its range is not known before it reads."""
    world = World(GENERATED, event_time=EVENT_TIME)
    world.run(3)
    last = world.log.slice("a.0#0", world.log.newest_batch("a.0#0"))
    world.scale(2)
    world.run(1)
    seal = world.log.run(world.log.steps().seal_of("a.0#0"))
    assert last.watermark_us is not None
    assert seal.watermark_us >= last.watermark_us
    born = world.log.run(world.log.steps().birth("a.1#1"))
    assert born.watermark_us == seal.watermark_us


def test_a_watermark_outlives_units_that_made_nothing():
    """Sealed where it was born, a unit hands on what it was born with."""
    world = World(GENERATED, event_time=EVENT_TIME)
    world.run(4)
    world.scale(2)
    world.scale(4)
    world.scale(1)
    world.settle()
    assert world.values() + world.late()
    (carrier,) = shape_of(world.log, SEGMENT).values()
    first = world.log.range(carrier, 0)
    assert first.source["watermark_us"] is not None


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    return made


def put(folder, first, count):
    for number in range(first, first + count):
        (folder / f"f-{number}").write_text(str(number))


def test_files_are_read_once_by_parents_or_children(folder):
    """What parents have taken their children leave, and each takes what is dealt to it."""
    world = World(Files(str(folder), format="text"))
    for round_, shards in enumerate((1, 4, 8, 2, 1)):
        world.scale(shards)
        put(folder, 20 * round_, 20)
        world.run(3)
    world.settle()
    assert world.values() == list(range(100))


def test_what_was_taken_is_known_when_the_records_of_parents_are_gone(folder):
    """Trimmed with their slices, once their heirs have a record of it."""
    world = World(Files(str(folder), format="text"))
    put(folder, 0, 30)
    world.run(4)
    world.scale(4)
    world.run(12)
    world.scale(2)
    world.run(24)
    store = world.store
    for name in ("a.0#0", "a.1#0", "a.1#3"):
        home = f"units/{name}"
        assert not store.names(f"{home}/files"), name
        assert not store.names(f"{home}/taken"), name
        assert not store.exists(f"{home}/inherited"), name
    for name in shape_of(world.log, SEGMENT).values():
        assert store.exists(f"units/{name}/inherited")
        world.start(name)
    put(folder, 30, 10)
    world.settle()
    assert world.values() == list(range(40))


def test_an_heir_that_comes_late_takes_over_what_another_generation_did(folder, monkeypatch):
    """It looked at its parents' names when they were gone: the record that is there counts."""
    world = World(Files(str(folder), format="text"))
    put(folder, 0, 12)
    world.run(3)
    world.scale(2)
    world.run(3)
    name = next(iter(shape_of(world.log, SEGMENT).values()))
    context = world.context(name)
    sleeper = world.rows(context)
    world.store.remove_folder("units/a.0#0/files", aside="gone")
    monkeypatch.setattr(TakenFiles, "_has_inherited", lambda _: False)  # as it was when it looked
    sleeper.begin(["a.0#0"])
    assert sleeper.claim(100, 101)["files"] == []


def late_of(epochs):
    """Late rows of the generator above, epoch by epoch, in one shard that never changes."""
    found, watermark = [], None
    for epoch in range(epochs):
        table = GENERATED.table(epoch, epoch_s=1.0)
        _, late, watermark = split_late(table, EVENT_TIME, watermark)
        found += late["value"].to_pylist()
    return found


@pytest.mark.sample(kind="rate", seed=1)
@pytest.mark.sample(kind="late", seed=2)
@pytest.mark.sample(kind="files", seed=3)
@pytest.mark.sample(kind="files", seed=4)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["rate", "late", "files"])
def test_any_schedule_of_scaling_and_dying(folder, kind, seed):
    """Generations die between any two steps, changes follow each other; rows come once."""
    rng = random.Random(f"{kind} {seed}")
    files = kind == "files"
    source = {"rate": Rate(rows_per_second=6), "late": GENERATED}.get(kind)
    world = World(
        source or Files(str(folder), format="text"),
        event_time=EVENT_TIME if kind == "late" else None,
    )
    files_put = 0
    for _ in range(60):
        match rng.random():
            case chance if chance < 0.12:
                put_changes = rescale(world.log, SEGMENT, rng.choice((1, 2, 3, 5, 8)), reason="t")
                if rng.random() < 0.5 and put_changes:
                    world.log.run(world.log.steps().carry_out("a"))
            case chance if chance < 0.3 and world.units:
                victim = rng.choice([n for n in world.units if n not in world.ended] or ["x.0#0"])
                if victim in world.units:
                    world.start(victim)
            case chance if chance < 0.5 and files:
                put(folder, files_put, 5)
                files_put += 5
            case chance if chance < 0.65:
                world.wall.advance(1.0)
            case _:
                world.step(rng.choice(world.names()))
    world.log.run(world.log.steps().carry_out("a"))
    for _ in range(40):
        world.run(1)
    found = sorted(world.values() + world.late())
    assert found == list(range(files_put if files else len(found)))
    assert files or len(found) > 200
    assert world.late() == (late_of(len(found) // 5) if kind == "late" else [])
    assert len([n for n in world.names()[1:] if n not in world.ended]) == len(
        shape_of(world.log, SEGMENT)
    )


def test_the_load_of_a_source_is_what_its_shards_make():
    """Dealt out evenly over their parts, as nobody counts these."""
    world = World(Rate(rows_per_second=8))
    world.scale(2)
    world.run(8)
    upto = world.log.run(world.log.steps().last_end("a"))
    rates = arrived(world.log, DEPLOYMENT, SEGMENT, upto - 4, upto)
    assert rates == pytest.approx([1.0] * 8)


def test_the_load_of_a_source_does_not_fall_when_it_is_scaled():
    """Those before made the rows of the seconds before."""
    world = World(Rate(rows_per_second=8))
    world.run(12)
    for shards in (4, 1):
        world.scale(shards)
        world.run(1)
        upto = world.log.run(world.log.steps().last_end("a"))
        rates = arrived(world.log, DEPLOYMENT, SEGMENT, upto - 6, upto)
        assert rates == pytest.approx([1.0] * 8)


def test_the_slice_tables_of_all_shapes_fit_together():
    """Right after each scaling: parts are read without gap or overlap, from seal to first range."""
    world = World(Rate(rows_per_second=8))
    world.run(3)
    for shards in (2, 3, 8, 4, 1):
        world.scale(shards)
        world.run(1)
        covered = [set() for _ in range(8)]
        for change in world.log.run(world.log.steps().changes_of("a")):
            for child in change.children:
                tables = Survey(world.log, DEPLOYMENT, keep_input=True).tables(child.unit)
                read = [row for row in tables["input"] if "batch" in row]
                made = [row for row in tables["output"] if "batch" in row]
                seals = [row["end"] for row in tables["output"] if "seal" in row]
                epochs = [e for row in read for e in range(row["after"] + 1, row["upto"] + 1)]
                assert [(row["after"], row["upto"]) for row in made] == [
                    (row["after"], row["upto"]) for row in read[: len(made)]
                ]
                assert not seals or not epochs or seals == [epochs[-1]]
                block = block_of(child.groups, 8)
                for part in range(block.first, block.stop):
                    assert covered[part].isdisjoint(epochs), (child.unit, part)
                    covered[part].update(epochs)
        assert all(epochs == set(range(len(epochs))) for epochs in covered)


def test_heirs_wait_for_their_parent_and_then_go_on():
    """With threads: nobody but the heirs, once both are ready, has the parent turn."""
    world = World(Rate(rows_per_second=8))
    world.run(2)
    (change,) = rescale(world.log, SEGMENT, 2, reason="test")
    heirs = []
    for child in change.children:
        context = world.context(child.unit)
        heirs.append(SourceUnit(context, world.rows(context), event_time=None))
        heirs[-1].start()
    deadline = time.monotonic() + 30.0

    def until(condition):
        while not condition():
            assert time.monotonic() < deadline, [heir.status() for heir in heirs]
            time.sleep(0.005)

    until(lambda: world.log.run(world.log.steps().turn_of("a.0#0")) is not None)
    waiting = "waiting for its parents to hand over"
    until(lambda: {heir.status().doing for heir in heirs} == {waiting})
    while "a.0#0" not in world.ended:
        world.step("a.0#0")
    world.wall.advance(1.0)
    until(lambda: all(heir.status().batch >= 0 for heir in heirs))
    assert {(heir.status().state, heir.status().doing) for heir in heirs} == {("running", None)}
    for heir in heirs:
        heir.stop()
        heir.join(10.0)
