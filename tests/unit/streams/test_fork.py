"""Going on without an input: the production decisions of forks, alone and in a model."""

from __future__ import annotations

import pytest

from holdfast.deployment import UnitId, exact_name, fork_number
from holdfast.streams.fork import ForkSteps, end_fork, find_fork, put_fork
from holdfast.streams.handover import Birth
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Change, Child, Fork, ForkEnd, Range, Slice
from holdfast.streams.repair import Repairs
from holdfast.streams.steps import Get, Put, changes, drive, ranges, slices
from holdfast.streams.unit import Ended, Position, Proposal, RunBatch
from holdfast.testing.hands.fork_rules import MUTANTS, violation
from holdfast.testing.hands.forks import ForkWorld
from holdfast.testing.hands.memory import Memory

pytestmark = pytest.mark.unit

FORK = Fork(number=3, units=("count+3.0#0", "out+3.0#0"), silent=("lines.0#1",))


class Records:
    """A small run: two logs of `lines`, one unit `count`, one exporter `out`."""

    def __init__(self) -> None:
        self.memory = Memory()
        for stream, shards in (("lines", 2), ("count", 1), ("out", 1)):
            children = tuple(
                Child(unit=f"{stream}.0#{n}", segment=stream, groups=(0, 128))
                for n in range(shards)
            )
            change = Change(stream=stream, number=0, how="run", children=children, start=-1)
            self.memory.execute(Put(changes(stream), 0, change))

    def run(self, steps):
        return drive(steps, self.memory.execute)

    def publish(self, unit, *ends, first=0, after=-1, **fields):
        for number, upto in enumerate(ends, first):
            item = Slice(unit=unit, number=number, after=after, upto=upto, rows=1, **fields)
            self.memory.execute(Put(slices(unit), number, item))
            after = upto

    def record(self, unit, number, after, upto, **fields):
        item = Range(unit=unit, number=number, after=after, upto=upto, **fields)
        self.memory.execute(Put(ranges(unit), number, item))

    def steps(self, unit="count+3.0#0", fork=FORK, **settings):
        return ForkSteps(fork, unit, writer="w", **settings)


def take_first(after, ends, limit):
    """The next batch ends at the first end."""
    return Proposal(upto=ends[0].epoch) if ends else None


@pytest.fixture
def records():
    """Both logs of `lines` reach 3, then one goes on alone; `count` stands at 3."""
    records = Records()
    records.publish("lines.0#0", 1, 3, 5, 7, watermark_us=70)
    records.publish("lines.0#1", 1, 3, watermark_us=30)
    records.record("count.0#0", 0, -1, 1, watermark_us=10)
    records.record("count.0#0", 1, 1, 3, watermark_us=30)
    records.publish("count.0#0", 1, 3)
    return records


def begun(records, batch=2, **settings):
    steps = records.steps(**settings)
    records.run(steps.begin(batch, generation=1))
    return steps


def step_of(records, steps, position, inputs=("lines",)):
    return records.run(steps.next_step(steps.unit, position, inputs, take_first))


def test_names_say_which_fork_a_unit_belongs_to():
    """A fork's name is that of its unit with a number, which no operator can have."""
    unit = UnitId(segment="count", shard=1, change=2)
    assert str(unit.forked(3)) == "count+3.2#1"
    assert (unit.fork, unit.forked(3).fork) == (None, 3)
    assert UnitId.parse("count+3.2#1").exact == unit
    assert (exact_name("count+3.2#1"), fork_number("count+3")) == ("count.2#1", 3)
    assert (exact_name("count.2#1"), fork_number("count.2#1")) == ("count.2#1", None)


def test_a_fork_begins_at_the_commit_of_its_exact_unit(records):
    """Batch, epoch and watermark are those of the exact unit; its groups as well."""
    steps = begun(records)
    born = records.run(steps.birth("count+3.0#0"))
    assert born == Birth(epoch=3, watermark_us=30)
    assert records.run(steps.position_at("count+3.0#0", 0)) == Position(
        batch=2, after=3, watermark_us=30
    )
    assert records.run(steps.child("count+3.0#0")).groups == (0, 128)


def test_the_first_branch_counts(records):
    """Whoever begins later begins where the first one did, with its clone."""
    begun(records, batch=1)
    later = records.run(records.steps().begin(2, generation=7))
    assert (later.batch, later.epoch, later.generation) == (1, 1, 1)


def test_a_silent_log_is_left_out_and_the_range_says_so(records):
    """Nobody waits for a log that was silent at first; watermarks are those of the others."""
    steps = begun(records)
    step = step_of(records, steps, Position(batch=2, after=3, watermark_us=30))
    assert isinstance(step, RunBatch)
    assert (step.range.upto, step.range.left_out) == (5, ("lines.0#1",))
    assert step.range.watermark_us == 70
    found = records.run(steps.read("lines", 3, 5))
    assert [item.unit for item in found] == ["lines.0#0"]


