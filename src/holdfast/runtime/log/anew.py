"""Segments that begin anew at a stated epoch: reset ones, and sinks that are added later.

A segment that is reset takes all that read from it along, so nothing that lives has read what it
published after that epoch. Its stream is *cut* there: what the old logs hold beyond is void, the
new ones go on from it. A sink that is added is a stream whose first change says where it begins.
The epoch must be an end of all that is read from outside, and still be there.

Readers come first. Whoever is killed in between leaves segments that begin at that epoch and read
what is there, as if they alone had been reset; asked again, it begins all of them once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.start import first_whole_epoch, is_end
from holdfast.runtime.log.wiring import first_change
from holdfast.streams.records import Change
from holdfast.streams.steps import Steps

Start: TypeAlias = int | Literal["now", "earliest"]
"""The first epoch that is read."""


def outside(deployment: Deployment, fresh: Sequence[Segment]) -> list[str]:
    """The streams that segments read which begin anew, and which do not begin anew themselves."""
    own = {segment.name for segment in fresh}
    read = [stream for segment in fresh for stream in deployment.streams_read(segment)]
    return [stream for stream in dict.fromkeys(read) if stream not in own]


def first_epoch(
    log: SliceLog, deployment: Deployment, fresh: Sequence[Segment], start: Start
) -> int:
    """The epoch that `start` means for segments that begin anew together; raises if none does."""
    streams = outside(deployment, fresh)
    name = fresh[0].name
    if start == "earliest":
        return _earliest(log, deployment, fresh)
    if start == "now":
        return _newest(log, streams or [name]) + 1
    if not _ends(log, streams, start - 1):
        raise BadInputError(
            f"epoch {start} is not the first after an end of {', '.join(streams)}",
            where=name,
            hint=_nearest(log, streams, start),
        )
    return start


def _earliest(log: SliceLog, deployment: Deployment, fresh: Sequence[Segment]) -> int:
    names = {segment.name for segment in fresh}
    found = [first_whole_epoch(log, deployment, item, names) for item in fresh]
    known = [epoch for epoch in found if epoch is not None]
    if len(known) < len(found):
        raise BadInputError("its inputs have no end in common that is left", where=fresh[0].name)
    return max(known, default=0)


def begin_anew(log: SliceLog, deployment: Deployment, starts: Mapping[str, int]) -> Deployment:
    """Put the changes of segments that begin at an epoch; gives the deployment with their units."""
    made: dict[str, Segment] = {}
    for segment in reversed(deployment.segments):
        if segment.name in starts:
            known = log.run(log.steps().changes_of(segment.name))
            fresh = replace(segment, change=len(known))
            epoch = starts[segment.name]
            change = first_change(
                fresh, start=epoch - 1, reason=f"begun anew at epoch {epoch}" if known else ""
            )
            log.run(_decide(log, change))
            made[segment.name] = fresh
    segments = tuple(made.get(segment.name, segment) for segment in deployment.segments)
    return replace(deployment, segments=segments)


def with_changes(log: SliceLog, deployment: Deployment) -> Deployment:
    """The deployment with the changes that its segments have begun with, as they are on record."""

    def begun(segment: Segment) -> Segment:
        known = log.run(log.steps().changes_of(segment.name))
        roots = [change.number for change in known if change.start is not None]
        return replace(segment, change=max(roots, default=0))

    return replace(deployment, segments=tuple(map(begun, deployment.segments)))


def _decide(log: SliceLog, change: Change) -> Steps[None]:
    steps = log.steps()
    if not (yield from steps.decide(replace(change, writer=log.writer))):
        raise BadInputError(
            f"change {change.number} of its stream was put by somebody else meanwhile",
            where=change.stream,
            hint="is the run going on elsewhere?",
        )
    if change.number:
        yield from steps.seal_cut(change)


def _newest(log: SliceLog, streams: Sequence[str]) -> int:
    """The newest end that streams share, -1 for none."""
    steps = log.steps()
    last = [log.run(steps.last_end(stream)) for stream in streams if log.carriers(stream)]
    newest = min(last, default=-1)
    while newest >= 0 and not all(is_end(log, stream, newest) for stream in streams):
        newest -= 1
    return newest


def _nearest(log: SliceLog, streams: Sequence[str], epoch: int) -> str:
    """Ends around an epoch, in words."""
    newest = _newest(log, streams)
    before = next((at for at in range(epoch - 1, -1, -1) if _ends(log, streams, at - 1)), None)
    after = next((at for at in range(epoch + 1, newest + 2) if _ends(log, streams, at - 1)), None)
    near = " or ".join(f"--from {at}" for at in (before, after) if at is not None)
    return near or "--from earliest or --from now"


def _ends(log: SliceLog, streams: Sequence[str], epoch: int) -> bool:
    return epoch < 0 or all(is_end(log, stream, epoch) for stream in streams)
