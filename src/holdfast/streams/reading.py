"""Reading a stream through whatever carries it.

An *end* of a stream is an epoch at which all logs that carry it there have ended a slice. Ends
follow from immutable records, so everyone computes the same ones, and every end is a consistent
cut: batches end at ends, and nobody ever reads beyond the last one.

A `run` change hangs on the seals of its parents: behind a sealed log its children go on. A `halt`
begins a new *base*: the stream up to the closing's end is what the old base's logs have in common,
after it what the new base's children publish.

What a record says never changes, so one who has read it need not read it again: changes, closings,
seals and turns are remembered, and so are the slices after one's position. Only whether something
is there at all is asked anew. Cost: every slice is read once, and none far beyond the horizon that
is asked for; where in a log a position is, is found by halving.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from holdfast.errors import HoldfastError
from holdfast.streams.bases import counting_bases, start_of
from holdfast.streams.records import (
    Change,
    Closing,
    Floor,
    Range,
    Seal,
    Slice,
    Turn,
    stream_of,
)
from holdfast.streams.steps import (
    Get,
    GetFloor,
    Newest,
    Put,
    Steps,
    changes,
    closings,
    ranges,
    slices,
)
from holdfast.streams.tails import Log, Tail

Walk: TypeAlias = dict[int, set[int]]
"""Changes that one walk has come by, with the ends found behind them."""


class TrimmedError(HoldfastError):
    """What a reader needs is gone: a newer one went on, or it was asked for too late."""


class ProtocolError(HoldfastError):
    """The records contradict each other: somebody broke the rules."""


class Reading:
    """Finds ends and slices; `writer` names who puts the closings found on the way."""

    def __init__(self, writer: str = "") -> None:
        self.writer = writer
        self._changes: dict[tuple[str, int], Change] = {}
        self._closings: dict[tuple[str, int], Closing] = {}
        self._seals: dict[str, Seal] = {}
        self._turns: dict[str, Turn] = {}
        self._tails: dict[str, Tail] = {}
        self._ran_out: dict[str, tuple[int, int]] = {}
        """Logs of which all is read, and that go on: how far they reach, and their next number."""
        self._recent: dict[str, tuple[int, int, list[Slice]]] = {}
        """By stream, the last range that was read: its bounds, and what it holds."""
        self._last_ends: dict[tuple[str, int], int] = {}
        """By stream and base: one that is begun anew may end earlier than the one before."""

    # Changes

    def change(self, stream: str, number: int) -> Steps[Change]:
        """A change that must be there, as a record names it."""
        found = yield from self.find_change(stream, number)
        if found is None:
            raise TrimmedError(f"change {number} of stream {stream} is not on record")
        return found

    def find_change(self, stream: str, number: int) -> Steps[Change | None]:
        """A change if it is on record."""
        known = self._changes.get((stream, number))
        if known is None:
            known = yield Get(changes(stream), number)
            if known is not None:
                self._changes[stream, number] = known
        return known

    def find_closing(self, stream: str, number: int) -> Steps[Closing | None]:
        """The closing of a base if it is on record."""
        known = self._closings.get((stream, number))
        if known is None:
            known = yield Get(closings(stream), number)
            if known is not None:
                self._closings[stream, number] = known
        return known

    def changes_of(self, stream: str) -> Steps[list[Change]]:
        """All changes on record, in order."""
        found: list[Change] = []
        while (item := (yield from self.find_change(stream, len(found)))) is not None:
            found.append(item)
        return found

    def bases(self, stream: str) -> Steps[list[tuple[Change, Closing | None]]]:
        """The changes whose logs have carried the stream from a closing on, with their own."""
        found: list[tuple[Change, Closing | None]] = []
        number: int | None = 0
        while number is not None:
            base = yield from self.change(stream, number)
            closing = yield from self.find_closing(stream, number)
            found.append((base, closing))
            number = closing.next if closing else None
        return found

    # One unit's sequences

    def floor_now(self, folder: str) -> Steps[Floor]:
        """Looked at after a put or a find: what lies below it does not exist."""
        floor: Floor = yield GetFloor(folder)
        return floor

    def log(self, unit: str, after: int | None, horizon: int | None = None) -> Steps[Log]:
        """The slices of a unit after an epoch, or all that are kept.

        With a horizon, they need not go beyond the first that ends there or later.
        """
        if after is None:
            return (yield from self._whole_log(unit))
        folder = slices(unit)
        while True:
            tail = yield from self._tail(unit, after)
            number = first = tail.following
            found: list[Slice] = []
            seal: Seal | None = None
            looked = not tail.reaches(horizon)
            ended = not looked
            while not ended:
                item = yield Get(folder, number)
                if isinstance(item, Slice):
                    # One who was away finds older ones first, which others have read meanwhile.
                    found += [item] if item.upto > after else []
                    number += 1
                    ended = horizon is not None and item.upto >= max(horizon, after + 1)
                else:
                    seal, ended = item, True
            # Trimmed while we read: a gap looks like the end, and what a sleeper puts into it
            # looks like a slice or a seal.
            if looked and (yield from self.floor_now(folder)).number > first:
                del self._tails[unit]
                continue
            tail.items += found
            tail.following, tail.seal = number, seal or tail.seal
            if tail.seal is not None:
                self._seals[unit] = tail.seal
            return Log(slices=tuple(tail.items), seal=tail.seal, following=number)

    def _tail(self, unit: str, after: int) -> Steps[Tail]:
        """What is known of a log after an epoch; found anew by one who goes back."""
        tail = self._tails.get(unit)
        if tail is not None and tail.after <= after:
            tail.drop(after)
            return tail
        folder = slices(unit)
        while True:
            floor: Floor = yield GetFloor(folder)
            if floor.epoch > after:
                raise TrimmedError(f"{unit}: slices up to {floor.epoch} are gone, {after} is read")
            number = yield from self._first_after(folder, floor.number, after)
            if (yield from self.floor_now(folder)).number <= floor.number:
                tail = self._tails[unit] = Tail(after=after, following=number)
                return tail

    def _first_after(self, folder: str, low: int, after: int) -> Steps[int]:
        """The number of the first slice that ends after an epoch, or of what follows the last."""
        high, stride = low, 1
        while isinstance(item := (yield Get(folder, high)), Slice) and item.upto <= after:
            low = high + 1
            high += stride
            stride *= 2
        while low < high:
            middle = (low + high) // 2
            item = yield Get(folder, middle)
            if isinstance(item, Slice) and item.upto <= after:
                low = middle + 1
            else:
                high = middle
        return low

    def _note_end(self, unit: str, horizon: int | None) -> None:
        """Remember a log that ended before the horizon; it may go on at any moment."""
        tail = self._tails[unit]
        reached = tail.items[-1].upto if tail.items else tail.after
        # One that was born beyond the horizon has not run out before it: others may go on there.
        if tail.seal is None and (horizon is None or reached < horizon):
            self._ran_out[unit] = (reached, tail.following)

    def wanted(self) -> list[tuple[str, int]]:
        """Folders and numbers of what must appear before there can be another end.

        Of all logs that were read to where they stand now, those that reach least far.
        """
        least = min((reached for reached, _ in self._ran_out.values()), default=0)
        return [
            (slices(unit), number)
            for unit, (reached, number) in self._ran_out.items()
            if reached == least
        ]

    def _whole_log(self, unit: str) -> Steps[Log]:
        folder = slices(unit)
        while True:
            floor: Floor = yield GetFloor(folder)
            number, found, seal = floor.number, [], None
            while (item := (yield Get(folder, number))) is not None:
                if isinstance(item, Seal):
                    seal = item
                    break
                found.append(item)
                number += 1
            if (yield from self.floor_now(folder)).number <= floor.number:
                if seal is not None:
                    self._seals[unit] = seal
                trimmed = floor.epoch if floor.number else None
                return Log(slices=tuple(found), seal=seal, following=number, trimmed=trimmed)

    def seal_of(self, unit: str) -> Steps[Seal | None]:
        """A log's seal; nothing is ever published past it, so it is the newest."""
        if unit in self._seals:
            return self._seals[unit]
        number = yield Newest(slices(unit))
        if number < 0:
            return None
        item = yield Get(slices(unit), number)
        if not isinstance(item, Seal):
            return None
        floor = yield from self.floor_now(slices(unit))
        if number < floor.number:
            return None
        self._seals[unit] = item
        return item

    def turn_of(self, unit: str) -> Steps[Turn | None]:
        """A unit's turn; every range after it names it."""
        if unit in self._turns:
            return self._turns[unit]
        number = yield Newest(ranges(unit))
        if number < 0:
            return None
        item = yield Get(ranges(unit), number)
        if isinstance(item, Range) and item.turn is not None:
            number = item.turn
            item = yield Get(ranges(unit), number)
        if not isinstance(item, Turn):
            return None
        floor = yield from self.floor_now(ranges(unit))
        if number < floor.number:
            return None
        self._turns[unit] = item
        return item

    def _log_after(self, unit: str, after: int | None, horizon: int | None) -> Steps[Log]:
        """The same as `log`, at no cost if the log is known to have ended before."""
        seal = self._seals.get(unit)
        if after is not None and seal is not None and seal.end is not None and seal.end <= after:
            return Log(slices=(), seal=seal, following=seal.number)
        return (yield from self.log(unit, after, horizon))

    # Ends

    def ends(self, stream: str, after: int, horizon: int | None = None) -> Steps[list[int]]:
        """The stream's ends after an epoch, in order, as far as it is published.

        With a horizon, all there are up to it, and some of those behind.
        """
        base, _ = yield from self._base_at(stream, after)
        found: list[int] = []
        while True:
            common = yield from self._common(stream, base, after, horizon=horizon)
            # All logs that were read to a seal are known by it; one that goes on has none.
            ended = all(child.unit in self._seals for child in base.children)
            closing = (yield from self.closing(stream, base)) if ended else None
            if closing is None:
                return [*found, *sorted(common)]
            limit = yield from self._limit(stream, base)
            found += sorted(end for end in common if limit is None or end <= limit)
            base = yield from self.change(stream, closing.next)
            after = max(after, closing.end if limit is None else limit)

    def last_end(self, stream: str) -> Steps[int]:
        """The newest end, or where the stream's present logs began."""
        known = yield from self.bases(stream)
        base, _ = known[-1]
        start = start_of(known)
        # It only rises, so one who has looked before reads on from there.
        before = self._last_ends.get((stream, base.number))
        try:
            after = None if before is None else max(before, start)
            common = yield from self._common(stream, base, after)
        except TrimmedError:
            common = yield from self._common(stream, base, None)
        found = max([*common, start, -1 if before is None else before])
        self._last_ends[stream, base.number] = found
        return found

    def common_ends(
        self, streams: Iterable[str], after: int, horizon: int | None = None
    ) -> Steps[list[int]]:
        """Ends that several streams share."""
        self._ran_out.clear()
        shared: set[int] | None = None
        for stream in streams:
            found = set((yield from self.ends(stream, after, horizon)))
            shared = found if shared is None else shared & found
        return sorted(shared or ())

    def _base_at(self, stream: str, after: int) -> Steps[tuple[Change, int | None]]:
        """The base that carries a stream after an epoch, and the epoch up to which it counts."""
        known = counting_bases((yield from self.bases(stream)))
        return next(found for found in known if found[1] is None or found[1] > after)

    def _limit(self, stream: str, base: Change) -> Steps[int | None]:
        """The epoch up to which a base counts; None: it goes on."""
        known = counting_bases((yield from self.bases(stream)))
        return next(limit for found, limit in known if found.number == base.number)

    def _common(
        self,
        stream: str,
        change: Change,
        after: int | None,
        seen: Walk | None = None,
        *,
        horizon: int | None = None,
    ) -> Steps[set[int]]:
        """The ends that all children of a change share, and those who follow them."""
        seen = {} if seen is None else seen
        if change.number not in seen:  # as many parents lead to a change as it has
            ends: list[set[int]] = []
            for child in change.children:
                found = yield from self._branch(stream, child.unit, after, seen, horizon)
                ends.append(found)
            seen[change.number] = self._ends_of(ends)
        return seen[change.number]

    def _ends_of(self, ends: Sequence[set[int]]) -> set[int]:
        """The ends of a stream, given those of the logs that carry it."""
        return set.intersection(*ends) if ends else set()

    def _branch(
        self,
        stream: str,
        unit: str,
        after: int | None,
        seen: Walk | None = None,
        horizon: int | None = None,
    ) -> Steps[set[int]]:
        """The ends of a log and of what its seal leads to by `run`."""
        log = yield from self._log_after(unit, after, horizon)
        if after is not None and log.seal is None:
            self._note_end(unit, horizon)
        ends = log.ends()
        if log.seal is not None and log.seal.how == "run":
            following = yield from self.change(stream, log.seal.change)
            from_ = None if after is None else max(after, _end(log.seal))
            ends |= yield from self._common(stream, following, from_, seen, horizon=horizon)
        return ends

    # Closings

    def closing(self, stream: str, base: Change) -> Steps[Closing | None]:
        """Where a base was left, once all its logs are sealed: anyone finds and puts the same."""
        known = yield from self.find_closing(stream, base.number)
        if known is not None:
            return known
        seals = yield from self._last_seals(stream, base)
        if seals is None:
            return None
        # Where nobody carries the stream any more there is nothing to seal.
        named = max((seal.change for seal in seals), default=base.number + 1)
        following = yield from self._goes_on_with(stream, base, named)
        if following is None:
            return None
        end = following.start
        if end is None:
            common = yield from self._common(stream, base, None)
            end = self._left_at(common, start_of((yield from self.bases(stream))))
        stored: Closing = yield Put(
            closings(stream),
            base.number,
            Closing(
                stream=stream,
                number=base.number,
                end=end,
                next=following.number,
                writer=self.writer,
            ),
        )
        self._closings[stream, base.number] = stored
        return stored

    def _left_at(self, common: set[int], start: int) -> int:
        """Of the ends that all logs of a base have, the last one behind where it carries on."""
        return max([end for end in common if end > start], default=start)

    def _goes_on_with(self, stream: str, base: Change, named: int) -> Steps[Change | None]:
        """The change that carries on behind a base whose seals name one.

        Whoever decides on a later one may be the first to seal. A restart before it counts all the
        same: the other streams of the restart are begun anew as well.
        """
        for number in range(base.number + 1, named):
            passed = yield from self.find_change(stream, number)
            if passed is not None and passed.restart is not None:
                return passed
        return (yield from self.find_change(stream, named))

    def _last_seals(self, stream: str, change: Change) -> Steps[list[Seal] | None]:
        """The seals at which a base ends; None while one of its logs goes on."""
        found: list[Seal] = []
        left = [child.unit for child in change.children]
        seen = set(left)
        while left:
            seal = yield from self.seal_of(left.pop())
            if seal is None:
                return None
            if seal.how == "halt":
                found.append(seal)
                continue
            following = yield from self.change(stream, seal.change)
            left += [child.unit for child in following.children if child.unit not in seen]
            seen.update(left)
        return found

    # Rows

    def read(self, stream: str, after: int, upto: int) -> Steps[list[Slice]]:
        """The slices of a recorded range: all that count at an epoch in (after, upto].

        A range is read when it is planned, again for its watermark, and when it is run; what it
        holds never changes, so one look will do.
        """
        known = self._recent.get(stream)
        if known is None or known[0] != after or upto > known[1]:
            found = yield from self._read_anew(stream, after, upto)
            self._recent[stream] = known = (after, upto, found)
        return [item for item in known[2] if item.upto <= upto]

    def _read_anew(self, stream: str, after: int, upto: int) -> Steps[list[Slice]]:
        found: list[Slice] = []
        while True:
            base, limit = yield from self._base_at(stream, after)
            seen: set[str] = set()
            for child in base.children:
                end = upto if limit is None else min(upto, limit)
                found += yield from self._gather(child.unit, after, end, seen)
            if limit is None or upto <= limit:
                return found
            after = limit

    def _gather(self, unit: str, after: int, limit: int, seen: set[str]) -> Steps[list[Slice]]:
        if unit in seen:  # several parents lead to it
            return []
        seen.add(unit)
        log = yield from self._log_after(unit, after, limit)
        found = [item for item in log.slices if item.upto <= limit]
        for item in found:
            self._check_across(unit, item, after)
        seal = log.seal
        if seal is not None and seal.how == "run" and _end(seal) < limit:
            stream = stream_of(unit)
            following = yield from self.change(stream, seal.change)
            for child in following.children:
                found += yield from self._gather(child.unit, max(after, _end(seal)), limit, seen)
        return found

    def _check_across(self, unit: str, item: Slice, after: int) -> None:
        """Batches end at ends, so no slice lies across the position of a reader."""
        if item.after < after:
            raise ProtocolError(
                f"{unit}: slice ({item.after}, {item.upto}] lies across epoch {after}"
            )


def _end(seal: Seal) -> int:
    if seal.end is None:
        raise TrimmedError(f"{seal.unit}: the seal of a run names no end")
    return seal.end
