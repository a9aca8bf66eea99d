"""Segments that begin anew at a stated epoch: reset ones, and sinks that are added later.

A segment that is reset takes all that read from it along, so nothing that lives has read what it
published after that epoch. Its stream is *halted* there: what the old logs hold beyond is void, the
new ones go on from it. A sink that is added is a stream whose first change says where it begins.
The epoch must be an end of all that is read from outside, and still be there.

All of it is one decision (`holdfast.streams.restart`): one who is killed before it is on record has
changed nothing, and what one who is killed later leaves is carried out when the run next starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.runtime.log.crash import RESTART_POINT, Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import first_change
from holdfast.streams.records import Change, Restart
from holdfast.streams.steps import Operation, Put, drive

Start: TypeAlias = int | Literal["now", "earliest"]
"""The first epoch that is read."""
Prepare: TypeAlias = Callable[[Restart], None]
"""What is to be done before any unit of a restart begins; may be done twice."""


def affected(deployment: Deployment, operators: Collection[str]) -> tuple[Segment, ...]:
    """The segments of some operators and all that read from them, directly or not."""
    chosen: list[Segment] = []
    logs: set[str] = set()
    for segment in deployment.segments:
        if set(segment.operators) & set(operators) or set(segment.inputs) & logs:
            chosen.append(segment)
            logs.update(boundary.name for boundary in segment.outputs)
    return tuple(chosen)


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
        return _earliest(log, streams, name)
    if start == "now":
        return newest_end(log, streams or [name]) + 1
    if not streams and start > (newest := newest_end(log, [name]) + 1):
        raise BadInputError(
            f"epoch {start} lies beyond its end", where=name, hint=f"--from {newest}"
        )
    if not ends_at(log, streams, start - 1):
        raise BadInputError(
            f"epoch {start} is not the first after an end of {', '.join(streams)}",
            where=name,
            hint=nearest(log, streams, start),
        )
    return start


def _earliest(log: SliceLog, streams: Sequence[str], name: str) -> int:
    """The first epoch from which on all streams are there; each may end at epochs of its own."""
    found = log.run(log.steps().first_whole_epoch(streams))
    if found is None:
        raise BadInputError("its inputs have no end in common that is left", where=name)
    return found


def begin_anew(
    log: SliceLog,
    deployment: Deployment,
    starts: Mapping[str, int],
    *,
    besides: Sequence[Change] = (),
    prepare: Prepare = lambda _: None,
    crash: Crash | None = None,
) -> Deployment:
    """Decide that segments begin at an epoch, and carry it out.

    Args:
        log: where that is recorded.
        deployment: what is to run.
        starts: segments to the first epoch they read.
        besides: what becomes of other streams at the same time.
        prepare: called once it is decided and before any of them begins.
        crash: where to die.

    Returns: the deployment with the units that they begin with.
    """
    asked = []
    for segment in reversed(deployment.segments):  # readers before what they read
        if segment.name in starts:
            epoch = starts[segment.name]
            known = log.run(log.steps().changes_of(segment.name))
            fresh = replace(segment, change=len(known))
            reason = f"begun anew at epoch {epoch}" if known else f"added at epoch {epoch}"
            asked.append(first_change(fresh, start=epoch - 1, reason=reason))
    return restart(log, deployment, [*asked, *besides], prepare=prepare, crash=crash)


def restart(
    log: SliceLog,
    deployment: Deployment,
    asked: Sequence[Change],
    *,
    prepare: Prepare = lambda _: None,
    crash: Crash | None = None,
) -> Deployment:
    """Decide on changes at once, and carry them out; gives the deployment with their units."""
    execute, names = _mortal(log, crash), ", ".join(sorted(change.stream for change in asked))
    decision = log.steps().decide_restart(asked, deployment=deployment.to_json(), reason=names)
    if not drive(decision, execute):
        raise BadInputError(
            "was begun anew by somebody else meanwhile",
            where=names,
            hint="is the run going on elsewhere?",
        )
    _finish(log, prepare, execute)
    return with_changes(log, deployment)


def finish_restart(log: SliceLog, prepare: Prepare, crash: Crash | None = None) -> None:
    """Carry out what somebody has decided who was killed before all of it was done."""
    _finish(log, prepare, _mortal(log, crash))


def _finish(log: SliceLog, prepare: Prepare, execute: Callable[[Operation], Any]) -> None:
    steps = log.steps()
    record = drive(steps.newest_restart(), execute)
    if record is not None and not drive(steps.is_carried_out(record.number), execute):
        prepare(record)
        drive(steps.carry_out_restart(record), execute)


def _mortal(log: SliceLog, crash: Crash | None) -> Callable[[Operation], Any]:
    """Carries operations out, and may be killed after any put, as a test asks for."""
    if crash is None or not crash.spec:
        return log.records.execute
    puts = itertools.count()

    def execute(operation: Operation) -> Any:
        result = log.records.execute(operation)
        if isinstance(operation, Put):
            crash.at(RESTART_POINT, operation.record.kind, next(puts))
        return result

    return execute


def with_changes(log: SliceLog, deployment: Deployment) -> Deployment:
    """The deployment with the changes that its segments have begun with, as they are on record."""

    def begun(segment: Segment) -> Segment:
        known = log.run(log.steps().changes_of(segment.name))
        roots = [
            change.number
            for change in known
            if change.start is not None or change.since is not None
        ]
        return replace(segment, change=max(roots, default=0))

    return replace(deployment, segments=tuple(map(begun, deployment.segments)))


def newest_end(log: SliceLog, streams: Sequence[str]) -> int:
    """The newest end that streams share, -1 for none."""
    steps = log.steps()
    last = [log.run(steps.last_end(stream)) for stream in streams if log.carriers(stream)]
    newest = min(last, default=-1)
    while newest >= 0 and not all(
        log.run(log.steps().is_end(stream, newest)) for stream in streams
    ):
        newest -= 1
    return newest


def nearest(log: SliceLog, streams: Sequence[str], epoch: int, known: range | None = None) -> str:
    """Where one might begin around an epoch, in words; `known` are the epochs looked at."""
    if known is None:
        gone = max((log.run(log.steps().gone_upto(stream)) for stream in streams), default=-1)
        known = range(gone + 1, newest_end(log, streams) + 2)
    below = (at for at in reversed(known) if at < epoch)
    above = (at for at in known if at > epoch)
    before, after = (
        next((at for at in found if ends_at(log, streams, at - 1)), None)
        for found in (below, above)
    )
    near = " or ".join(f"--from {at}" for at in (before, after) if at is not None)
    return near or "--from earliest or --from now"


def ends_at(log: SliceLog, streams: Sequence[str], epoch: int) -> bool:
    """Whether a batch may have ended there, in the present life of all that is read."""
    steps = log.steps()
    return all(
        epoch >= log.run(steps.begun_after(stream))
        and (epoch < 0 or log.run(steps.is_end(stream, epoch)))
        for stream in streams
    )
