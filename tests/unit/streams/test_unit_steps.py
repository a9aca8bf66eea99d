"""What a unit does next, from records that somebody has put before it."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace

import pytest

from holdfast.streams.floors import Floors
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Change, Child, Floor, Range, Seal, Slice, Turn
from holdfast.streams.steps import (
    RESTARTS,
    Delete,
    Get,
    Put,
    RaiseFloor,
    changes,
    drive,
    ranges,
    slices,
)
from holdfast.streams.unit import Position, Proposal, RunBatch
from holdfast.testing.hands.memory import Memory

pytestmark = pytest.mark.unit


class NoWiring:
    """Nothing is trimmed here."""

    def readers(self, stream):
        return ()

    def publishes(self, stream):
        return True

    def inputs(self, segment):
        return ()

    def may_shut_down(self, stream):
        return False


def begin(memory, stream):
    """A stream with one log."""
    child = Child(unit=f"{stream}.0#0", segment=stream, groups=(0, 128))
    change = Change(stream=stream, number=0, how="run", children=(child,), start=-1)
    memory.execute(Put(changes(stream), 0, change))


def publish(memory, unit, ends):
    """Slices that end at these epochs."""
    after = -1
    for number, end in enumerate(ends):
        item = Slice(unit=unit, number=number, after=after, upto=end)
        memory.execute(Put(slices(unit), number, item))
        after = end


def hand_over(memory, stream, *, number, end):
    """Seal the log of change 0; the child of change 1 has published nothing yet."""
    child = Child(unit=f"{stream}.1#0", segment=stream, groups=(0, 128))
    parent = f"{stream}.0#0"
    change = Change(stream=stream, number=1, how="run", children=(child,), parents=(parent,))
    memory.execute(Put(changes(stream), 1, change))
    seal = Seal(unit=parent, number=number, change=1, how="run", end=end, batch=number - 1)
    memory.execute(Put(slices(parent), number, seal))


def newest(after, ends, limit):
    """Takes all there is."""
    return Proposal(upto=ends[-1].epoch) if ends else None


@pytest.mark.parametrize("reach", [1, 2, 4, 8, 64, None])
def test_a_log_born_beyond_the_horizon_hides_no_end(reach):
    """A log that begins behind the horizon has not run out before it: the end is found there."""
    memory = Memory()
    for stream in ("slow", "quick", "join"):
        begin(memory, stream)
    publish(memory, "slow.0#0", [3, 7])
    publish(memory, "quick.0#0", [1, 11])
    hand_over(memory, "quick", number=2, end=11)
    protocol = Floors(NoWiring(), writer="w")

    def step(reach):
        position = Position(batch=0, after=-1)
        steps = protocol.next_step("join.0#0", position, ("slow", "quick"), newest, reach=reach)
        return drive(steps, memory.execute)

    assert step(None) == "waiting"  # and it knows now that the quick one has changed hands
    publish(memory, "slow.0#0", [3, 7, 11])
    found = step(reach)
    assert isinstance(found, RunBatch)
    assert found.range.upto == 11


@pytest.mark.parametrize("reach", [1, 2, 512])
def test_a_unit_whose_interval_is_not_over_waits(reach):
    """All there is was looked at and will not do: it waits for more, and names it."""
    memory = Memory()
    for stream in ("source", "sum"):
        begin(memory, stream)
    publish(memory, "source.0#0", [0])
    protocol = Floors(NoWiring(), writer="w")
    operations = itertools.count()

    def execute(operation):
        assert next(operations) < 1000, "it looks again and again"
        return memory.execute(operation)

    step = protocol.next_step(
        "sum.0#0", Position(batch=0, after=-1), ("source",), lambda *_: None, reach=reach
    )
    assert drive(step, execute) == "waiting"
    assert protocol.wanted() == [(slices("source.0#0"), 1)]


def test_what_was_trimmed_meanwhile_is_no_end():
    """One who slept finds nothing where slices were, and does not take that for an empty input."""
    memory = Memory()
    begin(memory, "source")
    publish(memory, "source.0#0", [0, 1])
    sleeper = Floors(NoWiring(), writer="w")
    assert drive(sleeper.read("source", -1, 0), memory.execute)
    publish(memory, "source.0#0", [0, 1, 2])
    memory.execute(RaiseFloor(slices("source.0#0"), Floor(number=3, epoch=2)))
    for number in range(3):
        memory.execute(Delete(slices("source.0#0"), number))
    with pytest.raises(TrimmedError):
        drive(sleeper.read("source", 0, 2), memory.execute)


def test_a_stream_whose_slices_are_all_read_and_gone_is_left_where_they_ended():
    """Not where it began: whoever carried it on would publish everything once more."""
    memory = Memory()
    begin(memory, "k")
    publish(memory, "k.0#0", [1, 3])
    memory.execute(RaiseFloor(slices("k.0#0"), Floor(number=2, epoch=3)))
    for number in (0, 1):
        memory.execute(Delete(slices("k.0#0"), number))
    assert drive(Floors(NoWiring(), writer="w").last_end("k"), memory.execute) == 3
    child = Child(unit="k.1#0", segment="k", groups=(0, 128))
    halt = Change(stream="k", number=1, how="halt", children=(child,))
    memory.execute(Put(changes("k"), 1, halt))
    closing = drive(Floors(NoWiring(), writer="w").seal_halted(halt), memory.execute)
    assert (closing.end, closing.next) == (3, 1)


def child(unit, groups=(0, 128)):
    return Child(unit=unit, segment=unit.split(".")[0], groups=groups)


def test_what_a_restart_decided_is_put_once_whoever_sleeps():
    """One who wakes up after another has carried it out leaves that alone."""
    memory = Memory()
    begin(memory, "k")
    asked = Change(stream="k", number=1, how="halt", children=(child("k.1#0"),), start=4)
    assert drive(Floors(NoWiring(), writer="w").decide_restart([asked]), memory.execute)
    sleeper = Floors(NoWiring(), writer="sleeper").carry_out_restart(
        memory.execute(Get(RESTARTS, 0))
    )
    operation = next(sleeper)
    while not isinstance(operation, Put):
        operation = sleeper.send(memory.execute(operation))
    halves = (child("k.1#0", (0, 64)), child("k.1#1", (64, 128)))
    old = Change(stream="k", number=1, how="run", parents=("k.0#0",), children=halves)
    memory.execute(Put(changes("k"), 1, old))
    drive(Floors(NoWiring(), writer="other").finish_restarts(), memory.execute)
    with contextlib.suppress(StopIteration):
        while True:
            operation = sleeper.send(memory.execute(operation))
    found = drive(Floors(NoWiring()).changes_of("k"), memory.execute)
    assert [change.restart for change in found].count(0) == 1


class Chain(NoWiring):
    """A source, what keeps state of it, and a sink."""

    def readers(self, stream):
        return {"s": ("k",), "k": ("out",)}.get(stream, ())

    def publishes(self, stream):
        return stream != "out"

    def inputs(self, segment):
        return {"k": ("s",), "out": ("k",)}.get(segment, ())


def test_state_is_kept_until_all_who_take_it_over_have_begun():
    """Also if nobody reads what its unit published last: the sink is begun anew behind it."""
    memory = Memory()
    for stream in ("s", "k", "out"):
        begin(memory, stream)
    for unit in ("s.0#0", "k.0#0"):
        publish(memory, unit, [1, 3])
    for number, (after, upto) in enumerate([(-1, 1), (1, 3)]):
        record = Range(unit="k.0#0", number=number, after=after, upto=upto)
        memory.execute(Put(ranges("k.0#0"), number, record))
    halves = (child("k.1#0", (0, 64)), child("k.1#1", (64, 128)))
    heirs = Change(
        stream="k", number=1, how="halt", since=3, state=(("k.0#0", 1),), children=halves
    )
    anew = Change(stream="out", number=1, how="halt", start=3, children=(child("out.1#0"),))
    protocol = Floors(Chain(), writer="w")
    for asked in (anew, heirs):
        assert drive(protocol.decide_restart([asked]), memory.execute)
        drive(protocol.finish_restarts(), memory.execute)
    first = Range(unit="k.1#0", number=0, after=3, upto=5)
    memory.execute(Put(ranges("k.1#0"), 0, first))
    drive(protocol.trim("k.0#0", "k"), memory.execute)
    assert not drive(Floors(Chain()).is_over("k.0#0"), memory.execute)
    memory.execute(Put(ranges("k.1#1"), 0, replace(first, unit="k.1#1")))
    assert drive(Floors(Chain()).is_over("k.0#0"), memory.execute)


def test_a_unit_turns_once_whoever_sleeps_while_it_does():
    """One who looked for a turn and slept until the unit had gone on puts no second one."""
    unit, folder = "sum.0#0", ranges("sum.0#0")
    for asleep_after in itertools.count():
        memory = Memory()
        begin(memory, "sum")
        memory.execute(Put(folder, 0, Range(unit=unit, number=0, after=-1, upto=3)))
        child = Child(unit="sum.1#0", segment="sum", groups=(0, 128))
        change = Change(stream="sum", number=1, how="run", children=(child,), parents=(unit,))
        memory.execute(Put(changes("sum"), 1, change))
        sleeper = Floors(NoWiring(), writer="sleeper").place_turns(change)
        done, operation = False, next(sleeper)
        for _ in range(asleep_after):
            try:
                operation = sleeper.send(memory.execute(operation))
            except StopIteration:
                done = True
                break
        drive(Floors(NoWiring(), writer="other").place_turns(change), memory.execute)
        gone_on = Range(unit=unit, number=2, after=3, upto=7, turn=1)
        assert memory.execute(Put(folder, 2, gone_on)) == gone_on
        while not done:
            try:
                operation = sleeper.send(memory.execute(operation))
            except StopIteration:
                break
        turns = [item for item in memory.folders[folder].values() if isinstance(item, Turn)]
        assert [item.number for item in turns] == [1], asleep_after
        if done:
            break
    assert asleep_after > 3


def test_the_newest_slice_of_a_log_stays_until_something_follows_it():
    """All readers may have handed over at its end; a source goes on from the watermark it tells."""
    memory = Memory()
    for stream in ("s", "k"):
        begin(memory, stream)
        publish(memory, f"{stream}.0#0", [1, 3])
    hand_over(memory, "k", number=2, end=3)
    drive(Floors(Chain(), writer="w", keep_newest=True).trim("s.0#0", "s"), memory.execute)
    assert memory.execute(Get(slices("s.0#0"), 0)) is None
    assert isinstance(memory.execute(Get(slices("s.0#0"), 1)), Slice)
    hand_over(memory, "s", number=2, end=3)
    drive(Floors(Chain(), writer="w", keep_newest=True).trim("s.0#0", "s"), memory.execute)
    assert memory.execute(Get(slices("s.0#0"), 1)) is None
