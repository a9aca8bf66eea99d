"""A run that goes on with other cuts: streams that vanish or appear, segments that fuse or split.

Problem: a plan cuts the same operators otherwise than the run did. Every stream that both have goes
on where it ended: up to there the old logs count, after it what the new segments publish. A segment
without state needs nothing else. One with state goes on from the newest commit that all units have
which kept it, in whatever segment that was, at or before that end; if that is earlier, because a
unit was killed between publishing and committing or because the operator ran ahead, it runs on to
the end first, and what it publishes on the way is void. A stream that appears begins where the
first of its readers does; one that vanishes is sealed.

A sink added at the same start may read a stream that appears, from an epoch on that it states. So
far the rows of that stream were in no log: they are made again, from the newest commit before that
epoch, if there is one and all that was read since is there.

What a segment reads must be in the logs from its epoch on. Spark finds state by the number of an
operator in its query and by the sources of that query. So a segment may keep the state of one
operator, which was kept alone, and reads as many inputs as before. Everything else is refused.

All of it is one restart (`holdfast.streams.restart`): one who is killed leaves nothing by halves.
Cost: a few small folders are listed for each segment that changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError, HoldfastError
from holdfast.runtime.checkpoint.inherit import committed_batches
from holdfast.runtime.log.anew import Start, ends_at, first_epoch, nearest, newest_end, outside
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import DeploymentWiring, first_change
from holdfast.runtime.rescale import check_restating
from holdfast.storage.identity import new_id
from holdfast.streams.floors import Floors
from holdfast.streams.handover import Birth
from holdfast.streams.records import Change, Child, least_known

CATCH_UP = "use the cuts it had until it has caught up, {resets}, or another --run-dir"
RESET = "use the cuts it had, {resets}, or another --run-dir"
LEAVE = "leave it out, {resets}, or another --run-dir"

AGAIN = "start it with the cuts it had, stop it and try again"
SCALE = "use as many shards as it has, and `holdfast scale` while it runs"


class _CannotError(HoldfastError):
    """Why a segment cannot go on, or a stream cannot be made."""

    def __init__(self, why: str, ways: str = RESET) -> None:
        super().__init__(why)
        self.ways = ways


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A commit that all units which kept an operator's state have."""

    epoch: int
    units: tuple[tuple[str, int], ...] = ()
    """Each with its batch that ended there."""
    watermark_us: int | None = None


def unlike(before: Deployment, after: Deployment, fresh: Collection[str] = ()) -> list[Segment]:
    """Segments of a plan that are not those of the run, but for those that begin anew."""
    known = {segment.name: segment for segment in before.segments}
    return [
        segment
        for segment in after.segments
        if segment.name not in fresh
        and (segment.name not in known or _alike(known[segment.name]) != _alike(segment))
    ]


def _alike(segment: Segment) -> Segment:
    """A segment without what may change from start to start: intervals, and its present units.

    Its key is that of its operators, and runs of earlier versions did not say it.
    """
    return replace(segment, change=0, batch_epochs=1, snapshot_batches=1, key=())


def owners(log: SliceLog, stream: str) -> list[Child]:
    """Who has the state of a stream, in which nothing runs.

    Others may have been asked for that nobody has made way for, and may never be able to begin:
    whoever goes on from here takes back what was asked.
    """
    return log.run(log.steps().standing(stream, turned=True))


def restated(log: SliceLog, owner: Segment, segment: Segment) -> bool:
    """Whether a segment that goes on with the state of another has it in other partitions."""
    carriers = owners(log, owner.name)
    if any((child.of or owner.max_shards) != segment.max_shards for child in carriers):
        return True
    return segment.max_shards == 1 and len(carriers) != segment.shards


