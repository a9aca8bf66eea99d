"""The rules of forks, each switched off in turn: the model must find what then goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.streams.floors import Floors
from holdfast.streams.fork import ForkSteps
from holdfast.streams.records import Range, Slice
from holdfast.streams.steps import Get, Newest, Steps, branches, ranges
from holdfast.streams.unit import Position
from holdfast.testing.hands.forks import ForkWorld
from holdfast.testing.hands.scenario import Violation


class LeavesOutAnew(ForkSteps):
    """A redo leaves out what gives nothing now, not what its range says."""

    def read(self, stream: str, after: int, upto: int) -> Steps[list[Slice]]:
        found = yield from self._look([stream], after, upto)
        out = [item.log for item in found if upto not in item.ends]
        return (yield from self._read(stream, after, upto, out))


class EndsAsItLikes(ForkSteps):
    """A fork ends its first batches elsewhere than its exact unit has recorded."""

    def _decided(self, position: Position) -> Steps[int | None]:  # noqa: ARG002 - none is
        yield Get(branches(self.unit), 0)
        return None


class SaysNothing(ForkSteps):
    """A batch says what it has left out itself, not what its input or its state lacks."""

    def missing(self, batch: int, inputs: Sequence[str], *, stateful: bool) -> Steps[list[str]]:
        del inputs, stateful
        record = yield from self.recorded(self.unit, batch)
        return list(record.left_out)


class ForkPins(Floors):
    """What the fork has read is trimmed, though its exact unit has not."""

    def _unit_pin(self, unit: str, levels: int = 1) -> Steps[int | None]:
        pin = yield from super()._unit_pin(unit, levels)
        for number in range(1, 5):
            name = unit.replace(".", f"+{number}.", 1)
            newest = yield Newest(ranges(name))
            record = (yield Get(ranges(name), newest)) if newest >= 0 else None
            if isinstance(record, Range) and pin is not None:
                pin = max(pin, record.after)
        return pin

    def last_end(self, stream: str) -> Steps[int]:
        del stream
        yield Get("nothing", 0)
        return 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule switched off."""

    rule: str
    steps: Callable[..., ForkSteps] = ForkSteps
    floors: Callable[..., Floors] = Floors
    broken: str = ""
    seed: int = 0
    """A world that shows it."""


MUTANTS = (
    Mutant(rule="a redo leaves out the same", steps=LeavesOutAnew, seed=5),
    Mutant(
        rule="a fork begins where its branch says, whoever starts it", broken="seed anew", seed=5
    ),
    Mutant(rule="a fork ends its batches where its exact unit has", steps=EndsAsItLikes, seed=382),
    Mutant(rule="a slice of a fork says all that it lacks", steps=SaysNothing),
    Mutant(rule="exact units keep their input while a fork lives", floors=ForkPins),
    Mutant(rule="tentative rows are delivered only beyond the exact ones", broken="no check"),
    Mutant(rule="that is checked in the same transaction", broken="check apart", seed=1),
    Mutant(rule="exact rows remove the tentative ones", broken="exact removes"),
    Mutant(
        rule="the state of a fork never becomes that of an exact unit",
        broken="state becomes exact",
    ),
)


def violation(mutant: Mutant, seed: int) -> str | None:
    """What goes wrong in one world, if anything."""
    world = ForkWorld(seed, steps=mutant.steps, floors=mutant.floors, broken=mutant.broken)
    try:
        world.run()
    except (Violation, HoldfastError) as error:
        return str(error)
    return None
