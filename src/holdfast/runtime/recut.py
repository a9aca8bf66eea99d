"""A run that goes on with other cuts: streams that vanish or appear, segments that fuse or split.

Problem: a plan cuts the same operators otherwise than the run did. Every stream that both have goes
on where it ended: up to there the old logs count, after it what the new segments publish. A segment
without state needs nothing else. One with state goes on from the newest commit that all units have
which kept it, in whatever segment that was, at or before that end; if that is earlier, because a
unit was killed between publishing and committing or because the operator ran ahead, it runs on to
the end first, and what it publishes on the way is void. A stream that appears begins where its one
reader does; one that vanishes is sealed.

What a segment reads must be in the logs from its epoch on. Spark finds state by the number of an
operator in its query and by the sources of that query. So a segment may keep the state of one
operator, which was kept alone, and reads as many inputs as before. Everything else is refused.

All of it is one restart (`holdfast.streams.restart`): one who is killed leaves nothing by halves.
Cost: a few small folders are listed for each segment that changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.runtime.checkpoint.inherit import committed_batches
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import DeploymentWiring, first_change
from holdfast.storage.identity import new_id
from holdfast.streams.floors import Floors
from holdfast.streams.handover import Birth
from holdfast.streams.records import Change

CATCH_UP = "use the cuts it had until it has caught up, --reset {name}, or another --run-dir"
RESET = "use the cuts it had, --reset {name}, or another --run-dir"

AGAIN = "start it with the cuts it had, stop it and try again"
SCALE = "use as many shards as it has, and `holdfast scale` while it runs"


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
    """A segment without what may change from start to start: intervals, and its present units."""
    return replace(segment, change=0, batch_epochs=1, snapshot_batches=1)


def recut(
    log: SliceLog,
    before: Deployment,
    after: Deployment,
    *,
    stateful: Collection[str],
    quarantining: Collection[str] = (),
    rows: int = 1,
) -> list[Change]:
    """The changes by which a run goes on with other cuts; raises if its state does not allow it.

    Args:
        log: of the run, in which nothing runs.
        before: what ran.
        after: what is to run.
        stateful: operators that keep state.
        quarantining: operators that leave out rows they fail on.
        rows: of the clock source, which stand for one batch in a checkpoint.
    """
    return _Recut(log, before, after, stateful, quarantining, rows).changes()


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


class _Recut:
    def __init__(
        self,
        log: SliceLog,
        before: Deployment,
        after: Deployment,
        stateful: Collection[str],
        quarantining: Collection[str],
        rows: int,
    ) -> None:
        self._log, self._before, self._after = log, before, after
        self._stateful, self._quarantining, self._rows = stateful, set(quarantining), rows
        self._known = {segment.name: segment for segment in before.segments}
        self._begins: dict[str, int] = {}
        """Segment that changes to the epoch after which it reads."""
        self._stops: dict[str, set[int]] = {}
        """Segment that changes to the epochs at which what it reads must end."""

    def changes(self) -> list[Change]:
        made = {
            segment.name: self._change(segment)
            for segment in reversed(unlike(self._before, self._after))
        }
        there = {segment.name for segment in self._after.segments}
        for segment in self._before.segments:
            if segment.name not in there:
                made[segment.name] = self._vanished(segment)
        # Readers before what they read, as the run knew them; nobody has read what appears.
        old = [name for name in reversed(self._known) if name in made]
        return [made[name] for name in (*old, *(name for name in made if name not in old))]

    def _change(self, segment: Segment) -> Change:
        if segment.kind != "inner":
            raise self._refused(segment, "its shards or its code have changed", RESET)
        goes_on = segment.name in self._known
        start = self._last_end(segment.name) if goes_on else self._read_from(segment)
        state = self._state(segment, start)
        self._begins[segment.name] = state.epoch
        ends: set[int] = set()
        for name in () if goes_on else self._readers(segment):
            ends |= self._stops[name]
        self._stops[segment.name] = {end for end in (*ends, start) if end > state.epoch}
        self._check_inputs(segment, state.epoch)
        number = len(self._log.run(self._log.steps().changes_of(segment.name)))
        known = self._known.get(segment.name)
        was = f"was {'+'.join(known.operators)}" if known else "appears"
        change = first_change(
            replace(segment, change=number),
            start=None if goes_on else start,
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

    def _last_end(self, stream: str) -> int:
        return self._log.run(self._log.steps().last_end(stream))

    def _read_from(self, segment: Segment) -> int:
        """Where a stream that appears is read from: its one reader changes as well."""
        return min(self._begins[name] for name in self._readers(segment))

    def _readers(self, segment: Segment) -> list[str]:
        return [
            reader.name
            for boundary in segment.outputs
            for reader in self._after.consumers(boundary.name)
        ]

    # State

    def _state(self, segment: Segment, start: int) -> _State:
        """The state that a segment goes on from, to carry its stream after an epoch."""
        kept = [name for name in segment.operators if name in self._stateful]
        if not kept:
            return _State(epoch=start)
        if len(kept) > 1:
            raise self._refused(segment, f"the states of {' and '.join(kept)} cannot be joined")
        owner = next(item for item in self._before.segments if kept[0] in item.operators)
        if owner.shared_state:
            # Left again before it has come to where its stream stands, it would have no state to
            # hand on.
            raise self._refused(segment, f"the paths of {kept[0]} share their state")
        with_it = [name for name in owner.operators if name in self._stateful]
        if len(with_it) > 1:
            raise self._refused(segment, f"the states of {' and '.join(with_it)} were kept as one")
        if len(segment.inputs) != len(owner.inputs):
            raise self._refused(
                segment,
                f"{kept[0]} would read {len(segment.inputs)} logs and has read "
                f"{len(owner.inputs)}, by which Spark knows its state",
            )
        fixed = 1 in (owner.max_shards, segment.max_shards)
        if owner.max_shards != segment.max_shards or (fixed and owner.shards != segment.shards):
            raise self._refused(segment, f"{kept[0]} has other shards", SCALE)
        units = [child.unit for child in self._log.carriers(owner.name)]
        found = self._common_commit(units, start)
        if found is None:
            raise self._refused(
                segment, f"no state of {kept[0]} at or before epoch {start} is left", CATCH_UP
            )
        leaves_out = not self._quarantining.isdisjoint(segment.operators)
        if not self._log.steps().may_take_over(found.epoch, start, quarantines=leaves_out):
            raise self._refused(
                segment, f"it may leave out other rows after epoch {found.epoch} than it did", AGAIN
            )
        return found

    def _common_commit(self, units: Sequence[str], start: int) -> _State | None:
        """The newest commit at or before an epoch that all units have."""
        ends: list[dict[int, tuple[int, int | None]]] = []
        for unit in units:
            mine: dict[int, tuple[int, int | None]] = {}
            for batch in committed_batches(self._log, unit, self._rows):
                record = self._log.range(unit, batch)
                if record is not None and record.upto <= start:
                    mine[record.upto] = (batch, record.watermark_us)
            ends.append(mine)
        common = set.intersection(*map(set, ends)) if ends else set()
        if not common:
            return self._at_birth(units)
        epoch = max(common)
        marks = [mine[epoch][1] for mine in ends]
        known = [mark for mark in marks if mark is not None]
        return _State(
            epoch=epoch,
            units=tuple((unit, mine[epoch][0]) for unit, mine in zip(units, ends, strict=True)),
            watermark_us=min(known) if known and len(known) == len(marks) else None,
        )

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
                raise self._refused(
                    segment, f"what it needs of {stream} after epoch {epoch} is trimmed", CATCH_UP
                )

    def _refused(self, segment: Segment, why: str, ways: str = RESET) -> BadInputError:
        hint = ways.format(name=segment.operators[0])
        return BadInputError(
            f"the plan cuts it otherwise than the run, and {why}", where=segment.name, hint=hint
        )