def test_a_redo_leaves_out_the_same(records):
    """The log is back before the batch is run again: it is not read."""
    steps = begun(records)
    first = step_of(records, steps, Position(batch=2, after=3))
    records.publish("lines.0#1", 5, 7, first=2, after=3)
    again = records.steps()
    assert step_of(records, again, Position(batch=2, after=3)) == first
    assert [item.unit for item in records.run(again.read("lines", 3, 5))] == ["lines.0#0"]


def test_a_log_that_comes_back_is_read_again(records):
    """From the next range on; what it published meanwhile counts wholly at its end."""
    steps = begun(records)
    done = step_of(records, steps, Position(batch=2, after=3)).done
    records.publish("lines.0#1", 4, 7, first=2, after=3)
    step = step_of(records, steps, done)
    assert (step.range.after, step.range.upto, step.range.left_out) == (5, 7, ())
    found = records.run(steps.read("lines", 5, 7))
    assert [(item.unit, item.after) for item in found] == [("lines.0#0", 5), ("lines.0#1", 4)]


def test_a_log_that_is_still_behind_is_not_waited_for(records):
    """It was left out before, so it is left out until it gives something after the position."""
    steps = begun(records)
    done = step_of(records, steps, Position(batch=2, after=3)).done
    records.publish("lines.0#1", 4, first=2, after=3)
    step = step_of(records, steps, done)
    assert (step.range.upto, step.range.left_out) == (7, ("lines.0#1",))


def test_a_log_that_falls_silent_later_is_waited_for(records):
    """For as long as the unit is patient; then the same fork goes on with less."""
    fork = Fork(number=3, units=FORK.units, silent=())
    asked = []

    def impatient(names):
        asked.append(list(names))
        return len(asked) > 1

    steps = begun(records, fork=fork, impatient=impatient)
    position = Position(batch=2, after=3)
    assert step_of(records, steps, position) == "waiting"
    step = step_of(records, steps, position)
    assert step.range.left_out == ("lines.0#1",)
    assert asked == [["lines.0#1"]] * 2


def test_a_lost_log_that_ends_where_no_other_does_is_left_out(records):
    """What it published after the position comes to no end that the others share, and never will;
    what it has up to there is lost to the fork.
    """
    records.publish("lines.0#1", 4, first=2, after=3)
    steps = begun(records)
    step = step_of(records, steps, Position(batch=2, after=3))
    assert (step.range.upto, step.range.left_out) == (5, ("lines.0#1",))
    assert [item.unit for item in records.run(steps.read("lines", 3, 5))] == ["lines.0#0"]
    records.publish("lines.0#1", 7, first=3, after=4)
    step = step_of(records, steps, step.done)
    assert (step.range.upto, step.range.left_out) == (7, ())


def test_a_lost_log_that_ends_too_soon_for_a_batch_is_left_out(records):
    """The end that it shares makes no batch, as the interval goes on: the others go on alone."""
    records.publish("lines.0#1", 5, first=2, after=3)
    steps = begun(records)

    def later(after, ends, limit):
        return next((Proposal(upto=end.epoch) for end in ends if end.epoch >= 7), None)

    step = records.run(steps.next_step(steps.unit, Position(batch=2, after=3), ["lines"], later))
    assert (step.range.upto, step.range.left_out) == (7, ("lines.0#1",))


def test_a_log_that_lags_is_waited_for_only_while_the_others_can_go_on(records):
    """As one that falls silent; while nobody can, nobody is waited for."""
    fork = Fork(number=3, units=FORK.units, silent=())
    records.publish("lines.0#1", 5, first=2, after=3)
    asked = []

    def impatient(names):
        asked.append(list(names))
        return False

    steps = begun(records, fork=fork, impatient=impatient)
    for first in (7, 9):

        def later(after, ends, limit, first=first):
            return next((Proposal(upto=end.epoch) for end in ends if end.epoch >= first), None)

        position = Position(batch=2, after=3)
        assert records.run(steps.next_step(steps.unit, position, ["lines"], later)) == "waiting"
    assert asked == [["lines.0#1"], []]


def test_without_any_input_a_fork_waits(records):
    """There is nothing to compute from."""
    steps = begun(records)
    assert step_of(records, steps, Position(batch=2, after=7)) == "waiting"


def test_a_fork_ends_its_first_batches_where_its_exact_unit_did(records):
    """What was recorded and published without a commit may have been read up to that end."""
    records.publish("lines.0#1", 5, 7, first=2, after=3)
    records.record("count.0#0", 2, 3, 7)
    steps = begun(records)
    step = step_of(records, steps, Position(batch=2, after=3))
    assert (step.range.upto, step.range.left_out) == (7, ())


