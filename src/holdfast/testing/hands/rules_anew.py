"""Decisions at a start, what begins anew and who takes over, each with one rule switched off."""

from __future__ import annotations

from holdfast.streams.floors import Floors
from holdfast.streams.records import Change, Restart, change_of, stream_of
from holdfast.streams.restart import at_number
from holdfast.streams.steps import RESTARTS, Get, Newest, Steps, changes, ranges


class CutOvertakesRestart(Floors):
    """A stream goes on with the change that its seals name, whatever restart was before that."""

    def _goes_on_with(self, stream: str, base: Change, named: int) -> Steps[Change | None]:
        del base
        return (yield from self.find_change(stream, named))


class BornBeforeTheOthers(Floors):
    """A unit that begins anew is born as soon as its own stream has been changed."""

    def is_carried_out(self, number: int) -> Steps[bool]:
        yield Get(RESTARTS, number)
        return True


class OlderLogsCount(Floors):
    """A stream that is begun anew voids what the logs just before it hold, and no others."""

    def _base_at(self, stream: str, after: int) -> Steps[tuple[Change, int | None]]:
        known = yield from self.bases(stream)
        ends = [(base, None if closing is None else closing.end) for base, closing in known]
        return next(found for found in ends if found[1] is None or found[1] > after)

    def _limit(self, stream: str, base: Change) -> Steps[int | None]:
        closing = yield from self.find_closing(stream, base.number)
        return None if closing is None else closing.end


class TrimmedIsWhole(Floors):
    """Nobody looks whether what a reset would read is there."""

    def is_whole(self, stream: str, after: int) -> Steps[bool]:
        return after >= (yield from self.begun_after(stream))


class EveryEpochIsAnEnd(Floors):
    """A reset may begin in the middle of a slice."""

    def is_end(self, stream: str, epoch: int) -> Steps[bool]:
        return epoch <= (yield from self.last_end(stream))


class HeirsRunOnFreely(Floors):
    """Units that take over state end their batches anywhere, also across where they carry on."""

    def _stops(self, unit: str) -> Steps[tuple[int, ...]]:
        yield Newest(ranges(unit))
        return ()


class LeftOutRowsComeBack(Floors):
    """Who takes over runs batches again, whatever rows they may leave out."""

    def may_take_over(self, since: int, upto: int, *, quarantines: bool) -> bool:
        del since, upto, quarantines
        return True


class TakenOverAtOnce(Floors):
    """Units that a restart has ended are over, whether those who take over have begun or not."""

    def is_taken_over(self, unit: str) -> Steps[bool]:
        yield Newest(ranges(unit))
        return True


class HeirsOfHeirsRunOnFreely(Floors):
    """Units that take over state hand over on their way, and nobody meets the end any more."""

    def _stops(self, unit: str) -> Steps[tuple[int, ...]]:
        made = yield from self.find_change(stream_of(unit), change_of(unit))
        if made is not None and made.parents:
            return ()
        return (yield from super()._stops(unit))


class ClosedBeforeItsStart(Floors):
    """Units that take over state are left on their way, at an end before the one they carry on."""

    def _left_at(self, common: set[int], start: int) -> int:
        return max(common, default=start)


class OtherLivesCount(Floors):
    """A reset may begin before its input was itself begun anew."""

    def begun_after(self, stream: str) -> Steps[int]:
        yield Get(changes(stream), 0)
        return -1


class OwnRestartsOnly(Floors):
    """A restart is carried out by the one who decided it, and by nobody else."""

    def carry_out_restart(self, record: Restart) -> Steps[None]:
        if record.writer == self.writer:
            yield from super().carry_out_restart(record)


class OneNumberOnly(Floors):
    """A restart's change whose number was taken meanwhile is dropped."""

    def carry_out_restart(self, record: Restart) -> Steps[None]:
        for asked in record.changes:
            change = yield from self.part_of(record.number, asked.stream)
            if change is None and (yield from self.decide(at_number(asked, asked.number))):
                change = yield from self.part_of(record.number, asked.stream)
            if change is not None and change.number:
                yield from self.seal_halted(change)
