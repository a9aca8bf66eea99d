"""Streams that begin anew at a stated epoch: resets, and sinks that are added later.

Problem: an operator that is reset takes along all that read from it, so several streams change at
once, and whoever asks for it may be killed between any two puts. So one record, the *restart*, says
what is to be; from then on it counts, and whoever starts the run next carries it out. None of its
units is born before all of it is. Readers come first: a sealed one delivers no more, so nobody
reads on in a stream that was begun anew without having been begun anew itself.

A restart is asked for while nothing runs, as nobody may trim between the look at what is there and
the put. Its epoch must be an end of everything that is read from outside, be left in the logs, and
not lie before the epoch at which one of these was begun anew itself.

Cost: a walk over the changes of the streams named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.streams.bases import counting_bases
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Change, How, Restart, unit_name
from holdfast.streams.repair import Repairs
from holdfast.streams.steps import RESTARTS, GetFloor, Newest, Put, Steps, slices


def at_number(change: Change, number: int) -> Change:
    """The same change under another number: units are named by it."""
    children = tuple(
        replace(child, unit=unit_name(change.stream, number, shard))
        for shard, child in enumerate(change.children)
    )
    how: How = "halt" if number else "run"
    return replace(change, number=number, how=how, children=children)


class Restarts(Repairs):
    """Deciding and carrying out restarts, and where one may begin."""

    # Deciding

    def decide_restart(
        self,
        changes: Sequence[Change],
        *,
        deployment: Mapping[str, Any] | None = None,
        reason: str = "",
    ) -> Steps[bool]:
        """Put a restart, once those before it are carried out; False if another came first."""
        newest = yield from self.finish_restarts()
        number = newest + 1
        record = Restart(
            number=number,
            changes=tuple(
                replace(change, restart=number, writer=self.writer) for change in changes
            ),
            deployment=deployment,
            reason=reason,
            writer=self.writer,
        )
        stored = yield Put(RESTARTS, number, record)
        return bool(stored == record)

    def finish_restarts(self) -> Steps[int]:
        """Carry out what was decided and maybe left half done; gives the newest number.

        Whoever decides on one has carried out those before it.
        """
        record = yield from self.newest_restart()
        if record is None:
            return -1
        yield from self.carry_out_restart(record)
        return record.number

    def newest_restart(self) -> Steps[Restart | None]:
        newest: int = yield Newest(RESTARTS)
        return (yield from self.find_restart(newest)) if newest >= 0 else None

    def carry_out_restart(self, record: Restart) -> Steps[None]:
        """Put the changes of a restart and leave the logs before them; anyone may, and again."""
        for asked in record.changes:
            while (change := (yield from self.part_of(record.number, asked.stream))) is None:
                known = yield from self.changes_of(asked.stream)
                # Others may have changed the stream since, or carried this out: look again.
                yield from self.decide(at_number(asked, len(known)))
            if change.number:
                yield from self.seal_halted(change)

    # Where it may begin

    def begun_after(self, stream: str) -> Steps[int]:
        """The epoch after which the stream was begun (anew): what was before is another life's."""
        known = yield from self.changes_of(stream)
        started = [change.start for change in known if change.start is not None]
        return started[-1] if started else -1

    def gone_upto(self, stream: str) -> Steps[int]:
        """The newest epoch up to which slices that count are trimmed, or were never there."""
        known = yield from self.bases(stream)
        gone = yield from self.begun_after(stream)
        numbers = [base.number for base, _ in known]
        every = yield from self.changes_of(stream)
        for (base, limit), end in zip(
            counting_bases(known), [*numbers[1:], len(every)], strict=True
        ):
            for change in every[base.number : end]:
                for child in change.children:
                    floor = yield GetFloor(slices(child.unit))
                    gone = max(gone, floor.epoch if limit is None else min(floor.epoch, limit))
        return gone

    def is_whole(self, stream: str, after: int) -> Steps[bool]:
        """Whether everything that counts after an epoch is there to be read.

        In all logs, whoever carried them on: each is trimmed at its own time, a later one maybe
        before an earlier one.
        """
        return after >= (yield from self.gone_upto(stream))

    def is_end(self, stream: str, epoch: int) -> Steps[bool]:
        """Whether all logs that carry a stream at an epoch have ended a slice there."""
        if epoch == (yield from self.begun_after(stream)):
            return True
        try:
            if epoch in (yield from self.ends(stream, epoch - 1, epoch)):
                return True
        except TrimmedError:
            # Of a log that ends there, nothing need be left but its floor; others may carry it on.
            base, _ = yield from self._base_at(stream, epoch - 1)
            if epoch in (yield from self._common(stream, base, None)):
                return True
        units = [child.unit for child in (yield from self.carriers(stream))]
        for unit in units:
            if not (yield from self._ended_at(unit, epoch)):
                return False
        return bool(units)

    def _ended_at(self, unit: str, epoch: int) -> Steps[bool]:
        """Whether a log has ended a slice at an epoch, trimmed or not, or begins there."""
        if (yield from self.birth_epoch(unit)) == epoch:
            return True
        floor = yield GetFloor(slices(unit))
        if floor.epoch >= epoch:
            return bool(floor.epoch == epoch)
        try:
            found = (yield from self.log(unit, epoch - 1, epoch)).slices
        except TrimmedError:
            return False
        return bool(found) and found[0].upto == epoch

    def first_whole_epoch(self, streams: Sequence[str]) -> Steps[int | None]:
        """The first epoch from which on all streams are there, ended cleanly; None: none.

        That is one past the first end of all of them after which nothing is gone.
        """
        after = -1
        for stream in streams:
            after = max(after, (yield from self.gone_upto(stream)))
        if after < 0 or (yield from self.may_begin_at(streams, after + 1)):
            return after + 1
        found = yield from self.common_ends(streams, after)
        return found[0] + 1 if found else None

    def may_begin_at(self, streams: Sequence[str], epoch: int) -> Steps[bool]:
        """Whether an epoch is the first after an end of all streams, with all after it there."""
        for stream in streams:
            if epoch > 0 and not (yield from self.is_end(stream, epoch - 1)):
                return False
            if not (yield from self.is_whole(stream, epoch - 1)):
                return False
        return True

    def may_take_over(self, since: int, upto: int, *, quarantines: bool) -> bool:
        """Whether others may go on from state at one epoch, where results go up to another.

        Not if they would run batches again that may leave rows out: the same ones would have to be,
        and which they are is on record by their place in a batch of the old unit.
        """
        return since >= upto or not quarantines
