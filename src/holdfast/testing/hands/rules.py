"""The decisions of `holdfast.streams`, each with one rule switched off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.streams.floors import Floors
from holdfast.streams.handover import Birth
from holdfast.streams.records import (
    Change,
    Closing,
    Floor,
    Range,
    Seal,
    Slice,
    Turn,
    change_of,
    stream_of,
    unit_name,
)
from holdfast.streams.repair import Repaired
from holdfast.streams.steps import (
    Get,
    GetFloor,
    Newest,
    Operation,
    Put,
    Steps,
    changes,
    ranges,
    slices,
)
from holdfast.streams.tails import Log
from holdfast.streams.unit import NondeterministicError, Position, Published


def _misheard(steps: Steps[bool], heard: Callable[[Operation, Any], Any]) -> Steps[bool]:
    """A decision that is told something else than what the storage answers."""
    answer: Any = None
    while True:
        try:
            operation = steps.send(answer)
        except StopIteration as done:
            return bool(done.value)
        answer = heard(operation, (yield operation))


class NoLookAfterwards(Floors):
    """What is found or put below the floor counts, as nobody looks again."""

    def floor_now(self, folder: str) -> Steps[Floor]:
        yield Get(folder, -1)
        return Floor()


class SmallestHandover(Floors):
    """The handover epoch is the smallest end before a turn: some parent has gone beyond it."""

    def _handover_of(self, ends: Sequence[int]) -> int:
        return min(ends)


class OwnHandover(Floors):
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
    """Only units pin their input, so nobody does between a halt and the birth after it."""

    def last_end(self, stream: str) -> Steps[int]:
        yield Get(changes(stream), 0)
        return 1 << 30


class NewbornPinsNothing(Floors):
    """A unit pins its input only from its first own record on."""

    def _unit_pin(self, unit: str, levels: int = 1) -> Steps[int | None]:
        if (yield Newest(ranges(unit))) < 0:
            return None
        return (yield from super()._unit_pin(unit, levels))

    def last_end(self, stream: str) -> Steps[int]:
        yield Get(changes(stream), 0)
        return 1 << 30


class TakerBeforeGiver(Floors):
    """Heirs are looked at before those they take over from."""

    def _pins_of_reader(self, stream: str, reader: str, levels: int = 1) -> Steps[list[int]]:
        pins: list[int] = []
        for change in reversed((yield from self.changes_of(reader))):
            for child in change.children:
                if stream in self._wiring.inputs(child.segment):
                    pinned = yield from self._unit_pin(child.unit, levels)
                    if pinned is not None:
                        pins.append(pinned)
        if self._wiring.publishes(reader):
            pins.append((yield from self.last_end(reader)))
        return pins


class TurnsAreTrimmed(Floors):
    """A unit that has turned trims its ranges as before, and its turn with them."""

    def _has_turned(self, unit: str) -> Steps[bool]:
        yield Newest(ranges(unit))
        return False


class SkipNotInSlice(Floors):
    """A slice made with another skip is taken for a contradiction."""

    def publish(self, item: Slice) -> Steps[Published]:
        told = yield from super().publish(item)
        if told == "other skip":
            raise NondeterministicError(f"{item.unit}: batch {item.number} gave other rows")
        return told


class AnyEnd(Floors):
    """An end of one log counts as an end of the stream."""

    def _ends_of(self, ends: Sequence[set[int]]) -> set[int]:
        return set().union(*ends)


class OneParentTurns(Floors):
    """Only the first parent is turned."""

    def place_turns(self, change: Change) -> Steps[None]:
        yield from super().place_turns(replace(change, parents=change.parents[:1]))


class TurnsAgain(Floors):
    """Who looked for a turn and slept does not see that the unit has turned and gone on since."""

    def _turned(self, parent: str, change: Change) -> Steps[bool]:
        def unturned(_: Operation, answer: Any) -> Any:
            return replace(answer, turn=None) if isinstance(answer, Range) else answer

        return (yield from _misheard(super()._turned(parent, change), unturned))


class HeirsAreForgotten(Floors):
    """A halt seals the logs of its base, not those that a run on record may bring."""

    def seal_halted(self, change: Change) -> Steps[Closing | None]:
        known = yield from self.bases(change.stream)
        base, _ = known[-1]
        if base.number >= change.number:
            return None
        for child in base.children:
            yield from self._seal_log(child.unit, change.number)
        return (yield from self.closing(change.stream, base))


class ClosingAtTheFurthest(Floors):
    """A halt goes on where the furthest log had come, not where all had."""

    _closes = False

    def closing(self, stream: str, base: Change) -> Steps[Closing | None]:
        self._closes = True
        try:
            return (yield from super().closing(stream, base))
        finally:
            self._closes = False

    def _ends_of(self, ends: Sequence[set[int]]) -> set[int]:
        return set().union(*ends) if self._closes else super()._ends_of(ends)


class StatedBirth(Floors):
    """A child of a halt begins where its parents' inputs were when somebody looked."""

    def _birth_after_closing(self, stream: str, change: Change) -> Steps[Any]:
        born = yield from super()._birth_after_closing(stream, change)
        if isinstance(born, Birth):
            return replace(born, epoch=born.epoch + 1)
        return born


