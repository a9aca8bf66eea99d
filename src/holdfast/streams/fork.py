"""Going on without an input: units of a fork, beside the exact ones that wait for it.

Exact results are never computed from incomplete input. Where a log has been silent for longer than
allowed, the units downstream go on in a *fork*: under names of their own (`count+3.0#1`), with
ranges, slices and checkpoints of their own, and with the state of the exact unit's last commit. The
exact units stand still, so they keep pinning what they have to read, and go on from there when it
comes. Nothing of a fork is ever read by an exact unit; nothing is rolled back when it ends.

```
epoch          0   4   8   12  16  20  24
lines.0#0      ────────────────────────▶
lines.0#1      ────────╳                   silent
count.0#0      ────────┤                   waits at 8, and pins lines from there on
count+1.0#0            ├───────────────▶   branch: batch 2, epoch 8; its ranges leave out lines.0#1
```

A fork reads a stream of its own as one log each: what the exact unit published up to the branch,
then what the fork's unit did. Every other stream it reads as everyone does. A log that gives
nothing after the position is left out once nobody need wait for it any more, and read again as soon
as it gives something; each range says what it has left out, so a redo leaves out the same. A lost
log may end in the middle of a batch, or where no other log does: what it gave after the position is
left out too, as soon as the others can go on. A log that was away may have slices that lie across
the position: each counts wholly at its end, so none is read twice.

Up to `Branch.decided` the exact unit has recorded ranges, and what it published of them may have
been read. There the fork ends its batches where the exact unit did, so that a fork of a reader,
which begins where its exact unit stands, finds an end there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from holdfast.deployment import exact_name
from holdfast.streams.handover import Birth, NotYet, Void
from holdfast.streams.reading import ProtocolError, TrimmedError
from holdfast.streams.records import (
    Branch,
    Child,
    Floor,
    Fork,
    ForkEnd,
    Range,
    Slice,
    stream_of,
)
from holdfast.streams.restart import Restarts
from holdfast.streams.steps import (
    FORK_ENDS,
    FORKS,
    Get,
    Newest,
    Put,
    RaiseFloor,
    Steps,
    branches,
    ranges,
    slices,
)
from holdfast.streams.unit import End, Ended, Position, Proposal, Propose, RunBatch, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One log of an input, after the position of a unit that reads it."""

    log: str
    ends: frozenset[int]
    """Empty: it gives nothing there yet."""


def never(waited_for: Collection[str]) -> bool:  # noqa: ARG001 - a policy that needs no reason
    """Wait for as long as it takes."""
    return False


def find_fork(number: int) -> Steps[Fork | None]:
    """A fork, if it is on record."""
    found: Fork | None = yield Get(FORKS, number)
    return found


def put_fork(record: Fork) -> Steps[Fork]:
    """Put a fork on record; of two coordinators that would, the first counts."""
    stored: Fork = yield Put(FORKS, record.number, record)
    return stored


def end_fork(record: ForkEnd) -> Steps[ForkEnd]:
    """End a fork; its units find it before their next batch."""
    stored: ForkEnd = yield Put(FORK_ENDS, record.number, record)
    return stored


