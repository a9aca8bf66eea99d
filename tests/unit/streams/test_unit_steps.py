"""What a unit does next, from records that somebody has put before it."""

from __future__ import annotations

import pytest

from holdfast.streams.floors import Floors
from holdfast.streams.records import Change, Child, Seal, Slice
from holdfast.streams.steps import Put, changes, drive, slices
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