class LoserGoesOn(Floors):
    """A change that lost its number to another is put at the next one."""

    def decide(self, change: Change) -> Steps[bool]:
        if (yield from super().decide(change)):
            return True
        number = change.number + 1
        children = tuple(
            replace(child, unit=unit_name(change.stream, number, shard))
            for shard, child in enumerate(change.children)
        )
        return (yield from super().decide(replace(change, number=number, children=children)))


class OwnChangesOnly(Floors):
    """A change is carried out by the coordinator that decided it, and by nobody else."""

    def place_turns(self, change: Change) -> Steps[None]:
        if change.writer == self.writer:
            yield from super().place_turns(change)

    def seal_halted(self, change: Change) -> Steps[Closing | None]:
        if change.writer == self.writer:
            return (yield from super().seal_halted(change))
        return None


class ClosedByOne(Floors):
    """A closing is put by the coordinator that decided the halt, and by nobody else."""

    def _goes_on_with(self, stream: str, base: Change, named: int) -> Steps[Change | None]:
        following = yield from super()._goes_on_with(stream, base, named)
        return following if following and following.writer == self.writer else None


class OwnRangeCounts(Floors):
    """One who wanted to record a range runs it, whatever is on record."""

    def _propose(self, unit: str, position: Position, *rest: Any) -> Steps[Range | Turn | None]:
        steps = super()._propose(unit, position, *rest)
        mine: Range | None = None
        try:
            operation = next(steps)
            while True:
                if isinstance(operation, Put) and isinstance(operation.record, Range):
                    mine = operation.record
                operation = steps.send((yield operation))
        except StopIteration as done:
            return mine if isinstance(done.value, Range) and mine is not None else done.value


class PublishedPastASeal(Floors):
    """One who finds a seal in the place of its slice goes on all the same."""

    def publish(self, item: Slice) -> Steps[Published]:
        told = yield from super().publish(item)
        return "adopted" if told == "sealed" else told


class OvertakenIsBorn(Floors):
    """The children of a change that a later one has overtaken run as well."""

    def birth(self, unit: str) -> Steps[Any]:
        born = yield from super().birth(unit)
        if born != "void":
            return born
        stream = stream_of(unit)
        change = yield from self.change(stream, change_of(unit))
        if change.how == "halt":
            known = yield from self.bases(stream)
            ends = [item.end for _, item in known if item and item.next > change.number]
            return Birth(epoch=min(ends))
        log = yield from self.log(change.parents[0], None)
        return Birth(epoch=log.slices[-1].upto if log.slices else -1)


class CommonEndIsForgotten(Floors):
    """A unit keeps the newest few batches, however far it is ahead of the logs beside it."""

    def common_end(self, unit: str) -> Steps[int]:
        yield Newest(ranges(unit))
        return 1 << 30


