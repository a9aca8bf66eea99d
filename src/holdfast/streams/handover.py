"""Where a unit ends and where its heirs begin.

A `run` change is carried out by turns. A *turn* takes the next number in a parent's sequence of
ranges, so either the range or the turn is there; anyone may put it. The *handover epoch* is the
largest end before a turn: no parent can have gone beyond it, and those behind run on to exactly
that end. A parent that has committed the batch which ends there seals its log.

A `halt` change seals every log where it is; the stream goes on after the last end they have in
common. Births follow from these records, so two coordinators cannot give a unit two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from holdfast.streams.reading import ProtocolError, Reading, TrimmedError
from holdfast.streams.records import (
    Change,
    Child,
    Closing,
    Floor,
    Range,
    Restart,
    Seal,
    Turn,
    change_of,
    least_known,
    stream_of,
)
from holdfast.streams.steps import (
    RESTARTS,
    Delete,
    Get,
    GetFloor,
    Newest,
    Put,
    Steps,
    changes,
    ranges,
    slices,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """Where a unit begins."""

    epoch: int
    """It reads its inputs after this epoch."""
    parents: tuple[tuple[str, int], ...] = ()
    """Units whose state it takes over, each with the batch that has it; -1: that of its birth."""
    watermark_us: int | None = None
    """Of the inputs at that epoch, as the parents knew it."""
    shared: bool = False
    """The state of its parents at these batches may have to be made: they published and died before
    they had committed. Clone the newest commit before, and run the recorded batches again."""


NotYet: TypeAlias = Literal["not yet"]
Void: TypeAlias = Literal["void"]
"""The change was overtaken: its units never run."""


class Handover(Reading):
    """Turns, halts, seals and births."""

    def __init__(self, writer: str = "") -> None:
        super().__init__(writer)
        self._restarts: dict[int, Restart] = {}
        self._carried_out: set[int] = set()

    # Who

    def child(self, unit: str) -> Steps[Child]:
        """The unit as the change that made it says."""
        change = yield from self.change(stream_of(unit), change_of(unit))
        return next(child for child in change.children if child.unit == unit)

    def carriers(self, stream: str) -> Steps[list[Child]]:
        """Who carries the stream once all changes on record are carried out."""
        now: list[Child] = []
        for change in (yield from self.changes_of(stream)):
            if change.how == "halt":
                now = list(change.children)
            else:
                now = [child for child in now if child.unit not in change.parents]
                now += change.children
        return now

    def standing(self, stream: str, *, turned: bool) -> Steps[list[Child]]:
        """Who carries the stream as long as no change that is only asked for goes on.

        That is one whose children have no state. With `turned`, its parents have not turned either:
        nothing has come of it.
        """
        now: list[Child] = []
        for change in (yield from self.changes_of(stream)):
            if change.how == "halt":
                now = list(change.children)
            elif (yield from self._is_begun(change, {child.unit for child in now}, turned=turned)):
                now = [child for child in now if child.unit not in change.parents]
                now += change.children
        return now

    def _is_begun(self, change: Change, there: set[str], *, turned: bool) -> Steps[bool]:
        if not change.parents:
            return True
        if not there.issuperset(change.parents):
            return False
        for child in change.children:
            if (yield from self.has_state(child.unit)):
                return True
        for parent in change.parents if turned else ():
            if (yield from self.turn_of(parent)) or (yield from self.seal_of(parent)):
                return True
        return False

    def passes_back(self, unit: str) -> Steps[bool]:
        """Whether a unit lies between some that ran and such as have their state as those had.

        It is to hand over before it has run a batch, so how its own state lies does not matter.
        True for good: records are only added.
        """
        known = yield from self.changes_of(stream_of(unit))
        number = change_of(unit)
        after, heirs = {unit}, set[int | None]()
        for change in known[number + 1 :]:
            if not after.isdisjoint(change.parents):
                after |= {child.unit for child in change.children}
                heirs |= {child.of for child in change.children}
        before = [unit]
        for change in reversed(known[: number + 1]):
            if any(child.unit in before for child in change.children):
                before += change.parents
        for one in before[1:]:
            found = yield from self.child(one)
            if found.of in heirs and (yield from self.has_state(one)):
                return True
        return False

    def birth(self, unit: str) -> Steps[Birth | NotYet | Void]:
        """Where a unit begins, as far as the records say."""
        stream = stream_of(unit)
        change = yield from self.change(stream, change_of(unit))
        if change.restart is not None and not (yield from self.is_carried_out(change.restart)):
            return "not yet"
        if change.how == "halt" and change.number > 0:
            return (yield from self._birth_after_closing(stream, change))
        if not change.parents:
            return _stated_birth(change)
        parents, ends, watermarks = [], set(), []
        for parent in change.parents:
            seal = yield from self.seal_of(parent)
            if seal is None:
                return "not yet"
            if seal.how == "halt" or seal.end is None or seal.batch is None:
                return "void"
            if seal.change != change.number:
                raise ProtocolError(
                    f"{unit}: {parent} handed over to change {seal.change} of stream {stream}"
                )
            parents.append((parent, seal.batch))
            ends.add(seal.end)
            watermarks.append(seal.watermark_us)
        if len(ends) != 1:
            raise ProtocolError(f"{unit}: its parents ended at {sorted(ends)}, not at one epoch")
        return Birth(epoch=ends.pop(), parents=tuple(parents), watermark_us=least_known(watermarks))

    def birth_epoch(self, unit: str) -> Steps[int | None]:
        """The epoch after which a unit begins; None: not known, or it never does.

        Known for good, while the batches of those whose state it takes over are forgotten once it
        has begun.
        """
        stream = stream_of(unit)
        change = yield from self.change(stream, change_of(unit))
        if change.how == "halt" and change.shared:
            closing = closing_into((yield from self.bases(stream)), change.number)
            return None if closing is None else closing.end
        born = yield from self.birth(unit)
        return born.epoch if isinstance(born, Birth) else None

    def _birth_after_closing(self, stream: str, change: Change) -> Steps[Birth | NotYet | Void]:
        known = yield from self.bases(stream)
        mine = closing_into(known, change.number)
        if mine is None:
            passed = any(closing and closing.next > change.number for _, closing in known)
            return "void" if passed else "not yet"
        if change.start is not None or change.since is not None:
            return _stated_birth(change)
        if not change.shared:
            return Birth(epoch=mine.end)
        before = next(base for base, closing in known if closing == mine)
        parents = yield from self.owners(stream, before, mine.end)
        if len(parents) == 1 and not (yield from self.has_state(parents[0][0])):
            # Left before it had taken over what was to be its own: that is still where it was.
            born = yield from self.birth(parents[0][0])
            if isinstance(born, Birth) and born.parents:
                return replace(born, epoch=mine.end, shared=True)
        marks: dict[int | str, int | None] = {}
        for parent, batch in parents:
            # Units of one change that have run nothing were born alike: one of them is asked, or
            # changes that follow each other quickly would each double the questions.
            alike = parent if batch >= 0 else change_of(parent)
            if alike not in marks:
                marks[alike] = yield from self._left_behind(parent, batch)
        promised = least_known([*marks.values()])
        return Birth(epoch=mine.end, parents=tuple(parents), watermark_us=promised, shared=True)

    def find_recorded(self, unit: str, batch: int) -> Steps[Range | None]:
        """The range of a batch, if it is on record."""
        item = yield Get(ranges(unit), batch)
        number = batch
        if isinstance(item, Turn) or (isinstance(item, Range) and item.turn is not None):
            # The turn took a number: from there on batch n has range n + 1.
            number = batch + 1
            item = yield Get(ranges(unit), number)
        if not isinstance(item, Range):
            return None
        floor = yield from self.floor_now(ranges(unit))
        return None if number < floor.number else item

    def _left_behind(self, unit: str, batch: int) -> Steps[int | None]:
        """The watermark of a unit's inputs after a batch; -1: that of its birth."""
        seal = yield from self.seal_of(unit)
        if seal is not None and seal.how == "run" and seal.batch == batch:
            return seal.watermark_us
        if batch < 0:
            born = yield from self.birth(unit)
            return born.watermark_us if isinstance(born, Birth) else None
        record = yield from self.find_recorded(unit, batch)
        return None if record is None else record.watermark_us

    def has_state(self, unit: str) -> Steps[bool]:
        """Whether a unit has a state of its own: it records a range, or hands over, only then."""
        seal = yield from self.seal_of(unit)
        if seal is not None and seal.how == "run":
            return True
        newest = yield Newest(ranges(unit))
        if newest > 0:
            return True
        floor: Floor = yield GetFloor(ranges(unit))
        return floor.number > 0 or (
            newest == 0 and isinstance((yield Get(ranges(unit), newest)), Range)
        )

    def find_restart(self, number: int) -> Steps[Restart | None]:
        """A restart if it is on record."""
        known = self._restarts.get(number)
        if known is None:
            known = yield Get(RESTARTS, number)
            if known is not None:
                self._restarts[number] = known
        return known

    def part_of(self, restart: int, stream: str) -> Steps[Change | None]:
        """The change of a stream that belongs to a restart, once it is on record."""
        known = yield from self.changes_of(stream)
        return next((change for change in known if change.restart == restart), None)

    def is_carried_out(self, number: int) -> Steps[bool]:
        """Whether every stream of a restart has been changed, and left the logs before."""
        if number in self._carried_out:
            return True
        record = yield from self.find_restart(number)
        if record is None:
            raise TrimmedError(f"restart {number} is not on record")
        for asked in record.changes:
            change = yield from self.part_of(number, asked.stream)
            if change is None:
                return False
            base, _ = (yield from self.bases(asked.stream))[-1]
            if base.number < change.number:
                return False
        self._carried_out.add(number)
        return True

    def owners(self, stream: str, base: Change, end: int) -> Steps[list[tuple[str, int]]]:
        """The units that have the state of a closed base at its end, each with the batch."""
        found: list[tuple[str, int]] = []
        left = [child.unit for child in base.children]
        seen = set(left)
        while left:
            unit = left.pop()
            seal = yield from self.seal_of(unit)
            if seal is None:
                raise ProtocolError(f"{unit}: its stream was closed and it is not sealed")
            if seal.how == "run" and seal.end is not None and seal.end < end:
                following = yield from self.change(stream, seal.change)
                left += [child.unit for child in following.children if child.unit not in seen]
                seen.update(left)
            elif seal.how == "run" and seal.end == end and seal.batch is not None:
                found.append((unit, seal.batch))
            else:
                found.append((unit, (yield from self.batch_at(unit, end))))
        return found

    def batch_at(self, unit: str, end: int) -> Steps[int]:
        """The batch of a unit that ended at an epoch; -1: it was born there."""
        number: int = yield Newest(ranges(unit))
        while number >= 0:
            item = yield Get(ranges(unit), number)
            if isinstance(item, Range):
                if item.upto == end:
                    return number if item.turn is None else number - 1
                if item.upto < end:
                    break
            elif item is None:
                floor = yield from self.floor_now(ranges(unit))
                if number < floor.number:
                    raise TrimmedError(f"{unit}: its batch that ended at {end} is gone")
            number -= 1
        if number < 0:
            return -1
        raise ProtocolError(f"{unit}: no batch has ended at {end}")

    # Turns

    def place_turns(self, change: Change) -> Steps[None]:
        """See that every parent of a `run` has turned or is sealed; anyone may, and again."""
        for parent in change.parents:
            while not (yield from self._turned(parent, change)):
                pass

    def _turned(self, parent: str, change: Change) -> Steps[bool]:
        if (yield from self.seal_of(parent)) is not None:
            return True
        if (yield from self.turn_of(parent)) is not None:
            return True
        folder = ranges(parent)
        newest = yield Newest(folder)
        before = (yield Get(folder, newest)) if newest >= 0 else None
        if newest >= 0 and not isinstance(before, Range):
            return False  # trimmed meanwhile, or a turn after all: look again
        if isinstance(before, Range) and before.turn is not None:
            return False  # it has turned and gone on since the look: a second turn would hold it
        turn = Turn(
            unit=parent,
            number=newest + 1,
            change=change.number,
            end=before.upto if isinstance(before, Range) else None,
            writer=self.writer,
        )
        stored = yield Put(folder, turn.number, turn)
        counts = yield from self.counts(folder, turn.number, mine=stored == turn)
        return bool(counts and stored == turn)

    def counts(self, folder: str, number: int, *, mine: bool) -> Steps[bool]:
        """Whether what was put is above the floor, looked at now; else it does not exist."""
        floor = yield from self.floor_now(folder)
        if number >= floor.number:
            return True
        if mine:
            yield Delete(folder, number)
        return False

    def handover_epoch(self, stream: str, number: int) -> Steps[int | None]:
        """The largest end before a turn; None until every parent has one."""
        change = yield from self.change(stream, number)
        ends = []
        for parent in change.parents:
            turn = yield from self.turn_of(parent)
            if turn is None:
                return None
            end = turn.end
            if end is None:
                end = yield from self.birth_epoch(parent)
                if end is None:
                    return None
            ends.append(end)
        return self._handover_of(ends)

    def _handover_of(self, ends: Sequence[int]) -> int:
        """Where all parents hand over, given where each stood when it turned."""
        return max(ends)

    # Seals

    def seal_halted(self, change: Change) -> Steps[Closing | None]:
        """Seal all that carries the stream before a `halt`; gives the closing once it is there."""
        stream = change.stream
        while True:
            known = yield from self.bases(stream)
            base, _ = known[-1]
            if base.number >= change.number:
                return next(
                    (item for _, item in known if item and item.next >= change.number), None
                )
            # Also children of changes whose parents are not sealed: they may be at any moment.
            units = [child.unit for child in base.children]
            for other in (yield from self.changes_of(stream)):
                if (
                    other.how == "run"
                    and other.parents
                    and base.number < other.number < change.number
                ):
                    units += [child.unit for child in other.children]
            for unit in units:
                yield from self._seal_log(unit, change.number)
            if (yield from self.closing(stream, base)) is None:
                return None

    def _seal_log(self, unit: str, change: int) -> Steps[None]:
        """A seal at the log's next number, wherever that is."""
        folder = slices(unit)
        while True:
            log = yield from self.log(unit, None)
            if log.seal is not None:
                return
            seal = Seal(
                unit=unit, number=log.following, change=change, how="halt", writer=self.writer
            )
            stored = yield Put(folder, seal.number, seal)
            counts = yield from self.counts(folder, seal.number, mine=stored == seal)
            if counts and isinstance(stored, Seal):
                return

    def carry_out(self, stream: str) -> Steps[None]:
        """Do what the changes on record ask for; anyone may, any number of times."""
        for change in (yield from self.changes_of(stream))[1:]:
            if change.how == "run":
                yield from self.place_turns(change)
            else:
                yield from self.seal_halted(change)

    def decide(self, change: Change) -> Steps[bool]:
        """Put a change at its number; False if another came first."""
        stored = yield Put(changes(change.stream), change.number, change)
        return bool(stored == change)


def closing_into(known: Iterable[tuple[Change, Closing | None]], number: int) -> Closing | None:
    """The closing after which the units of a change go on; None: there is none yet."""
    return next((item for _, item in known if item is not None and item.next == number), None)


def _stated_birth(change: Change) -> Birth:
    """Where a unit begins whose change says so."""
    epoch = change.start if change.since is None else change.since
    return Birth(
        epoch=-1 if epoch is None else epoch,
        parents=change.state,
        watermark_us=change.watermark_us,
    )