class ForkSteps(Restarts):
    """The decisions of one unit of a fork."""

    def __init__(
        self,
        fork: Fork,
        unit: str,
        *,
        writer: str = "",
        impatient: Callable[[Collection[str]], bool] = never,
    ) -> None:
        """Args:
        fork: what it belongs to.
        unit: its name in the fork.
        writer: names who puts its records.
        impatient: whether to go on without some logs, which none of its ranges has left out so
            far; asked again and again.
        """
        super().__init__(writer)
        self.fork, self.unit, self.exact = fork, unit, exact_name(unit)
        self._impatient = impatient
        self._branches: dict[str, Branch] = {}
        self._births: dict[str, int] = {}

    # Where it begins

    def branch(self, unit: str) -> Steps[Branch | None]:
        """Where a unit of the fork has left its exact one; None: it has not begun."""
        known = self._branches.get(unit)
        if known is None:
            known = yield Get(branches(unit), 0)
            if known is not None:
                self._branches[unit] = known
        return known

    def begin(self, batch: int, *, generation: int = 0) -> Steps[Branch]:
        """Leave the exact unit at the commit before a batch; gives the branch that counts.

        To be called with a copy of that commit at hand, which the branch names by its generation.
        """
        stands = yield from super().position_at(self.exact, batch)
        if not isinstance(stands, Position):
            raise ProtocolError(f"{self.exact} is {stands} born: nothing to fork")
        newest = yield from self.newest_batch(self.exact)
        mine = Branch(
            unit=self.unit,
            batch=batch,
            epoch=stands.after,
            decided=max(newest + 1, batch),
            watermark_us=stands.watermark_us,
            generation=generation,
            writer=self.writer,
        )
        stored: Branch = yield Put(branches(self.unit), 0, mine)
        # Again by everyone who begins: the first one may have died in between.
        yield RaiseFloor(ranges(self.unit), Floor(number=stored.batch))
        yield RaiseFloor(slices(self.unit), Floor(number=stored.batch, epoch=stored.epoch))
        self._branches[self.unit] = stored
        return stored

    def birth(self, unit: str) -> Steps[Birth | NotYet | Void]:
        if unit != self.unit:
            return (yield from super().birth(unit))
        branch = yield from self.branch(unit)
        if branch is None:
            return "not yet"
        return Birth(epoch=branch.epoch, watermark_us=branch.watermark_us)

    def child(self, unit: str) -> Steps[Child]:
        found = yield from super().child(exact_name(unit))
        return Child(unit=unit, segment=found.segment, groups=found.groups, of=found.of)

    def position_at(self, unit: str, batch: int) -> Steps[Position | NotYet | Void]:
        if unit != self.unit:
            return (yield from super().position_at(unit, batch))
        branch = yield from self.branch(unit)
        if branch is None:
            return "not yet"
        if batch <= branch.batch:
            return Position(
                batch=branch.batch, after=branch.epoch, watermark_us=branch.watermark_us
            )
        return (yield from super().position_at(unit, batch))

    # What it does next

    def ended(self) -> Steps[ForkEnd | None]:
        """Why the fork is over; None: it is not."""
        found: ForkEnd | None = yield Get(FORK_ENDS, self.fork.number)
        return found

    def next_step(
        self,
        unit: str,
        position: Position,
        inputs: Sequence[str],
        propose: Propose,
        *,
        must_end_at: int | None = None,
        reach: int | None = None,
    ) -> Steps[Step]:
        """As for every unit; but a fork changes no hands, and its end ends all of it at once."""
        if (yield from self.ended()) is not None:
            return Ended(why="sealed")
        record = yield Get(ranges(unit), position.batch)
        if record is None:
            record = yield from self._choose(position, inputs, propose, must_end_at, reach)
        if record is None:
            return "waiting"
        if record.after != position.after:
            return Ended(why="left behind")
        return RunBatch(range=record, position=position)

    def _choose(
        self,
        position: Position,
        inputs: Sequence[str],
        propose: Propose,
        must_end_at: int | None,
        reach: int | None,
    ) -> Steps[Range | None]:
        after = position.after
        limit = yield from self._decided(position)
        limit = must_end_at if limit is None else limit
        while True:
            horizon = None if reach is None else after + reach
            found = yield from self._look(inputs, after, horizon)
            proposal, out = yield from self._offer(inputs, after, found, propose, limit)
            if not (yield from self._goes_without(position, out)):
                return None
            if proposal is not None or reach is None or self._ran_out:
                break
            reach *= 2  # all that is here goes on beyond the horizon, and no end before it will do
        if proposal is None:
            self._wait_for_others()
            return None
        record = Range(
            unit=self.unit,
            number=position.batch,
            after=after,
            upto=proposal.upto,
            watermark_us=(yield from self._watermark_of(inputs, position, proposal.upto, out)),
            left_out=out,
            writer=self.writer,
        )
        stored: Range = yield Put(ranges(self.unit), record.number, record)
        return stored

    def _offer(
        self,
        inputs: Sequence[str],
        after: int,
        found: Sequence[Given],
        propose: Propose,
        limit: int | None,
    ) -> Steps[tuple[Proposal | None, tuple[str, ...]]]:
        """The next batch, and the logs that it would leave out.

        With all that give anything, if they share an end that will do. A log that was lost may have
        come to where no other has ended, or in the middle of an interval, and stays there: then
        without those that have come least far, if the others can go on.
        """
        here = [item for item in found if item.ends]
        for reached in sorted({max(item.ends) for item in here}):
            kept = [item for item in here if max(item.ends) >= reached]
            shared = sorted(frozenset.intersection(*(item.ends for item in kept)))
            if limit is not None:
                shared = [end for end in shared if end == limit]
            out = _others(found, kept)
            ends = yield from self._with_rows(inputs, after, shared, out)
            proposal = propose(after, ends, limit)
            if proposal is not None:
                return proposal, out
        return None, _others(found, here)

    def _wait_for_others(self) -> None:
        """Whoever waits is to be woken by logs that go on, not by those that are lost."""
        lost = [log for log in self._ran_out if exact_name(log) in self.fork.silent]
        for log in lost if len(lost) < len(self._ran_out) else ():
            del self._ran_out[log]

    def _decided(self, position: Position) -> Steps[int | None]:
        """Where the exact unit has ended the batch that it recorded before the fork began."""
        branch = yield from self.branch(self.unit)
        if branch is None or position.batch >= branch.decided:
            return None
        record = yield from self.find_recorded(self.exact, position.batch)
        if record is None or record.after != position.after:
            raise TrimmedError(f"{self.unit}: its exact unit has gone on without it")
        return record.upto

    def _goes_without(self, position: Position, out: Collection[str]) -> Steps[bool]:
        """Whether nobody need wait for logs that give nothing."""
        known = {log for log in out if exact_name(log) in self.fork.silent}
        left = set(out) - known
        if left and position.batch > 0:
            before = yield Get(ranges(self.unit), position.batch - 1)
            if isinstance(before, Range):
                left -= set(before.left_out)
        impatient = self._impatient(sorted(left))  # told also when there is nothing to wait for
        return not left or impatient

    # What it reads

    def common_ends(
        self, streams: Iterable[str], after: int, horizon: int | None = None
    ) -> Steps[list[int]]:
        """Ends of all logs that give anything after an epoch."""
        found = yield from self._look(streams, after, horizon)
        here = [item.ends for item in found if item.ends]
        return sorted(frozenset.intersection(*here)) if here else []

    def _look(self, streams: Iterable[str], after: int, horizon: int | None) -> Steps[list[Given]]:
        """All logs of the inputs. Whoever waits is to be woken by one of those that give."""
        self._ran_out.clear()
        found: list[Given] = []
        idle: dict[str, tuple[int, int]] = {}
        for stream in streams:
            for log in (yield from self._logs(stream, after)):
                before = dict(self._ran_out)
                item = yield from self._given(stream, log, after, horizon)
                found.append(item)
                if not item.ends:
                    idle |= {
                        name: place for name, place in self._ran_out.items() if name not in before
                    }
        if any(item.ends for item in found):
            for name in idle:
                del self._ran_out[name]
        return found

    def _own(self, stream: str) -> list[str]:
        """The units of the fork that carry a stream in it; none: it is read as it is."""
        return [unit for unit in self.fork.units if exact_name(stream_of(unit)) == stream]

    def _logs(self, stream: str, after: int) -> Steps[list[str]]:
        """What may be left out of a stream, each for itself."""
        own = self._own(stream)
        if own:
            return own
        base, _ = yield from self._base_at(stream, after)
        return [child.unit for child in base.children]

    def _given(self, stream: str, log: str, after: int, horizon: int | None) -> Steps[Given]:
        if log in self.fork.units:
            items = yield from self._forked(log, after, horizon)
            return Given(log=log, ends=frozenset(item.upto for item in items))
        base, _ = yield from self._base_at(stream, after)
        closing = yield from self.find_closing(stream, base.number)
        ends = yield from self._branch(stream, log, after, {}, horizon)
        last = None if closing is None else closing.end
        return Given(
            log=log,
            ends=frozenset(end for end in ends if end > after and (last is None or end <= last)),
        )

    def _forked(self, unit: str, after: int, horizon: int | None) -> Steps[list[Slice]]:
        """What a stream's log is in the fork: the exact unit's up to the branch, then its own."""
        branch = yield from self.branch(unit)
        if branch is None or (yield from self._born_after(exact_name(unit), after)):
            return []
        found: list[Slice] = []
        if after < branch.epoch:
            log = yield from self.log(exact_name(unit), after, branch.epoch)
            found += [item for item in log.slices if item.upto <= branch.epoch]
        log = yield from self.log(unit, max(after, branch.epoch), horizon)
        self._note_end(unit, horizon)
        return [*found, *(item for item in log.slices if item.upto > after)]

    def _born_after(self, exact: str, after: int) -> Steps[bool]:
        """Whether others have carried the stream at an epoch, before a unit did."""
        if exact not in self._births:
            born = yield from super().birth(exact)
            if not isinstance(born, Birth):
                return True
            self._births[exact] = born.epoch
        return self._births[exact] > after

    def read(self, stream: str, after: int, upto: int) -> Steps[list[Slice]]:
        """The slices of a recorded range, without those that it has left out."""
        number: int = yield Newest(ranges(self.unit))
        record: Range | None = None
        while number >= 0 and (record is None or record.after > after):
            record = yield Get(ranges(self.unit), number)
            number -= 1
        if record is None or (record.after, record.upto) != (after, upto):
            raise TrimmedError(f"{self.unit}: no range ({after}, {upto}] is on record")
        return (yield from self._read(stream, after, upto, record.left_out))

    def _read(self, stream: str, after: int, upto: int, out: Collection[str]) -> Steps[list[Slice]]:
        found: list[Slice] = []
        seen: set[str] = set()
        for log in (yield from self._logs(stream, after)):
            if log in out:
                continue
            if log in self.fork.units:
                items = yield from self._forked(log, after, upto)
                found += [item for item in items if item.upto <= upto]
            else:
                found += yield from self._gather(log, after, upto, seen)
        yield from self._check_birth(found)
        return found

    def _check_across(self, unit: str, item: Slice, after: int) -> None:
        """A log that was left out comes back with slices that lie across the position."""

    def _check_birth(self, found: Iterable[Slice]) -> Steps[None]:
        """The state that a fork begins with has read everything up to its branch, and no more."""
        branch = yield from self.branch(self.unit)
        for item in found:
            if branch is not None and item.after < branch.epoch < item.upto:
                raise TrimmedError(
                    f"{self.unit}: slice ({item.after}, {item.upto}] of {item.unit} lies across "
                    f"epoch {branch.epoch}, where it begins: its exact unit has gone on meanwhile"
                )

    def _with_rows(
        self, inputs: Sequence[str], after: int, shared: Sequence[int], out: Collection[str]
    ) -> Steps[list[End]]:
        """Ends with the rows up to each."""
        if not shared:
            return []
        rows: list[tuple[int, int]] = []
        for stream in inputs:
            found = yield from self._read(stream, after, shared[-1], out)
            rows += [(item.upto, item.rows) for item in found]
        return [
            End(epoch=end, rows=sum(count for upto, count in rows if upto <= end)) for end in shared
        ]

    def _watermark_of(
        self, inputs: Sequence[str], position: Position, upto: int, out: Collection[str]
    ) -> Steps[int | None]:
        """The smallest watermark of what is here, and never one behind the last."""
        found: list[int | None] = []
        for stream in inputs:
            items = yield from self._read(stream, position.after, upto, out)
            found += [item.watermark_us for item in items if item.upto == upto]
        known = [item for item in found if item is not None]
        if not known or len(known) < len(found):
            return position.watermark_us
        return max(min(known), position.watermark_us or min(known))

    # What its output lacks

    def missing(self, batch: int, inputs: Sequence[str], *, stateful: bool) -> Steps[list[str]]:
        """The exact units without whose output a batch's rows were made."""
        record = yield from self.recorded(self.unit, batch)
        found = {exact_name(log) for log in record.left_out}
        for stream in inputs:
            for item in (yield from self.read(stream, record.after, record.upto)):
                found.update(item.missing)
        before = (yield Get(slices(self.unit), batch - 1)) if stateful and batch > 0 else None
        if isinstance(before, Slice):
            found.update(before.missing)
        return sorted(found)


def _others(found: Iterable[Given], kept: Iterable[Given]) -> tuple[str, ...]:
    """The logs that are not kept."""
    names = {item.log for item in kept}
    return tuple(sorted(item.log for item in found if item.log not in names))