class OverAtOnce(Floors):
    """A sealed unit whose slices are trimmed is over, whether its heirs have begun or not."""

    def _has_begun(self, unit: str) -> Steps[bool]:
        yield Newest(ranges(unit))
        return True


class AnyRepair(Floors):
    """A repair is taken as it is, whatever its digest."""

    def repair(
        self, item: Slice, files: Mapping[str, tuple[Any, ...]], digest: str, *, number: int
    ) -> Steps[Repaired]:
        del digest
        return (yield from super().repair(item, files, item.digest, number=number))


class LeftUnitsHaveState(Floors):
    """The state of a unit that was left is asked of it, whether it has taken it over or not."""

    _asks = False

    def _birth_after_closing(self, stream: str, change: Change) -> Steps[Any]:
        self._asks = True
        try:
            return (yield from super()._birth_after_closing(stream, change))
        finally:
            self._asks = False

    def has_state(self, unit: str) -> Steps[bool]:
        return (yield from super().has_state(unit)) or self._asks


class IdleUnitsHaveNone(LeftUnitsHaveState):
    """The state of a unit that was left before it published is asked of those before it."""

    def has_state(self, unit: str) -> Steps[bool]:
        seal = yield from self.seal_of(unit)
        if self._asks and seal is not None and seal.number == 0:
            return False
        return (yield from super().has_state(unit))


class OverWhereItHandedOver(Floors):
    """State that was handed over is dropped, though the stream may be left just there."""

    _asks = False

    def is_over(self, unit: str) -> Steps[bool]:
        self._asks = True
        try:
            return (yield from super().is_over(unit))
        finally:
            self._asks = False

    def common_end(self, unit: str) -> Steps[int]:
        end = yield from super().common_end(unit)
        return 1 << 30 if self._asks else end


class TrimmedEndsAreNone(Floors):
    """Where a log has ended is forgotten with its last slice."""

    def _whole_log(self, unit: str) -> Steps[Log]:
        return replace((yield from super()._whole_log(unit)), trimmed=None)


class OverBeforeItIsRead(Floors):
    """A unit that has handed over is over, whether what it published is read or not."""

    def is_over(self, unit: str) -> Steps[bool]:
        def all_read(operation: Operation, answer: Any) -> Any:
            return Floor(number=1 << 30) if operation == GetFloor(slices(unit)) else answer

        return (yield from _misheard(super().is_over(unit), all_read))


class AnyReplay(Floors):
    """A batch that is run again for its state is taken as it is, whatever it gave."""

    def check_replay(self, unit: str, batch: int, digest: str) -> Steps[None]:
        del digest
        yield Get(slices(unit), batch)


class LargestWatermark(Floors):
    """A batch takes the watermark of the log that promises most."""

    def _watermark_at(self, inputs: Sequence[str], after: int, end: int) -> Steps[int | None]:
        found: list[int] = []
        for stream in inputs:
            items = yield from self.read(stream, after, end)
            found += [
                item.watermark_us
                for item in items
                if item.upto == end and item.watermark_us is not None
            ]
        return max(found, default=None)


class HeirsKnowNoWatermark(Floors):
    """A seal says nothing of the watermark."""

    def birth(self, unit: str) -> Steps[Any]:
        born = yield from super().birth(unit)
        return replace(born, watermark_us=None) if isinstance(born, Birth) else born


class NewestIsTrimmed(Floors):
    """What is read goes, also the newest slice of a log."""

    def __init__(self, *words: Any, keep_newest: bool = False, **options: Any) -> None:
        del keep_newest
        super().__init__(*words, **options)


class OverBeforeItIsClosed(Floors):
    """A unit that a halt has sealed is over at once, whether its stream is closed or not."""

    def is_over(self, unit: str) -> Steps[bool]:
        over = yield from super().is_over(unit)
        seal = yield from self.seal_of(unit)
        if over or seal is None or seal.how != "halt":
            return over
        base = yield from self._base_of(unit)
        closed = yield from self.find_closing(stream_of(unit), base.number)
        floor: Floor = yield GetFloor(slices(unit))
        return closed is None and floor.number >= seal.number