def forget_vanished(log: SliceLog, deployment: Deployment) -> None:
    """Remove the state and slices of streams that are no more, once nobody goes on from them."""
    floors = Floors(DeploymentWiring(deployment=deployment))
    known = {segment.name for segment in deployment.segments}
    for stream in map(unquote, log.store.folders("streams")):
        if stream in known or log.carriers(stream):
            continue
        for change in log.run(floors.changes_of(stream)):
            for child in change.children:
                seal = log.run(floors.seal_of(child.unit))
                if seal is not None and log.run(floors.is_taken_over(child.unit)):
                    for folder in (log.layout.checkpoints(child.unit), log.layout.data(child.unit)):
                        log.store.remove_folder(folder, aside=log.layout.removed(new_id()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What of a pipeline decides whether a run's state can be taken over."""

    stateful: Collection[str]
    """Operators that keep state."""
    quarantining: Collection[str] = ()
    """Operators that leave out rows they fail on."""
    rows: int = 1
    """Of the clock source, which stand for one batch in a checkpoint."""


class Recut:
    """How a run, in which nothing runs now, goes on with other cuts."""

    def __init__(
        self, log: SliceLog, before: Deployment, after: Deployment, keeping: Keeping
    ) -> None:
        """`before` is what ran, `after` what is to run."""
        self._log, self._before, self._after = log, before, after
        self._stateful, self._rows = keeping.stateful, keeping.rows
        self._quarantining = set(keeping.quarantining)
        self._known = {segment.name: segment for segment in before.segments}
        self._begins: dict[str, int] = {}
        """Segment that changes, or is added, to the epoch after which it reads."""
        self._stops: dict[str, set[int]] = {}
        """Segment that changes to the epochs at which what it reads must end."""

    def changes(self, added: Mapping[str, int] | None = None) -> list[Change]:
        """The changes by which it goes on; raises if its state does not allow it.

        `added` are segments that begin at this start, each with the first epoch it reads.
        """
        fresh = added or {}
        self._begins = {name: epoch - 1 for name, epoch in fresh.items()}
        self._stops = {}
        made = {
            segment.name: self._change(segment)
            for segment in reversed(unlike(self._before, self._after, fresh))
        }
        there = {segment.name for segment in self._after.segments}
        for segment in self._before.segments:
            if segment.name not in there:
                made[segment.name] = self._vanished(segment)
        # Readers before what they read, as the run knew them; nobody has read what appears.
        old = [name for name in reversed(self._known) if name in made]
        return [made[name] for name in (*old, *(name for name in made if name not in old))]

    def _change(self, segment: Segment) -> Change:
        try:
            return self._changed(segment)
        except _CannotError as error:
            raise self._refused(segment, error) from error

    def _changed(self, segment: Segment) -> Change:
        if segment.kind != "inner":
            raise _CannotError("its shards or its code have changed")
        known = self._known.get(segment.name)
        if known is not None and known.outputs != segment.outputs:
            raise _CannotError("what it has published is divided for other readers")
        start = self._read_from(segment) if known is None else self._last_end(segment.name)
        state = self._state(segment, start)
        self._begins[segment.name] = state.epoch
        ends: set[int] = set()
        for name in self._readers(segment) if known is None else ():
            ends |= {*self._stops.get(name, ()), self._begins[name]} - {start}
        self._stops[segment.name] = {end for end in (*ends, start) if end > state.epoch}
        self._check_inputs(segment, state.epoch)
        number = len(self._log.run(self._log.steps().changes_of(segment.name)))
        was = f"was {'+'.join(known.operators)}" if known else "appears"
        change = first_change(
            replace(segment, change=number),
            start=start if known is None else None,
            reason=f"other cuts: {'+'.join(segment.operators)}, {was}",
        )
        return replace(
            change,
            since=state.epoch,
            state=state.units,
            ends=tuple(sorted(ends)),
            watermark_us=state.watermark_us,
        )

    def _vanished(self, segment: Segment) -> Change:
        number = len(self._log.run(self._log.steps().changes_of(segment.name)))
        change = first_change(replace(segment, change=number), reason="other cuts")
        return replace(change, children=(), since=self._last_end(segment.name))

    # Segments that are added

    def first_epoch(self, fresh: Sequence[Segment], start: Start) -> int:
        """The epoch that `start` means for segments that are added together; raises if none does.

        A stream that appears could have ended a batch wherever all ended one that it is made of,
        up to where the segment had come in which it was hidden.
        """
        streams, name = outside(self._after, fresh), fresh[0].name
        appear = [self._after.segment(item) for item in streams if item not in self._known]
        if not appear:
            return first_epoch(self._log, self._after, fresh, start)
        roots = self._roots(streams)
        newest = newest_end(self._log, [*roots, *(self._owner(item.name).name for item in appear)])
        if start == "now":
            self._require(name, appear, newest, ways=self._ways(LEAVE))
            return newest + 1
        earliest = self._earliest(name, appear, roots, newest)
        if earliest is None:
            self._require(name, appear, newest, ways=self._ways(LEAVE))
            raise BadInputError("its inputs have no end in common that is left", where=name)
        if start == "earliest":
            return earliest + 1
        if start > newest + 1:
            raise BadInputError(
                f"epoch {start} lies beyond its end", where=name, hint=f"--from {newest + 1}"
            )
        if not ends_at(self._log, roots, start - 1):
            raise BadInputError(
                f"epoch {start} is not the first after an end of {', '.join(roots)}",
                where=name,
                hint=nearest(self._log, roots, start, range(earliest + 1, newest + 2)),
            )
        self._require(name, appear, start - 1, ways=f"--from {earliest + 1}")
        return start

    def _earliest(
        self, name: str, appear: Sequence[Segment], roots: Sequence[str], newest: int
    ) -> int | None:
        """The first end after which all of it can be made: at a commit, or where input begins."""
        whole = self._log.run(self._log.steps().first_whole_epoch(roots))
        known = {newest} if whole is None else {newest, whole - 1}
        for segment in self._hidden(appear):
            for kept in self._kept(segment):
                units = [child.unit for child in owners(self._log, self._owner(kept).name)]
                known.update(*map(self._commits, units))
                born = {self._log.run(self._log.steps().birth_epoch(unit)) for unit in units}
                known |= {epoch for epoch in born if epoch is not None}
        for epoch in sorted(item for item in known if item <= newest):
            try:
                self._require(name, appear, epoch)
            except BadInputError:
                continue
            if ends_at(self._log, roots, epoch):
                return epoch
        return None

    def _require(self, name: str, appear: Sequence[Segment], epoch: int, ways: str = "") -> None:
        """Raise if streams that appear cannot be made from an epoch on."""
        for segment in appear:
            try:
                self._require_one(segment, epoch)
            except _CannotError as error:
                raise BadInputError(
                    f"cannot begin at epoch {epoch + 1}: so far {segment.name} is in no log, "
                    f"and {error}",
                    where=name,
                    hint=ways,
                ) from error

    def _require_one(self, segment: Segment, start: int) -> None:
        state = self._state(segment, start)
        self._check_inputs(segment, state.epoch)
        for stream in self._after.streams_read(segment):
            if stream not in self._known:
                self._require_one(self._after.segment(stream), state.epoch)

    def _roots(self, streams: Iterable[str]) -> list[str]:
        """The streams of the run that others are made of; those that it has stand for themselves"""
        found: list[str] = []
        for stream in streams:
            if stream in self._known:
                found.append(stream)
            else:
                found += self._roots(self._after.streams_read(self._after.segment(stream)))
        return list(dict.fromkeys(found))

    def _hidden(self, appear: Iterable[Segment]) -> list[Segment]:
        """Segments that appear, with those that they read."""
        found: list[Segment] = []
        for segment in appear:
            read = [self._after.segment(item) for item in self._after.streams_read(segment)]
            found += [segment, *self._hidden(item for item in read if item.name not in self._known)]
        return found

    def _owner(self, operator: str) -> Segment:
        """The segment of the run that an operator was part of."""
        return next(item for item in self._before.segments if operator in item.operators)

    def _last_end(self, stream: str) -> int:
        return self._log.run(self._log.steps().last_end(stream))

    def _read_from(self, segment: Segment) -> int:
        """Where a stream that appears is read from: all its readers change or are added."""
        return min(self._begins[name] for name in self._readers(segment))

    def _readers(self, segment: Segment) -> list[str]:
        return [
            reader.name
            for boundary in segment.outputs
            for reader in self._after.consumers(boundary.name)
        ]

    # State

    def _kept(self, segment: Segment) -> list[str]:
        return [name for name in segment.operators if name in self._stateful]

    def _state(self, segment: Segment, start: int) -> _State:
        """The state that a segment goes on from, to carry its stream after an epoch."""
        kept = self._kept(segment)
        found = self._state_of(segment, kept, start) if kept else _State(epoch=start)
        if not self._quarantining.isdisjoint(segment.operators):
            came = max(start, self._last_end(self._owner(segment.name).name))
            if not self._log.steps().may_take_over(found.epoch, came, quarantines=True):
                raise _CannotError(
                    f"it may leave out other rows after epoch {found.epoch} than it did", AGAIN
                )
        return found

    def _state_of(self, segment: Segment, kept: Sequence[str], start: int) -> _State:
        if len(kept) > 1:
            raise _CannotError(f"the states of {' and '.join(kept)} cannot be joined")
        owner = self._owner(kept[0])
        if owner.shared_state:
            # Left again before it has come to where its stream stands, it would have no state to
            # hand on.
            raise _CannotError(f"the paths of {kept[0]} share their state")
        with_it = self._kept(owner)
        if len(with_it) > 1:
            raise _CannotError(f"the states of {' and '.join(with_it)} were kept as one")
        if len(segment.inputs) != len(owner.inputs):
            raise _CannotError(
                f"{kept[0]} would read {len(segment.inputs)} logs and has read "
                f"{len(owner.inputs)}, by which Spark knows its state"
            )
        self._check_partitions(segment, owner, kept[0])
        found = self._common_commit([child.unit for child in owners(self._log, owner.name)], start)
        if found is None or found.epoch > start:
            why = f"no state of {kept[0]} at or before epoch {start} is left"
            raise _CannotError(why, CATCH_UP)
        return found

    def _check_partitions(self, segment: Segment, owner: Segment, kept: str) -> None:
        """Raise if state lies in other partitions than it is to, and Spark cannot lay it out."""
        if not restated(self._log, owner, segment):
            return
        told = all(child.of is not None for child in owners(self._log, owner.name))
        whole = segment.shards == segment.max_shards == 1  # nothing is divided then
        if not told or not (segment.key or whole):
            raise _CannotError(f"{kept} has other shards", SCALE)
        if whole:
            return
        try:
            check_restating(self._log, replace(segment, name=owner.name))
        except BadInputError as error:
            raise _CannotError(f"{error.what}", SCALE) from error

    def _common_commit(self, units: Sequence[str], start: int) -> _State | None:
        """The newest commit at or before an epoch that all units have."""
        ends = [self._commits(unit, start) for unit in units]
        common = set.intersection(*map(set, ends)) if ends else set()
        if not common:
            return self._at_birth(units)
        epoch = max(common)
        marks = [mine[epoch][1] for mine in ends]
        return _State(
            epoch=epoch,
            units=tuple((unit, mine[epoch][0]) for unit, mine in zip(units, ends, strict=True)),
            watermark_us=least_known(marks),
        )

    def _commits(self, unit: str, upto: int | None = None) -> dict[int, tuple[int, int | None]]:
        """Epochs at which a unit has committed a batch, each with that and its watermark."""
        found: dict[int, tuple[int, int | None]] = {}
        for batch in committed_batches(self._log, unit, self._rows):
            record = self._log.range(unit, batch)
            if record is not None and (upto is None or record.upto <= upto):
                found[record.upto] = (batch, record.watermark_us)
        return found

    def _at_birth(self, units: Sequence[str]) -> _State | None:
        """What units that have committed nothing began with: no state, or that of others.

        So cuts that turned out badly can be taken back. One whose checkpoint was lost is made again
        from there, if its input is whole.
        """
        born = {self._log.run(self._log.steps().birth(unit)) for unit in units}
        one = born.pop() if len(born) == 1 else None
        if not isinstance(one, Birth):
            return None
        for parent, batch in one.parents:
            if batch not in committed_batches(self._log, parent, self._rows):
                return None
        return _State(epoch=one.epoch, units=one.parents, watermark_us=one.watermark_us)

    # Input

    def _check_inputs(self, segment: Segment, epoch: int) -> None:
        steps = self._log.steps()
        for stream in self._after.streams_read(segment):
            if stream not in self._known:
                continue  # it appears, and begins where it is read from
            ended = epoch < 0 or self._log.run(steps.is_end(stream, epoch))
            if not ended or not self._log.run(steps.is_whole(stream, epoch)):
                why = f"what it needs of {stream} after epoch {epoch} is trimmed"
                raise _CannotError(why, CATCH_UP)

    # Saying no

    def _refused(self, segment: Segment, error: _CannotError) -> BadInputError:
        return BadInputError(
            f"the plan cuts it otherwise than the run, and {error}",
            where=segment.name,
            hint=self._ways(error.ways),
        )

    def _ways(self, ways: str) -> str:
        """What can be done instead. A reset is one of all that is cut otherwise."""
        ran = {name for segment in self._before.segments for name in segment.operators}
        other = [
            segment
            for segment in unlike(self._before, self._after)
            if not ran.isdisjoint(segment.operators)
        ]
        names = {segment.name for segment in other}
        first = [
            segment.operators[0]
            for segment in other
            if names.isdisjoint(self._after.streams_read(segment))
        ]
        return ways.format(resets=" ".join(f"--reset {name}" for name in first))
