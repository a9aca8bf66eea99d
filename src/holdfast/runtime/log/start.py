"""Whether a unit can begin where it has to, given what is still in the log.

Problem: a unit goes on from its checkpoint, or from its newest range record if it needs none, or
from its birth. The log keeps only what retained batches read. So a checkpoint that vanished, an
operator that is reset or a sink that is added later may need slices that were trimmed long ago.
Such a unit would wait for them for ever; it must be refused instead, with what is missing and the
first epoch that is still there.

Cost: a few small folders are listed per input log; slices are read only to word a refusal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.errors import BadInputError
from holdfast.rundir.layout import word
from holdfast.runtime.log.anew import affected, outside
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.records import Change, Seal
from holdfast.streams.steps import Get, changes, ranges, slices
from holdfast.streams.unit import Position

KEEP = "choose another --run-dir; under --keep-input any operator can be reset later"
NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What a unit needs to begin, and the log has no more."""

    unit: UnitId
    batch: int
    """The batch it would have to begin with."""
    missing: str
    """What was trimmed, in words."""
    start: int | None = None
    """Of one that is begun anew: the first epoch it reads."""
    epoch: int | None = None
    """The first epoch from which on its whole input is there, and that of all that is begun anew
    with it; None if there is none."""

    def __str__(self) -> str:
        where = f"with batch {self.batch}" if self.start is None else f"at epoch {self.start}"
        text = f"cannot begin {where}: {self.missing}"
        if not self.epoch:
            return text
        return f"{text}; all of its input is there from epoch {self.epoch} on"


def find_gap(
    log: SliceLog,
    deployment: Deployment,
    unit: UnitId,
    *,
    first: int,
    fresh: Mapping[str, int] = NOTHING,
) -> Gap | None:
    """Why a unit cannot begin with batch `first`; None if it can.

    Segments in `fresh` are begun anew at an epoch: what they have recorded does not count.
    """
    segment = deployment.segment(unit.segment)
    missing, after = None, fresh.get(segment.name, 0) - 1
    if segment.name not in fresh and _has_begun(log, segment.name):
        missing = _missing_own(log, unit, first)
        if missing is None:
            found = log.run(log.steps().position_at(unit.name, first))
            after = found.after if isinstance(found, Position) else -1
    if missing is None:
        missing = _missing_input(log, deployment, segment, after, fresh)
    if missing is None:
        return None
    begun = fresh.get(segment.name)
    together = (
        affected(deployment, segment.operators)
        if begun is None
        else [item for item in deployment.segments if fresh.get(item.name) == begun]
    )
    epoch = first_whole_epoch(log, deployment, together, fresh)
    return Gap(unit=unit, batch=first, missing=missing, epoch=epoch, start=begun)


def thread_start(log: SliceLog, unit: UnitId) -> int:
    """The batch that a unit without a checkpoint begins with: it does its newest one again."""
    return max(0, log.newest_batch(unit.name))


def rebuilt_start(
    log: SliceLog,
    deployment: Deployment,
    unit: UnitId,
    *,
    first: int | None,
    fresh: Mapping[str, int] = NOTHING,
) -> int | None:
    """The batch with which a new checkpoint goes on, if a unit needs one and can do with it.

    `first` is what its own goes on with, None if that is gone. Without state, a checkpoint says
    nothing but the number of a batch, and the records say it too. None: leave it as it is. With
    several inputs Spark wants to find as many sources as it has planned, which is not known here.
    """
    segment = deployment.segment(unit.segment)
    if segment.kind != "inner" or segment.stateful or segment.name in fresh:
        return None
    if len(segment.inputs) != 1:
        return None
    if first is not None and find_gap(log, deployment, unit, first=first, fresh=fresh) is None:
        return None
    newest = thread_start(log, unit)
    if newest == 0 or find_gap(log, deployment, unit, first=newest, fresh=fresh) is not None:
        return None
    return newest


def lost_offset(log: SliceLog, unit: UnitId) -> BadInputError | None:
    """Why a source that Spark reads cannot go on without a checkpoint; None if it can.

    Its records say how far Spark had read, in Spark's words; only a checkpoint can take it there.
    """
    newest = log.newest_batch(unit.name)
    record = log.range(unit.name, newest) if newest >= 0 else None
    position = record.source if record is not None else None
    if not isinstance(position, Mapping) or position.get("offset") is None:
        return None
    return BadInputError(
        "its checkpoint is gone, and only that can tell Spark where its source goes on",
        where=str(unit),
        hint=f"put checkpoints/{word(str(unit))} back, or choose another --run-dir",
    )


