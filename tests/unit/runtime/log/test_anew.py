"""Segments that begin anew at a stated epoch: exactly, also if whoever begins them is killed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.unit.runtime.units.test_replayed import SOURCE, World

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.runtime.log.anew import begin_anew, finish_restart, first_epoch, with_changes
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.handover import Birth
from holdfast.streams.records import Change, Child, Floor, Restart, Slice
from holdfast.streams.steps import RESTARTS, Put, RaiseFloor, slices

pytestmark = pytest.mark.unit


def segment(name, kind, *inputs):
    outputs = () if kind == "exporter" else (Boundary(operator=name),)
    return Segment(name=name, kind=kind, operators=(name,), inputs=inputs, outputs=outputs)


DEPLOYMENT = Deployment(
    pipeline="p",
    epoch_s=1.0,
    fingerprints={},
    segments=(
        segment("a", "source"),
        segment("b", "inner", "a"),
        segment("c", "inner", "b"),
        segment("out", "exporter", "c"),
    ),
)
FRESH = DEPLOYMENT.segments[1:]


class KilledError(Exception):
    """Stands for a kill."""


class Mortal(MemoryStorage):
    """Its user is killed before a put."""

    left = None

    def put_if_absent(self, name, data):
        if self.left is not None:
            if not self.left:
                raise KilledError
            self.left -= 1
        return super().put_if_absent(name, data)


def ran(ends=range(20)):
    """A run in which every segment has published these epochs."""
    log = SliceLog("/none", Mortal())
    begin(log, DEPLOYMENT)
    for unit in ("a.0#0", "b.0#0", "c.0#0"):
        for number, end in enumerate(ends):
            log.publish(Slice(unit=unit, number=number, after=(-1, *ends)[number], upto=end))
    return log


def publish(log, unit, after, *ends):
    for number, end in enumerate(ends):
        log.publish(Slice(unit=unit, number=number, after=(after, *ends)[number], upto=end))


def test_a_stream_is_cut_where_its_reset_begins():
    """What it published beyond is void; the new unit is born there, and readers follow."""
    log = ran()
    made = begin_anew(log, DEPLOYMENT, dict.fromkeys(("b", "c", "out"), 8))
    assert [str(unit) for unit in made.units()] == ["a.0#0", "b.1#0", "c.1#0", "out.1#0"]
    assert with_changes(log, DEPLOYMENT) == made
    for unit in ("b.1#0", "c.1#0", "out.1#0"):
        assert log.run(log.steps().birth(unit)) == Birth(epoch=7)
    assert log.run(log.steps().ends("b", 7)) == []
    publish(log, "b.1#0", 7, 9, 11)
    assert log.run(log.steps().ends("b", 7)) == [9, 11]
    assert [item.unit for item in log.run(log.steps().read("b", 7, 11))] == ["b.1#0"] * 2
    assert log.run(log.steps().ends("b", 3))[:4] == [4, 5, 6, 7]


def test_it_may_begin_beyond_what_it_had_published():
    """`now` is where its input is, however far behind it was itself."""
    log = ran()
    publish_on = SliceLog("/none", log.store)
    for number in range(20, 30):
        publish_on.publish(Slice(unit="a.0#0", number=number, after=number - 1, upto=number))
    assert first_epoch(log, DEPLOYMENT, FRESH, "now") == 30
    begin_anew(log, DEPLOYMENT, dict.fromkeys(("b", "c", "out"), 30))
    assert log.run(log.steps().birth("b.1#0")) == Birth(epoch=29)


def test_it_begins_after_an_end():
    """A slice counts wholly at its end, so nothing begins within one; the next ones are named."""
    log = ran(ends=range(1, 20, 2))
    assert first_epoch(log, DEPLOYMENT, FRESH, 8) == 8
    with pytest.raises(BadInputError, match=r"epoch 7 is not .*; --from 6 or --from 8"):
        first_epoch(log, DEPLOYMENT, FRESH, 7)
    with pytest.raises(BadInputError, match="--from 20"):
        first_epoch(log, DEPLOYMENT, FRESH, 99)


def test_whoever_begins_anew_may_be_killed_at_any_step():
    """Before it is decided nothing has changed; from then on whoever comes next carries it out."""
    starts = dict.fromkeys(("b", "c", "out"), 8)
    for steps in itertools.count():
        log = ran()
        log.store.left = steps
        try:
            begin_anew(log, DEPLOYMENT, starts)
        except KilledError:
            log.store.left = None
        else:
            break
        left = with_changes(log, DEPLOYMENT)
        # Readers come first, and none is born before all can be.
        fresh = [bool(item.change) for item in left.segments]
        assert fresh == sorted(fresh)
        unborn = [log.run(log.steps().birth(str(unit))) for unit in left.units() if unit.change]
        assert set(unborn) <= {"not yet"}
        prepared = []
        finish_restart(log, prepared.append)
        made = with_changes(log, DEPLOYMENT)
        streams = [change.stream for record in prepared for change in record.changes]
        assert streams == (["out", "c", "b"] if steps else [])
        for unit in made.units()[1:]:
            assert unit.change == (1 if steps else 0)
            assert log.run(log.steps().birth(str(unit))) == Birth(epoch=7 if steps else -1)
    assert steps > 8


def test_a_reset_may_be_followed_by_an_earlier_one():
    """What the logs before the first reset hold beyond the second is void as well."""
    log = ran()
    made = begin_anew(log, DEPLOYMENT, dict.fromkeys(("b", "c", "out"), 12))
    publish(log, "b.1#0", 11, 13, 15)
    begin_anew(log, made, dict.fromkeys(("b", "c", "out"), 4))
    assert log.run(log.steps().birth("c.2#0")) == Birth(epoch=3)
    assert log.run(log.steps().ends("b", 3)) == []
    publish(log, "b.2#0", 3, 6, 16)
    assert log.run(log.steps().ends("b", 3)) == [6, 16]
    assert [item.unit for item in log.run(log.steps().read("b", 3, 16))] == ["b.2#0"] * 2


def test_nothing_begins_before_what_it_reads_was_begun_anew():
    """The rows before are of another life, whose state is gone."""
    log = ran()
    made = begin_anew(log, DEPLOYMENT, dict.fromkeys(("b", "c", "out"), 8))
    publish(log, "c.1#0", 7, 9, 11)
    out = [made.segment("out")]
    assert first_epoch(log, made, out, "earliest") == 8
    with pytest.raises(BadInputError, match="--from 8"):
        first_epoch(log, made, out, 5)
    assert first_epoch(log, made, out, 10) == 10


def test_a_change_that_comes_first_moves_a_reset_on():
    """Who rescales a stream before its reset is carried out takes a number, and no more."""
    log = ran()
    log.store.left = 1
    with pytest.raises(KilledError):
        begin_anew(log, DEPLOYMENT, dict.fromkeys(("b", "c", "out"), 8))
    log.store.left = None
    child = Child(unit="b.1#0", segment="b", groups=(0, 128))
    run = Change(stream="b", number=1, how="run", children=(child,), parents=("b.0#0",))
    assert log.run(log.steps().decide(run))
    finish_restart(log, lambda _: None)
    made = with_changes(log, DEPLOYMENT)
    assert [str(unit) for unit in made.units()] == ["a.0#0", "b.2#0", "c.1#0", "out.1#0"]
    assert log.run(log.steps().birth("b.2#0")) == Birth(epoch=7)
    assert log.run(log.steps().birth("b.1#0")) == "void"


def delivered_after(world, batches):
    world.delivered.clear()
    world.run(1, batches, first=world.generation)
    return [row for _, rows in world.delivered for row in rows.column("value").to_pylist()]


@pytest.mark.parametrize("epoch", [0, 4, 10])
def test_a_sink_that_begins_anew_gets_exactly_the_rows_from_there_on(epoch):
    """Rows of every epoch from the stated one on, each once, whatever it had delivered before."""
    world = World(3)
    world.run(2, 6)
    made = begin_anew(world.log, world.deployment, {"x": epoch})
    world.deployment = made
    found = delivered_after(world, 6)
    first = round(SOURCE.rows_per_second) * epoch
    assert found == list(range(first, first + len(found)))
    assert found[-1] > 3 * 12


def test_a_source_does_not_begin_beyond_its_end():
    """It would wait for that epoch without a word."""
    with pytest.raises(BadInputError, match="lies beyond its end"):
        first_epoch(ran(), DEPLOYMENT, DEPLOYMENT.segments, 1_000_000)


def test_a_cut_that_seals_first_does_not_overtake_a_reset():
    """One who slept while a run was reset decides on a later halt, and is the first to seal."""
    log = ran()
    steps = log.steps()

    def halt(number, **more):
        children = (Child(unit=f"b.{number}#0", segment="b", groups=(0, 64)),)
        return Change(stream="b", number=number, how="halt", children=children, **more)

    reset, later = halt(1, start=7, restart=0), halt(2)
    log.records.execute(Put(RESTARTS, 0, Restart(number=0, changes=(reset,))))
    assert log.run(steps.decide(reset))
    assert log.run(steps.decide(later))
    log.run(steps._seal_log("b.0#0", later.number))
    finish_restart(log, prepare=lambda _: None)
    assert log.run(log.steps().birth("b.1#0")) == Birth(epoch=7)
    log.run(log.steps().carry_out("b"))
    assert log.run(log.steps().birth("b.2#0")) == Birth(epoch=7)


def test_earliest_is_an_end_of_all_that_is_read_by_whatever_begins_anew():
    """Operators that are reset together read sources whose batches end at different epochs."""
    reset = (segment("b", "inner", "a"), segment("d", "inner", "c"))
    both = (*reset, segment("e", "inner", "b", "d"), segment("out", "exporter", "e"))
    deployment = replace(
        DEPLOYMENT, segments=(segment("a", "source"), segment("c", "source"), *both)
    )
    log = SliceLog("/none", Mortal())
    begin(log, deployment)
    publish(log, "a.0#0", -1, 3, 7, 11, 15)
    publish(log, "c.0#0", -1, *range(16))
    log.records.execute(RaiseFloor(slices("c.0#0"), Floor(number=6, epoch=5)))
    epoch = first_epoch(log, deployment, both, "earliest")
    assert epoch == 8
    assert first_epoch(log, deployment, both, epoch) == epoch
