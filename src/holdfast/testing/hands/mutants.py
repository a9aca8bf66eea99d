"""The rules by which streams change hands, each switched off in turn.

A model that finds nothing may be blind. So every rule of `holdfast.streams` has a mutant here, and
a kind of world in which the rule matters; the model must find what then goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.streams.floors import Floors
from holdfast.streams.handover import Birth
from holdfast.streams.records import Change, Closing, Floor, Seal, Slice
from holdfast.streams.steps import Get, Newest, Put, Steps, changes, closings, ranges, slices
from holdfast.streams.unit import NondeterministicError, Position, Published
from holdfast.testing.hands.scenario import Scenario, Violation, draw
from holdfast.testing.hands.world import World


class NoLookAfterwards(Floors):
    """What is found or put below the floor counts, as nobody looks again."""

    def floor_now(self, folder: str) -> Steps[Floor]:
        yield Get(folder, -1)
        return Floor()


class SmallestCut(Floors):
    """The cut is the smallest end before a turn: some parent has gone beyond it."""

    def cut_epoch(self, stream: str, number: int) -> Steps[int | None]:
        change = yield from self.change(stream, number)
        ends = []
        for parent in change.parents:
            turn = yield from self.turn_of(parent)
            if turn is None:
                return None
            ends.append(-1 if turn.end is None else turn.end)
        return min(ends)


class OwnCut(Floors):
    """Every parent ends where it stands when it turns."""

    def _hand_over(self, unit: str, position: Position) -> Steps[bool]:
        if position.change is None:
            return False
        seal = Seal(
            unit=unit,
            number=position.batch,
            change=position.change,
            how="run",
            end=position.after,
            batch=position.batch - 1,
            writer=self.writer,
        )
        yield Put(slices(unit), seal.number, seal)
        return True


class OwesASlice(Floors):
    """A unit may not be sealed where it was born."""

    def _hand_over(self, unit: str, position: Position) -> Steps[bool]:
        if position.batch == 0:
            return False
        return (yield from super()._hand_over(unit, position))


class StreamEndPinsNothing(Floors):
    """Only units pin their input, so nobody does between a cut and the birth after it."""

    def last_end(self, stream: str) -> Steps[int]:
        yield Get(changes(stream), 0)
        return 1 << 30


class NewbornPinsNothing(Floors):
    """A unit pins its input only from its first own record on."""

    def _unit_pin(self, unit: str) -> Steps[int | None]:
        if (yield Newest(ranges(unit))) < 0:
            return None
        return (yield from super()._unit_pin(unit))

    def last_end(self, stream: str) -> Steps[int]:
        yield Get(changes(stream), 0)
        return 1 << 30


class SkipNotInSlice(Floors):
    """A slice made with another skip is taken for a contradiction."""

    def publish(self, item: Slice) -> Steps[Published]:
        told = yield from super().publish(item)
        if told == "other skip":
            raise NondeterministicError(f"{item.unit}: batch {item.number} gave other rows")
        return told


class AnyEnd(Floors):
    """An end of one log counts as an end of the stream."""

    def _common(self, stream: str, change: Change, after: int | None) -> Steps[set[int]]:
        found: set[int] = set()
        for child in change.children:
            found |= yield from self._branch(stream, child.unit, after)
        return found


class OneParentTurns(Floors):
    """Only the first parent is turned."""

    def place_turns(self, change: Change) -> Steps[None]:
        yield from super().place_turns(replace(change, parents=change.parents[:1]))


class HeirsAreForgotten(Floors):
    """A cut seals the logs of its base, not those that a run on record may bring."""

    def seal_cut(self, change: Change) -> Steps[Closing | None]:
        known = yield from self.bases(change.stream)
        base, _ = known[-1]
        if base.number >= change.number:
            return None
        for child in base.children:
            yield from self._seal_log(child.unit, change.number)
        return (yield from self.closing(change.stream, base))


class ClosingAtTheFurthest(Floors):
    """A cut goes on where the furthest log had come, not where all had."""

    def closing(self, stream: str, base: Change) -> Steps[Closing | None]:
        known: Closing | None = yield Get(closings(stream), base.number)
        if known is not None:
            return known
        seals = yield from self._last_seals(stream, base)
        if seals is None:
            return None
        ends: set[int] = {-1}
        for child in base.children:
            ends |= yield from self._branch(stream, child.unit, None)
        stored: Closing = yield Put(
            closings(stream),
            base.number,
            Closing(
                stream=stream,
                number=base.number,
                end=max(ends),
                next=max(seal.change for seal in seals),
            ),
        )
        return stored


class StatedBirth(Floors):
    """A child of a cut begins where its parents' inputs were when somebody looked."""

    def _birth_after_closing(self, stream: str, change: Change) -> Steps[Any]:
        born = yield from super()._birth_after_closing(stream, change)
        if isinstance(born, Birth):
            return replace(born, epoch=born.epoch + 1)
        return born


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule switched off, and the worlds in which it matters."""

    rule: str
    protocol: Callable[..., Floors] = Floors
    broken: str = ""
    paths: bool | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    """A world that shows it."""

    def scenarios(self, seeds: Iterator[int] | range) -> Iterator[tuple[int, Scenario]]:
        for seed in seeds:
            scenario = draw(seed)
            if self.paths is None or bool(scenario.alternatives) == self.paths:
                yield seed, replace(scenario, **self.changes)


SPLITS = {"spares": 1.0, "gap_faults": 0.1, "changes": 8, "coordinators": 2, "trim": False}
TRIMS = {"trim": True, "pace": 0.003, "epochs": 24, "gap_faults": 0.1, "changes": 8}

MUTANTS = (
    Mutant(
        rule="floors are looked at afterwards",
        protocol=NoLookAfterwards,
        changes=TRIMS,
        seed=100_092,
    ),
    Mutant(
        rule="the cut is the largest end before a turn",
        protocol=SmallestCut,
        changes=SPLITS,
        seed=100_000,
    ),
    Mutant(rule="parents run on to the cut", protocol=OwnCut, changes=SPLITS, seed=100_002),
    Mutant(
        rule="the cut is a candidate for a batch end",
        broken="cut-is-candidate",
        changes=SPLITS,
        seed=100_010,
    ),
    Mutant(
        rule="a unit may end where it was born", protocol=OwesASlice, changes=SPLITS, seed=100_000
    ),
    Mutant(
        rule="a parent seals after its commit",
        broken="seal-before-commit",
        changes=SPLITS,
        seed=100_126,
    ),
    Mutant(rule="every parent turns", protocol=OneParentTurns, changes=SPLITS, seed=100_000),
    Mutant(
        rule="a stream's end pins the input of what may carry it",
        protocol=StreamEndPinsNothing,
        paths=True,
        changes=TRIMS,
        seed=100_012,
    ),
    Mutant(
        rule="a unit pins its input from its birth on",
        protocol=NewbornPinsNothing,
        changes={**TRIMS, "spares": 0.05},
        seed=100_001,
    ),
    Mutant(
        rule="a slice says which skip it was made with",
        protocol=SkipNotInSlice,
        broken="skip-in-slice",
        changes={"poison": True, "gap_faults": 0.3, "faults": 0.008},
        seed=100_014,
    ),
    Mutant(rule="a claim is exclusive", broken="claims", changes={"gap_faults": 0.1}, seed=100_004),
    Mutant(rule="an end is one of all logs", protocol=AnyEnd, changes=SPLITS, seed=100_000),
    Mutant(
        rule="a cut seals all that may carry the stream",
        protocol=HeirsAreForgotten,
        paths=True,
        changes=SPLITS,
        seed=100_006,
    ),
    Mutant(
        rule="a closing is at the last common end",
        protocol=ClosingAtTheFurthest,
        paths=True,
        changes=SPLITS,
        seed=100_005,
    ),
    Mutant(
        rule="births follow from the closing",
        protocol=StatedBirth,
        paths=True,
        changes=SPLITS,
        seed=100_004,
    ),
)


def violation(mutant: Mutant, seed: int, scenario: Scenario) -> str | None:
    """What goes wrong in one world, if anything."""
    world = World(seed, scenario=scenario, protocol=mutant.protocol, broken=mutant.broken)
    try:
        world.run()
    except (Violation, HoldfastError) as error:
        return str(error)
    return None
