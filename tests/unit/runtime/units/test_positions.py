"""A native source gives every offset one batch, whoever dies or wakes up between two steps."""

import itertools
import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CheckFailedError
from holdfast.runtime.checkpoint.align import align
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.units.positions import Read, SourcePosition, next_batch, next_deed, stamp
from holdfast.storage.interface import Cloning
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.records import Range

pytestmark = pytest.mark.unit

AB, BC, BD = Read(start="a", end="b"), Read(start="b", end="c"), Read(start="b", end="d")


def records(*reads):
    """The newest record after these batches; None stands for an empty one."""
    newest = None
    for read in reads:
        upto = newest.upto + 1 if newest else 0
        newest = record_after(newest, read, upto)
    return newest


def record_after(newest, read, upto):
    """The range that one who has read something proposes after another."""
    number = newest.number + 1 if newest else 0
    made = next_batch(newest, number, read, upto=upto, watermark_us=None)
    return Range(unit="in.0#0", number=number, after=upto - 1, upto=upto, source=made.source)


def number_of(record):
    return record.number if record else -1


def test_an_idle_record_carries_what_a_takeover_needs():
    """However many empty batches follow, the last end and its start are in the newest record."""
    newest = records(AB, BC, *[None] * 50)
    assert SourcePosition.after(newest) == SourcePosition(offset="c", start="b", batch=1)


@pytest.mark.parametrize(
    ("before", "published", "read", "step"),
    [
        ([], True, None, "put"),
        ([], True, Read(start=None, end="a"), "put"),
        ([None], False, None, "finish"),
        ([None], False, Read(start=None, end="a"), "finish"),
        ([None], True, Read(start=None, end="a"), "put"),
        ([AB], False, None, "wait"),
        ([AB], False, AB, "publish"),
        ([AB], True, AB, "done"),
        ([AB], True, BC, "put"),
        ([AB, None], True, AB, "done"),
        ([AB, None], False, AB, "finish"),
        ([AB, None], False, BC, "finish"),
        ([AB, BC], False, BD, "replan"),
        ([AB, BC], True, BD, "replan"),
        ([AB, BC, None], True, BD, "replan"),
        ([AB, BC], False, AB, "done"),
        ([AB, BC, None], True, AB, "done"),
        ([AB, BC], False, Read(start="x", end="y"), "lost"),
        ([AB, BC], False, Read(start="a", end="c"), "lost"),
        ([AB, BC], True, Read(start="a", end="c"), "done"),
        ([AB, BC], True, Read(start="x", end="y"), "lost"),
        ([], True, BC, "lost"),
    ],
)
def test_what_is_done_next(before, published, read, step):
    """Every meeting of a newest record with what is in hand has one answer."""
    newest = records(*before)
    assert next_deed(newest, number_of(newest), published=published, read=read) == step


@pytest.mark.parametrize(
    ("last", "tick", "batching", "upto"),
    [
        (-1, -1, Batching(), 0),
        (4, 4, Batching(), 5),
        (4, 9, Batching(), 7),
        (4, 9, Batching(one_epoch_per_batch=True), 5),
        (2, 3, Batching(batch_epochs=3), 5),
        (2, 5, Batching(batch_epochs=3), 5),
        (1, 3, Batching(batch_epochs=3), 2),
    ],
)
def test_rows_end_at_whole_batch_intervals(last, tick, batching, upto):
    """So that they meet the batches of other sources; never at an epoch that is taken."""
    assert stamp(last, tick, batching) == upto


@given(st.integers(-1, 200), st.integers(-5, 300), st.integers(1, 8), st.booleans())
def test_stamps_rise_to_ends_of_intervals(last, tick, span, single):
    """Whatever the clock says."""
    upto = stamp(last, tick, Batching(batch_epochs=span, one_epoch_per_batch=single))
    assert upto > last
    assert (upto + 1) % span == 0
    assert upto <= max(tick, last + span)


# A model: the records and slices are shared, each generation has its own checkpoint on disk, and
# every generation is a set of threads that can be stopped for ever, or for long, between two steps.


@dataclass
class World:
    """What all generations share."""

    ranges: list = field(default_factory=list)
    slices: dict = field(default_factory=dict)
    rows: int = 0
    """What the outside world has produced: offsets are counts of rows."""
    generation: int = 0

    def put_range(self, record):
        if record.number == len(self.ranges):
            self.ranges.append(record)
        return self.ranges[record.number]

    def put_slice(self, number, rows):
        assert self.slices.setdefault(number, rows) == rows, "published twice, with other rows"


