"""A split of hot paths on records: whichever is taken whenever, every epoch is read once."""

import random

import pytest

from holdfast.deployment import UnitId
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.paths import carried, seen_by, take
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Slice
from holdfast.streams.unit import Position, Proposal, RunBatch

pytestmark = pytest.mark.unit

EPOCHS = 24


def pipeline():
    p = Pipeline("p")
    scored = p.source("rows", Rate(5)).paths(
        "score",
        standby="hot",
        model=lambda s: s.map("m", lambda frame: frame),
        rules=lambda s: s.map("r", lambda frame: frame),
    )
    p.sink("out", scored, Parquet("out"))
    return p


DEPLOYMENT = deploy(pipeline())


class Unit:
    """Steps as a unit does, from the records alone; forgets its position when it dies."""

    def __init__(self, log, name, chance):
        self.log, self.name, self.chance = log, name, chance
        self.steps = log.steps()
        seen = seen_by(log, DEPLOYMENT, UnitId.parse(name))
        self.inputs = seen.streams_read(seen.segment(UnitId.parse(name).segment))
        self.batch = max(0, log.newest_batch(name))
        self.read = []

    def step(self):
        """One batch, if there is one; gives what it has read."""
        try:
            position = self.log.run(self.steps.position_at(self.name, self.batch))
            if not isinstance(position, Position):
                return []
            found = self.log.run(
                self.steps.next_step(self.name, position, self.inputs, self.propose)
            )
            if not isinstance(found, RunBatch):
                return []
            record = found.range
            (stream,) = self.inputs
            items = self.log.run(self.steps.read(stream, record.after, record.upto))
        except TrimmedError:
            return []  # it slept, and others have gone on
        assert [item.upto for item in items][-1] == record.upto
        assert items[0].after == record.after
        self.publish(record)
        return items

    def publish(self, record):
        made = Slice(unit=self.name, number=self.batch, after=record.after, upto=record.upto)
        if self.log.run(self.steps.publish(made)) != "sealed":
            self.batch += 1

    def propose(self, after, ends, limit):
        known = [end.epoch for end in ends if limit is None or end.epoch <= limit]
        return Proposal(upto=self.chance.choice(known)) if known else None


class Sink(Unit):
    """Delivers, and publishes nothing."""

    def __init__(self, log, name, chance):
        super().__init__(log, name, chance)
        self.delivered = []

    def publish(self, record):
        self.batch += 1

    def step(self):
        items = super().step()
        self.delivered += [(item.unit, item.after, item.upto) for item in items]
        return items


def feed(log, stream, epoch):
    """A path ends a batch with every epoch."""
    unit = f"{stream}.0#0"
    log.run(
        log.steps().publish(Slice(unit=unit, number=epoch, after=epoch - 1, upto=epoch, rows=1))
    )


@pytest.mark.parametrize("seed", range(20))
def test_every_epoch_is_read_once_from_one_of_the_paths(seed):
    """Paths lag, are taken at any moment, units die and sleep, logs are trimmed."""
    chance = random.Random(seed)
    log = SliceLog("run", MemoryStorage())
    begin(log, DEPLOYMENT)
    split = DEPLOYMENT.segment("score")
    trimmer = Trimmer(log, DEPLOYMENT, retain=2)
    reached = {"score.model": -1, "score.rules": -1}
    sink = Sink(log, "out.0#0", chance)
    units = {}

    def carrier():
        (name,) = carried(log, split).units
        if name not in units or chance.random() < 0.05:
            units[name] = Unit(log, name, chance)  # begun, or begun again after a crash
        return units[name]

    for _ in range(6 * EPOCHS):
        match chance.randrange(9):
            case 0 | 1 | 2:
                stream = chance.choice(list(reached))
                if reached[stream] < EPOCHS - 1:
                    reached[stream] += 1
                    feed(log, stream, reached[stream])
            case 3 | 4:
                carrier().step()
            case 5:
                sink.step()
            case 6:
                take(log, split, chance.choice(split.paths), reason="test")
            case 7 if units:
                chance.choice(list(units.values())).step()  # one who was left may wake up
            case 8:
                for name in ("score.model.0#0", "score.rules.0#0", carrier().name):
                    trimmer.trim(name)
    for stream, last in reached.items():
        for epoch in range(last + 1, EPOCHS):
            feed(log, stream, epoch)
    for _ in range(4 * EPOCHS):
        carrier().step()
        sink.step()
    at = -1
    for _, after, upto in sink.delivered:
        assert after == at
        at = upto
    assert at == EPOCHS - 1
