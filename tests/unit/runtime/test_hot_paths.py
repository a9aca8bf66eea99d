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
from holdfast.streams import paths
from holdfast.streams.handover import Birth
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Range, Slice
from holdfast.streams.steps import GetFloor, Put, changes, ranges, slices
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
        if not self.publish(record):
            return []  # it was left: whatever it has read counts for nothing
        assert items[0].after == record.after
        assert [item.upto for item in items] == [*(item.after for item in items[1:]), record.upto]
        return items

    def publish(self, record):
        made = Slice(unit=self.name, number=self.batch, after=record.after, upto=record.upto)
        counts = self.log.run(self.steps.publish(made)) != "sealed"
        self.batch += counts
        return counts

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
        return True

    def step(self):
        items = super().step()
        self.delivered += [(item.unit, item.after, item.upto) for item in items]
        return items


def feed(log, stream, epoch):
    """A path ends a batch with every epoch, as long as it is not shut down."""
    steps = log.steps()
    for child in log.run(steps.carriers(stream)):
        born = log.run(steps.birth(child.unit))
        number = epoch - born.epoch - 1 if isinstance(born, Birth) else -1
        if number >= 0:
            record = Range(unit=child.unit, number=number, after=epoch - 1, upto=epoch)
            log.records.execute(Put(ranges(child.unit), number, record))
            made = Slice(unit=child.unit, number=number, after=epoch - 1, upto=epoch, rows=1)
            log.run(steps.publish(made))


def shut_down(log, stream):
    """A path has failed for good."""
    segment = DEPLOYMENT.segment(stream)
    return log.run(
        paths.shut_down(log.steps(), segment, DEPLOYMENT.segment("score"), reason="test")
    )


def begin_again(log, stream):
    """Somebody trusts a path again; gives its units."""
    segment, split = DEPLOYMENT.segment(stream), DEPLOYMENT.segment("score")
    return log.run(paths.begin_again(log.steps(), segment, split, ["rows"], reason="test"))


class Meanwhile:
    """Decisions that are carried out one operation at a time, while others go on."""

    def __init__(self, log, chance):
        self.log, self.chance, self.going = log, chance, []

    def begin(self, steps):
        self.going.append([steps, None])

    def step(self):
        """Some operations of one of them; it may die in between."""
        one = self.chance.choice(self.going)
        if self.chance.random() < 0.02:
            self.going.remove(one)
            return
        for _ in range(self.chance.randrange(1, 12)):
            try:
                one[1] = self.log.records.execute(one[0].send(one[1]))
            except StopIteration:
                self.going.remove(one)
                return

    def end(self):
        while self.going:
            self.step()


def reach(log, stream):
    """The last epoch of a path, or where it begins."""
    return log.run(log.steps().last_end(stream))


@pytest.fixture
def stuck():
    """The first path has stopped at epoch 3 and was left; all else is at epoch 39."""
    log = SliceLog("run", MemoryStorage())
    begin(log, DEPLOYMENT)
    for epoch in range(40):
        feed(log, "rows", epoch)
        feed(log, "score.rules", epoch)
        if epoch <= 3:
            feed(log, "score.model", epoch)
    take(log, DEPLOYMENT.segment("score"), "rules", reason="test")
    for epoch in range(40):
        feed(log, "score", epoch)
    return log


def trimmed(log):
    """How far the input is trimmed."""
    Trimmer(log, DEPLOYMENT, retain=2).trim("rows.0#0")
    return log.records.execute(GetFloor(slices("rows.0#0"))).epoch


def test_a_path_that_is_shut_down_pins_nothing(stuck):
    """One that only stands still does, for it is to go on from there."""
    assert trimmed(stuck) <= 3
    assert shut_down(stuck, "score.model")
    assert shut_down(stuck, "score.model")
    assert not stuck.carriers("score.model")
    assert trimmed(stuck) > 30
    assert reach(stuck, "score.model") == 3


def test_it_is_begun_again_where_its_split_is(stuck):
    """With what is left of the input, which it pins from then on; whoever comes second finds it."""
    shut_down(stuck, "score.model")
    trimmed(stuck)
    units = begin_again(stuck, "score.model")
    assert units == begin_again(stuck, "score.model") == ("score.model.2#0",)
    assert stuck.run(stuck.steps().birth(units[0])) == Birth(epoch=39)
    for epoch in range(40, 60):
        for stream in ("rows", "score.rules", "score"):
            feed(stuck, stream, epoch)
    assert trimmed(stuck) == 39
    for epoch in range(40, 60):
        feed(stuck, "score.model", epoch)
    now = take(stuck, DEPLOYMENT.segment("score"), "model", reason="test")
    assert stuck.run(stuck.steps().birth(now.units[0])) == Birth(epoch=59)


def test_one_that_its_split_takes_is_not_shut_down(stuck):
    """Whoever asks has not heard yet what the records say."""
    assert not shut_down(stuck, "score.rules")
    assert [child.unit for child in stuck.carriers("score.rules")] == ["score.rules.0#0"]


def test_one_that_was_not_shut_down_goes_on(stuck):
    """To begin it again has no effect."""
    assert begin_again(stuck, "score.model") == ("score.model.0#0",)