class Generation:
    """One generation: Spark's thread and the idle clock as coroutines over a checkpoint."""

    def __init__(self, world, store, number, before):
        self.world, self.folder, self.number = world, store.below(str(number)), number
        world.generation = number
        if before is not None:
            store.clone(str(before.number), str(number), Cloning())
        self.lock = False
        self.threads = [self.spark(), self.idle()]

    def align(self):
        known = SourcePosition.after(self.world.ranges[-1] if self.world.ranges else None)
        align(self.folder, unit="in.0#0", end=known.offset, start=known.start, now=0.0)

    def numbers(self, name):
        return sorted(map(int, self.folder.names(name)))

    def spark(self):
        self.align()
        while True:
            yield
            planned, committed = self.numbers("offsets"), self.numbers("commits")
            batch = planned[-1] if planned else -1
            if batch == (committed[-1] if committed else -1):
                start = self.end(batch) if batch >= 0 else "0"
                if int(start or 0) == self.world.rows:
                    continue
                batch += 1
                text = "\n".join(["v1", "{}", json.dumps(self.world.rows)])
                self.folder.replace(f"offsets/{batch}", text.encode())
            yield
            read = Read(start=self.end(batch - 1) if batch else None, end=self.end(batch))
            while self.lock:
                yield
            self.lock = True
            replanned = yield from self.turn(read)
            self.lock = False
            if replanned:
                self.align()
                continue
            yield
            self.folder.replace(f"commits/{batch}", b"v1\n{}")

    def end(self, batch):
        return self.folder.read(f"offsets/{batch}").decode().splitlines()[2]

    def idle(self):
        while True:
            yield
            if self.lock:
                continue
            self.lock = True
            step = yield from self.step(None)
            if step == "put":
                yield from self.step(None)
            self.lock = False

    def turn(self, read):
        while (step := (yield from self.step(read))) != "done":
            assert step != "lost"
            if step == "replan":
                return True
        return False

    def step(self, read):
        newest = self.world.ranges[-1] if self.world.ranges else None
        published = newest is not None and newest.number in self.world.slices
        yield
        step = next_deed(newest, number_of(newest), published=published, read=read)
        if step in ("replan", "lost", "put") and self.world.generation != self.number:
            raise LeftBehindError
        yield
        if step == "put":
            upto = newest.upto + 1 if newest else 0
            self.world.put_range(record_after(newest, read, upto))
        elif step == "finish":
            self.world.put_slice(newest.number, ())
        elif step == "publish":
            self.world.put_slice(newest.number, tuple(range(int(read.start or 0), int(read.end))))
        return step


class LeftBehindError(Exception):
    """A newer generation has taken over."""


@pytest.mark.parametrize("seed", [*range(12), 14, 535])
def test_every_row_gets_one_batch(seed):
    """Generations die, sleep and wake between any two steps; rows come out once and in order.

    Some are cloned from the generation before the last one, as when that never got to run.
    """
    chance, world, store = random.Random(seed), World(), MemoryStorage()
    current, asleep, family = None, [], []
    for step in itertools.count():
        quiet = step > 250
        if chance.random() < 0.1 and not quiet:
            world.rows += chance.randint(1, 3)
        if current is None or (chance.random() < 0.06 and not quiet):
            if current is not None and chance.random() < 0.6:
                asleep.append(current)
            origin = chance.choice([*family[-2:-1], current, current])
            current = Generation(world, store, world.generation + 1, origin)
            try:
                current.align()
            except CheckFailedError:  # too old; tried again with the newest
                current = Generation(world, store, world.generation + 1, family[-1])
            family.append(current)
        walking = chance.choice([current, current, *asleep])
        thread = chance.choice(walking.threads)
        try:
            next(thread)
        except LeftBehindError:
            asleep = [item for item in asleep if item is not walking]
            assert walking is not current
        done = sum(len(rows) for rows in world.slices.values())
        if quiet and done == world.rows and step > 450:
            break
        assert step < 3000, "stuck"
    found = [row for number in sorted(world.slices) for row in world.slices[number]]
    assert found == list(range(world.rows))
    assert sorted(world.slices) == list(range(len(world.slices)))
    assert len(world.ranges) - len(world.slices) <= 1