def test_a_fork_reads_the_fork_of_its_input(records):
    """The exact unit's slices up to the branch, then those of the fork, whatever comes later."""
    begun(records)
    records.publish("count+3.0#0", 5, 7, first=2, after=3, missing=("lines.0#1",))
    records.publish("count.0#0", 6, first=2, after=3)
    records.record("out.0#0", 0, -1, 1)
    out = records.steps("out+3.0#0")
    records.run(out.begin(1))
    first = step_of(records, out, Position(batch=1, after=1), inputs=("count",))
    assert first.range.upto == 3
    second = step_of(records, out, first.done, inputs=("count",))
    assert second.range.upto == 5
    found = records.run(out.read("count", 3, 5))
    assert [(item.unit, item.upto) for item in found] == [("count+3.0#0", 5)]
    assert records.run(out.missing(2, ("count",), stateful=False)) == ["lines.0#1"]
    assert records.run(out.missing(1, ("count",), stateful=False)) == []


def test_a_stateful_unit_lacks_what_it_ever_lacked(records):
    """Its state was made without it."""
    steps = begun(records)
    step_of(records, steps, Position(batch=2, after=3))
    missing = tuple(records.run(steps.missing(2, ("lines",), stateful=True)))
    assert missing == ("lines.0#1",)
    records.publish("count+3.0#0", 5, first=2, after=3, missing=missing)
    records.publish("lines.0#1", 5, 7, first=2, after=3)
    step_of(records, steps, Position(batch=3, after=5))
    assert records.run(steps.missing(3, ("lines",), stateful=True)) == ["lines.0#1"]
    assert records.run(steps.missing(3, ("lines",), stateful=False)) == []


def test_a_fork_of_an_input_that_has_not_begun_is_left_out(records):
    """Its exact unit is down and may stay so: it is named by that one."""
    fork = Fork(number=3, units=FORK.units, silent=("lines.0#1", "count.0#0"))
    out = records.steps("out+3.0#0", fork=fork)
    records.run(out.begin(0))
    position = Position(batch=0, after=-1)
    assert step_of(records, out, position, inputs=("count",)) == "waiting"
    step = step_of(records, out, position, inputs=("count", "lines"))
    assert step.range.left_out == ("count+3.0#0",)


def test_the_end_of_a_fork_ends_its_units(records):
    """They find it before their next batch; the first reason counts."""
    steps = begun(records)
    first = ForkEnd(number=3, reason="caught up")
    assert records.run(end_fork(first)) == first
    assert records.run(end_fork(ForkEnd(number=3, reason="too old"))) == first
    assert step_of(records, steps, Position(batch=2, after=3)) == Ended(why="sealed")


def test_of_two_coordinators_the_first_decides_what_a_fork_is(records):
    """The record is put once."""
    assert records.run(put_fork(FORK)) == FORK
    assert records.run(put_fork(Fork(number=3, units=(), silent=()))) == FORK
    assert records.run(find_fork(3)) == FORK
    assert records.run(find_fork(4)) is None


def test_a_fork_that_its_exact_unit_has_left_behind_stops(records):
    """Its input is trimmed, or lies across the epoch at which it began."""
    records.publish("count+3.0#0", 7, first=2, after=3)
    begun(records)
    records.record("out.0#0", 0, -1, 5)
    out = records.steps("out+3.0#0")
    records.run(out.begin(1))
    with pytest.raises(TrimmedError, match="lies across epoch 5"):
        step_of(records, out, Position(batch=1, after=5), inputs=("count",))


def test_exact_units_never_see_a_fork(records):
    """An exact reader of `count` finds what the exact unit published, and its floors stay."""
    begun(records)
    records.publish("count+3.0#0", 5, 7, first=2, after=3)
    exact = Repairs("x")
    assert records.run(exact.ends("count", -1)) == [1, 3]
    assert records.memory.execute(Get(ranges("count.0#0"), 0)) is not None


@pytest.mark.sample(first=0)
@pytest.mark.parametrize("first", range(0, 60, 6))
def test_worlds_with_forks_end_exact(first):
    """Silent logs, crashes, zombies, trimming: the sink is exact and no tentative row is left."""
    seen = 0
    for seed in range(first, first + 6):
        world = ForkWorld(seed)
        world.run()
        seen += world.count["tentative"]
    assert seen > 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule.replace(" ", "-"))
def test_a_rule_of_forks_that_is_switched_off_is_missed(mutant):
    """The model finds what goes wrong without it, and nothing with it."""
    assert violation(mutant, mutant.seed) is not None
    ForkWorld(mutant.seed).run()