def test_its_input_is_kept_from_where_its_split_is(stuck):
    """Which may be far behind its other paths: these need the input no more."""
    shut_down(stuck, "score.model")
    for epoch in range(40, 60):
        feed(stuck, "rows", epoch)
        feed(stuck, "score.rules", epoch)
    assert trimmed(stuck) == 39
    assert begin_again(stuck, "score.model") == ("score.model.2#0",)


def test_one_that_was_ahead_of_its_split_goes_on_where_it_was(stuck):
    """What it had published is read first, and the input before that may be gone."""
    for epoch in range(40, 60):
        for stream in ("rows", "score.rules"):
            feed(stuck, stream, epoch)
    for epoch in range(4, 60):
        feed(stuck, "score.model", epoch)
    assert trimmed(stuck) > 39
    shut_down(stuck, "score.model")
    (unit,) = begin_again(stuck, "score.model")
    assert stuck.run(stuck.steps().birth(unit)) == Birth(epoch=59)
    feed(stuck, "score.model", 60)
    items = stuck.run(stuck.steps().read("score.model", 39, 60))
    assert [item.upto for item in items] == list(range(40, 61))


def test_input_that_was_trimmed_meanwhile_is_noticed(stuck):
    """Between the look at the split and the put, others have gone on."""
    shut_down(stuck, "score.model")
    segment, split = DEPLOYMENT.segment("score.model"), DEPLOYMENT.segment("score")
    again = paths.begin_again(stuck.steps(), segment, split, ["rows"], reason="test")
    operation = next(again)
    while not (isinstance(operation, Put) and operation.folder == changes("score.model")):
        operation = again.send(stuck.records.execute(operation))
    for epoch in range(40, 60):
        for stream in ("rows", "score.rules", "score"):
            feed(stuck, stream, epoch)
    assert trimmed(stuck) > 39
    stuck.records.execute(operation)
    assert begin_again(stuck, "score.model") == ("score.model.4#0",)
    assert stuck.run(stuck.steps().birth("score.model.4#0")) == Birth(epoch=59)


def test_one_that_has_begun_needs_its_first_input_no_more(stuck):
    """To begin it again has no effect, though what it began with is trimmed."""
    shut_down(stuck, "score.model")
    (unit,) = begin_again(stuck, "score.model")
    for epoch in range(40, 80):
        for stream in ("rows", "score.rules", "score", "score.model"):
            feed(stuck, stream, epoch)
    assert trimmed(stuck) > 60
    assert begin_again(stuck, "score.model") == (unit,)


@pytest.mark.sample(seed=set(range(5)))
@pytest.mark.parametrize("seed", range(20))
def test_every_epoch_is_read_once_from_one_of_the_paths(seed):
    """Paths lag, are taken at any moment, shut down, begun again; units die, logs are trimmed."""
    chance = random.Random(seed)
    log = SliceLog("run", MemoryStorage())
    begin(log, DEPLOYMENT)
    split = DEPLOYMENT.segment("score")
    trimmer = Trimmer(log, DEPLOYMENT, retain=2)
    for epoch in range(EPOCHS):
        feed(log, "rows", epoch)
    streams = ("score.model", "score.rules")
    sink = Sink(log, "out.0#0", chance)
    units, meanwhile = {}, Meanwhile(log, chance)

    def carrier():
        (name,) = carried(log, split).units
        if name not in units or chance.random() < 0.05:
            units[name] = Unit(log, name, chance)  # begun, or begun again after a crash
        return units[name]

    def go_on(stream):
        epoch = reach(log, stream) + 1
        if epoch < EPOCHS:
            feed(log, stream, epoch)

    for _ in range(6 * EPOCHS):
        if meanwhile.going and chance.random() < 0.7:
            meanwhile.step()
        match chance.randrange(11):
            case 0 | 1 | 2:
                go_on(chance.choice(streams))
            case 3 | 4:
                carrier().step()
            case 5:
                sink.step()
            case 6:
                path = chance.choice(split.paths)
                meanwhile.begin(paths.take(log.steps(), split, path, reason="test"))
            case 7 if units:
                chance.choice(list(units.values())).step()  # one who was left may wake up
            case 8:
                fed = [child.unit for name in streams for child in log.carriers(name)]
                for name in ("rows.0#0", *fed, carrier().name):
                    trimmer.trim(name)
            case 9:
                stream = DEPLOYMENT.segment(chance.choice(streams))
                meanwhile.begin(paths.shut_down(log.steps(), stream, split, reason="test"))
            case 10:
                stream = DEPLOYMENT.segment(chance.choice(streams))
                meanwhile.begin(
                    paths.begin_again(log.steps(), stream, split, ["rows"], reason="test")
                )
    meanwhile.end()
    path = carried(log, split).path
    take(log, split, path, reason="whoever leads sees that it is carried out")
    for _ in range(4 * EPOCHS):
        for stream in streams:
            begin_again(log, stream)
            go_on(stream)
        carrier().step()
        sink.step()
    at = -1
    for _, after, upto in sink.delivered:
        assert after == at
        at = upto
    assert at == EPOCHS - 1