def first_whole_epoch(
    log: SliceLog,
    deployment: Deployment,
    segments: Sequence[Segment],
    fresh: Collection[str] = (),
) -> int | None:
    """The first epoch from which on all that segments read is in the log, with a clean end.

    That is one past the first end of all of it after which nothing is trimmed. Segments that are
    begun anew together begin at one epoch, so what each of them reads counts for all.
    """
    streams = [name for name in outside(deployment, segments) if name not in fresh]
    return log.run(log.steps().first_whole_epoch(streams))


def upstream_to_reset(
    log: SliceLog, deployment: Deployment, chosen: Collection[str]
) -> tuple[str, ...]:
    """Segments to reset instead of `chosen`, so that every input is whole; empty: there are none.

    Sources are not among them: what they have read may not be there to be read again.
    """
    needed = set(chosen)
    # Upstream last, so that one pass from the end reaches everything.
    for segment in reversed(deployment.segments):
        if segment.name not in needed:
            continue
        for stream in deployment.streams_read(segment):
            if log.run(log.steps().gone_upto(stream)) >= 0:
                needed.add(stream)
    found = [segment for segment in deployment.segments if segment.name in needed]
    if any(segment.kind == "source" for segment in found):
        return ()
    # Everything after a segment is reset with it.
    logs = {segment.name for segment in found}
    return tuple(
        segment.name for segment in found if not logs & set(deployment.streams_read(segment))
    )


def require_start(
    log: SliceLog,
    deployment: Deployment,
    unit: UnitId,
    *,
    first: int,
    checkpointed: bool = False,
) -> None:
    """Raise if a unit cannot begin with batch `first`, which its checkpoint says if it has one."""
    gap = find_gap(log, deployment, unit, first=first)
    if gap is not None:
        raise refusal(log, deployment, gap, checkpointed=checkpointed)


def refusal(
    log: SliceLog,
    deployment: Deployment,
    gap: Gap,
    *,
    checkpointed: bool = False,
    chosen: Mapping[str, int] = NOTHING,
    options: str = "",
) -> BadInputError:
    """One line: what is missing, from which epoch on it is there, and what can be done.

    `checkpointed`: a unit of this kind goes on from a checkpoint. `chosen` are the segments that
    were to be reset, each with the epoch it was to begin at; `options` must be said besides.
    """
    instead = upstream_to_reset(log, deployment, chosen or (gap.unit.segment,))
    ways = [f"put checkpoints/{word(str(gap.unit))} back"] if checkpointed else []
    if gap.epoch:
        again = options if gap.start is not None else f"--reset {gap.unit.segment} "
        # A bare epoch is one for all.
        whom = f" for what was to begin at epoch {gap.start}"
        several = len(set(chosen.values())) > 1
        ways.append(f"run with {again}--from {gap.epoch}{whom if several else ''}")
    if instead and set(instead) != set(chosen):
        names = " ".join(f"--reset {name}" for name in instead)
        ways.append(f"run with {names}, whose input is whole")
    ways.append(KEEP)
    lost = f"its checkpoint is {'too old' if gap.batch else 'gone'}, and it "
    return BadInputError(
        f"{lost if checkpointed else ''}{gap}", where=str(gap.unit), hint=", or ".join(ways)
    )


def _missing_own(log: SliceLog, unit: UnitId, first: int) -> str | None:
    """A batch needs its own range record and the one before; and must not be published anew."""
    name = unit.name
    floor = log.floor(ranges(name)).number
    if max(first - 1, 0) < floor:
        return f"its own batches before {floor} are trimmed"
    if first > 0 and log.range(name, first - 1) is None:
        return f"its range record {first - 1} is gone"
    floor = log.floor(slices(name)).number
    if first < floor and not isinstance(log.records.execute(Get(slices(name), floor)), Seal):
        return f"what it published before batch {floor} was read and trimmed"
    return None


def _missing_input(
    log: SliceLog,
    deployment: Deployment,
    segment: Segment,
    after: int,
    fresh: Collection[str],
) -> str | None:
    steps = log.steps()
    for stream in deployment.streams_read(segment):
        if stream in fresh or not _has_begun(log, stream):
            continue
        if not log.run(steps.is_whole(stream, after)):
            boundary = next(
                name for name in segment.inputs if deployment.producer(name).name == stream
            )
            return f"the first slices of its input {boundary} are trimmed"
    return None


def _has_begun(log: SliceLog, stream: str) -> bool:
    return isinstance(log.records.execute(Get(changes(stream), 0)), Change)
